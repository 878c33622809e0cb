//! `/admin/bans`: the refused addresses and users, with reasons.

use std::time::Duration;

use gatepost_bans::{BanError, Bans, USER_PREFIX};
use gatepost_settings::{PeerNetwork, Period};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The longest reason.
const REASON_CHARACTERS_MAX: usize = 200;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBan {
    /// An address or network, or `user:NAME`.
    network: String,
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
) -> Result<HttpResponse, HttpError> {
    let bans = of_context(context)?;
    if network.is_empty() {
        expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
        if request.method() == "POST" {
            return add(context, request).await;
        }
        return Ok(HttpResponse::json(200, &json!({ "bans": bans.list() })));
    }
    expect_method(request, &["DELETE"], "DELETE")?;
    if let Some(name) = network.strip_prefix(USER_PREFIX) {
        bans.users().remove(name).await?;
        rights_changed(context).await?;
        return Ok(HttpResponse::empty(204));
    }
    // A text that is not a network cannot be banned.
    let network = network.parse();
    let network = network.map_err(|_| HttpError::NotFound(request.path.clone()))?;
    bans.remove(network).await?;
    Ok(HttpResponse::empty(204))
}

/// The bans in force.
pub(super) fn of_context(context: &HttpContext) -> Result<&Bans, HttpError> {
    let bans = context.limits.admission.bans();
    bans.ok_or_else(|| HttpError::Missing("there is no list of bans on this server".to_owned()))
}

/// Bans a network.
pub(super) async fn ban_network(
    context: &HttpContext,
    network: PeerNetwork,
    time: Option<Duration>,
    reason: &str,
) -> Result<Value, HttpError> {
    check_reason(reason)?;
    let added = of_context(context)?.add(network, time, reason).await?;
    Ok(json!(added))
}

/// Bans a user, and ends its MQTT connections, which are counted; those of other protocols end by
/// the change of rights.
pub(super) async fn ban_user(
    context: &HttpContext,
    name: &str,
    time: Option<Duration>,
    reason: &str,
) -> Result<(Value, usize), HttpError> {
    check_reason(reason)?;
    gatepost_users::check_user_name(name).map_err(|error| HttpError::Parameter {
        name: "network",
        detail: error.to_string(),
    })?;
    let folded = name.to_lowercase();
    let users = context
        .auth
        .as_ref()
        .map(gatepost_users::ListenerAuth::users);
    let all = users.map(gatepost_users::Users::list).unwrap_or_default();
    let is_it = |user: &gatepost_users::UserSummary| user.name.to_lowercase() == folded;
    if all.iter().any(|user| is_it(user) && user.admin) {
        let text = format!("{name} is an administrator, who cannot be banned");
        return Err(HttpError::Conflict(text));
    }
    let added = of_context(context)?.users().add(name, time, reason).await?;
    let broker = &context.services.broker;
    let is_banned = |user: Option<&str>| user.is_some_and(|user| user.to_lowercase() == folded);
    let ended = broker.end_connections_of(|user, _| is_banned(user));
    rights_changed(context).await?;
    Ok((json!(added), ended))
}

/// Makes open connections check their rights again.
async fn rights_changed(context: &HttpContext) -> Result<(), HttpError> {
    let users = context
        .auth
        .as_ref()
        .map(gatepost_users::ListenerAuth::users);
    if let Some(users) = users {
        let changed = users.bans_changed().await;
        changed.map_err(|error| HttpError::Unavailable(error.to_string()))?;
    }
    Ok(())
}

async fn add(context: &HttpContext, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    let new: NewBan = body(request)?;
    let time = new.time.map(Period::duration);
    let added = if let Some(name) = new.network.strip_prefix(USER_PREFIX) {
        ban_user(context, name, time, &new.reason).await?.0
    } else {
        let network = new.network.parse();
        let network = network.map_err(|_| BanError::NoAddress)?;
        ban_network(context, network, time, &new.reason).await?
    };
    Ok(HttpResponse::json(201, &added))
}

fn check_reason(reason: &str) -> Result<(), HttpError> {
    if reason.chars().count() > REASON_CHARACTERS_MAX {
        return Err(HttpError::Parameter {
            name: "reason",
            detail: format!("write at most {REASON_CHARACTERS_MAX} characters"),
        });
    }
    Ok(())
}

impl From<BanError> for HttpError {
    fn from(error: BanError) -> Self {
        match error {
            BanError::Exempt(_) | BanError::Full => Self::Conflict(error.to_string()),
            BanError::NoAddress | BanError::TooLarge(_) => Self::Parameter {
                name: "network",
                detail: error.to_string(),
            },
            BanError::NotBanned(network) => Self::Missing(format!("there is no ban of {network}")),
            BanError::UserNotBanned(name) => {
                Self::Missing(format!("there is no ban of the user {name}"))
            }
            BanError::Store(error) => Self::Unavailable(error.to_string()),
        }
    }
}
