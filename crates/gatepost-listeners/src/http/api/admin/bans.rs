//! `/admin/bans`: which addresses are refused, and why.

use gatepost_bans::{BanError, Bans};
use gatepost_settings::{PeerNetwork, Period};
use serde::Deserialize;
use serde_json::json;

use super::body;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::Response;

/// Longer reasons say nothing more.
const REASON_CHARACTERS_MAX: usize = 200;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBan {
    network: PeerNetwork,
    /// Without it, the ban holds until it is lifted.
    #[serde(default)]
    time: Option<Period>,
    #[serde(default)]
    reason: String,
}

/// `/admin/bans`, `/admin/bans/NETWORK`
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    network: &str,
) -> Result<Response, HttpError> {
    let not_found = || HttpError::NotFound(request.path.clone());
    let bans = context.limits.admission.bans().ok_or_else(not_found)?;
    if network.is_empty() {
        expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
        if request.method() == "POST" {
            return add(bans, request).await;
        }
        return Ok(Response::json(200, &json!({ "bans": bans.list() })));
    }
    expect_method(request, &["DELETE"], "DELETE")?;
    // What is no network is not banned.
    let network = network.parse().map_err(|_| not_found())?;
    bans.remove(network).await?;
    Ok(Response::empty(204))
}

async fn add(bans: &Bans, request: &HttpRequest) -> Result<Response, HttpError> {
    let new: NewBan = body(request)?;
    if new.reason.chars().count() > REASON_CHARACTERS_MAX {
        return Err(HttpError::Parameter {
            name: "reason",
            detail: format!("write at most {REASON_CHARACTERS_MAX} characters"),
        });
    }
    let time = new.time.map(Period::duration);
    let added = bans.add(new.network, time, &new.reason).await?;
    Ok(Response::json(201, &added))
}

impl From<BanError> for HttpError {
    fn from(error: BanError) -> Self {
        match error {
            BanError::Exempt(_) | BanError::Full => Self::Conflict(error.to_string()),
            BanError::NoAddress | BanError::TooLarge(_) => Self::Parameter {
                name: "network",
                detail: error.to_string(),
            },
            BanError::NotBanned(network) => Self::NotFound(format!("a ban of {network}")),
            BanError::Store(error) => Self::Unavailable(error.to_string()),
        }
    }
}
