//! `/admin/digests/stopped`: the recipients who stopped the digests of the quarantine.

use gatepost_operations::Operations;
use serde_json::json;

use super::{count_of, skip_of};
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/admin/digests/stopped`, `/admin/digests/stopped/KIND/NAME`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    recipient: &str,
) -> Result<HttpResponse, HttpError> {
    if recipient.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let page = (skip_of(request)?, count_of(request)?);
        let (recipients, total) = operations.stopped_digests(page).await?;
        let answer = json!({ "recipients": recipients, "total": total });
        return Ok(HttpResponse::json(200, &answer));
    }
    expect_method(request, &["DELETE"], "DELETE")?;
    let (kind, name) = recipient
        .split_once('/')
        .ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    operations.restart_digests(kind, name).await?;
    Ok(HttpResponse::empty(204))
}
