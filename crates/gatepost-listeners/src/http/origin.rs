//! Requests that a page of another origin makes a browser send.
//!
//! A browser sends a visitor's request to this machine's loopback as readily as anywhere, so
//! without this any web page could publish here. Browsers name the page's origin; programs that
//! are no browsers name none and are not concerned.

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;

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
    let host = request.field("host").unwrap_or_default();
    let own = origin
        .split_once("://")
        .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
    let allowed = &context.settings.origins;
    if own || allowed.iter().any(|entry| entry == "*" || entry == origin) {
        return Ok(());
    }
    Err(HttpError::CrossOrigin(origin.chars().take(200).collect()))
}
