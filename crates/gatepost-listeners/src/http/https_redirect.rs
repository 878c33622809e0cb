//! Redirects to the same path over HTTPS.

use super::error::HttpError;
use super::request::HttpRequest;
use super::response::HttpResponse;

/// Status 308: the method and the body are kept.
pub(super) fn to_https(request: &HttpRequest, port: u16) -> Result<HttpResponse, HttpError> {
    let host = request.field("host").unwrap_or_default();
    let name = match host.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(HttpError::Target("the Host field names no host"));
    }
    let port = match port {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let target = request.target();
    // A target in absolute form, or an asterisk, has no path to keep.
    let target = if target.starts_with('/') { target } else { "/" };
    Ok(HttpResponse::empty(308).with("Location", format!("https://{name}{port}{target}")))
}
