//! `/openapi.json`: the API described for programs.

use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::routes::expect_method;

/// OpenAPI 3.1.
const DESCRIPTION: &str = include_str!("assets/openapi.json");

pub(super) fn respond(request: &Request) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    Ok(Response::new(200, "application/json", DESCRIPTION).with("Cache-Control", "no-cache"))
}
