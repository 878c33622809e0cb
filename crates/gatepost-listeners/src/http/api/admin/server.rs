//! `/admin/log` and `/admin/settings`: the latest lines of the log, and the settings in force.

use gatepost_operations::{LogLevel, Operations};
use serde_json::json;

use super::count_of;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/admin/log`
pub(super) fn log(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let level = request.query_value("level").unwrap_or_default();
    let level = match level.as_str() {
        "" => Some(LogLevel::Info),
        name => LogLevel::from_name(name),
    };
    let level = level.ok_or_else(|| HttpError::Parameter {
        name: "level",
        detail: "write error, warn or info".to_owned(),
    })?;
    let search = request.query_value("search").unwrap_or_default();
    let lines = operations.log.latest(level, &search, count_of(request)?);
    Ok(HttpResponse::json(200, &json!({ "lines": lines })).with("Cache-Control", "no-store"))
}

/// `/admin/settings`
pub(super) fn settings(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let search = request.query_value("search").unwrap_or_default();
    let (settings, total) = operations.settings.find(&search);
    let answer = json!({ "settings": settings, "total": total });
    Ok(HttpResponse::json(200, &answer).with("Cache-Control", "no-store"))
}
