//! `/admin/clock`: rows that have expired by a clock that jumped ahead, which are kept until an
//! administrator accepts the clock.

use gatepost_store::HeldExpiry;
use serde_json::{Value, json};

use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `GET` shows the rows that are held back, `POST` accepts the clock and returns them.
pub(super) fn respond(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    let store = &context.services.store;
    let held = if request.method() == "POST" {
        store.accept_clock()
    } else {
        store.held_expiry()
    };
    let held = held.map(to_json);
    Ok(HttpResponse::json(200, &json!({ "held": held })))
}

fn to_json(held: HeldExpiry) -> Value {
    json!({ "rows": held.rows, "ahead_seconds": held.ahead.as_secs() })
}
