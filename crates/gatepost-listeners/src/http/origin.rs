//! Requests that a page of another origin makes a browser send.
//!
//! A browser sends a visitor's request to this machine's loopback as readily as anywhere, so
//! without this any web page could publish here. Browsers name the page's origin; programs that
//! are no browsers name none and are not concerned.

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;

/// Refuses what changes something, or opens a WebSocket, for a page of an origin that is neither
/// ours nor allowed.
pub(super) fn check(context: &HttpContext, request: &Request) -> Result<(), HttpError> {
    let reads = matches!(request.method(), "GET" | "HEAD" | "OPTIONS");
    if reads && request.path != "/mqtt" {
        return Ok(());
    }
    let Some(origin) = request.field("origin") else {
        return Ok(());
    };
    if is_own(request, origin) || is_allowed(context, origin) {
        return Ok(());
    }
    Err(HttpError::CrossOrigin(origin.chars().take(200).collect()))
}

/// Refuses a form that a browser says comes from elsewhere; a page that may publish from another
/// origin still has no forms here. Browsers that name no origin name at least the page.
pub(super) fn expect_own(request: &Request) -> Result<(), HttpError> {
    let foreign = |name: &str| Err(HttpError::CrossOrigin(name.chars().take(200).collect()));
    match request.field("sec-fetch-site") {
        None | Some("same-origin" | "none") => {}
        Some(site) => return foreign(site),
    }
    let page = request.field("origin").or_else(|| request.field("referer"));
    match page {
        Some(page) if !is_own(request, page) => foreign(page),
        _ => Ok(()),
    }
}

fn is_own(request: &Request, origin: &str) -> bool {
    let host = request.field("host").unwrap_or_default();
    origin
        .split_once("://")
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default())
        .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn is_allowed(context: &HttpContext, origin: &str) -> bool {
    let allowed = &context.settings.origins;
    allowed.iter().any(|entry| entry == "*" || entry == origin)
}

/// The answer to a browser that asks beforehand (CORS), where the origin is allowed.
pub(super) fn preflight(context: &HttpContext, request: &Request) -> Option<Response> {
    let origin = request.field("origin")?;
    request.field("access-control-request-method")?;
    if request.method() != "OPTIONS" || !is_allowed(context, origin) {
        return None;
    }
    let mut response = Response::empty(204)
        .with(
            "Access-Control-Allow-Methods",
            "GET, HEAD, POST, PUT, DELETE, PATCH",
        )
        .with("Access-Control-Max-Age", "600");
    if let Some(fields) = request.field("access-control-request-headers") {
        response.field("Access-Control-Allow-Headers", fields.to_owned());
    }
    Some(response)
}

/// Lets a page of an allowed origin read the answer. An origin that is allowed by name may send
/// what the visitor is logged in with; `"*"` gives nobody that.
pub(super) fn mark(context: &HttpContext, request: &Request, response: &mut Response) {
    if context.settings.origins.is_empty() {
        return;
    }
    response.field("Vary", "Origin");
    let Some(origin) = request.field("origin") else {
        return;
    };
    if context.settings.origins.iter().any(|entry| entry == origin) {
        response.field("Access-Control-Allow-Origin", origin.to_owned());
        response.field("Access-Control-Allow-Credentials", "true");
    } else if is_allowed(context, origin) {
        response.field("Access-Control-Allow-Origin", "*");
    }
}
