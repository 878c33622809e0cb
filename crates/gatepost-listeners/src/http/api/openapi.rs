//! `/openapi.json`: the API described for programs.

use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// OpenAPI 3.1.
const DESCRIPTION: &str = include_str!("../assets/openapi.json");

pub(in crate::http) fn respond(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    Ok(HttpResponse::new(200, "application/json", DESCRIPTION).with("Cache-Control", "no-cache"))
}
