//! `/admin/delayed`: the messages that wait for their time.

use gatepost_message::MessageId;

use super::{count_of, skip_of};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/admin/delayed`, `/admin/delayed/ID`
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    id: &str,
) -> Result<HttpResponse, HttpError> {
    let gateway = &context.services.gateway;
    if id.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let listing = gateway.delayed(skip_of(request)?, count_of(request)?);
        return Ok(HttpResponse::json(200, &listing));
    }
    expect_method(request, &["DELETE"], "DELETE")?;
    let unknown = || HttpError::Missing(format!("there is no waiting message with the id {id}"));
    let id: MessageId = id.parse().map_err(|_| unknown())?;
    let cancelled = gateway.cancel_delayed_id(id).await;
    if cancelled.map_err(|error| HttpError::Unavailable(error.to_string()))? {
        Ok(HttpResponse::empty(204))
    } else {
        Err(unknown())
    }
}
