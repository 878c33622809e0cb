//! The audit log: every change through `/admin` is recorded in one place, and `/admin/changes`
//! shows the latest ones.

use gatepost_operations::{AdminChange, Operations};
use serde_json::{Value, json};

use super::count_of;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// Longer details are cut.
const DETAILS_BYTES_MAX: usize = 4_096;

/// Records a request that was carried out and may have changed something.
pub(super) async fn record(operations: &Operations, request: &HttpRequest) {
    if matches!(request.method(), "GET" | "HEAD" | "OPTIONS") {
        return;
    }
    operations.audit(change_of(request)).await;
}

/// The change that a request makes.
pub(super) fn change_of(request: &HttpRequest) -> AdminChange {
    AdminChange {
        user: request.user().map(str::to_owned),
        peer: request.peer,
        action: format!("{} {}", request.method(), request.path),
        details: details(request),
    }
}

/// `/admin/changes`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let changes = operations.changes(count_of(request)?).await?;
    Ok(HttpResponse::json(200, &json!({ "changes": changes })))
}

/// The members of the body and of the query, but no password.
fn details(request: &HttpRequest) -> Value {
    let mut details = match serde_json::from_slice(&request.body) {
        Ok(Value::Object(members)) if request.body.len() <= DETAILS_BYTES_MAX => members,
        _ => serde_json::Map::new(),
    };
    for (name, value) in request.query_values() {
        details.entry(name).or_insert(Value::String(value));
    }
    details.retain(|name, _| !matches!(name.as_str(), "password" | "auth"));
    Value::Object(details)
}
