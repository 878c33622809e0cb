//! Access log lines of the HTTP listener.

use std::time::Duration;

use gatepost_message::Peer;
use gatepost_pages::access_log::LoggedRequest;

use super::context::HttpContext;
use super::request::HttpRequest;
use super::response::HttpResponse;

/// A page that a page worker helped to make.
pub(super) fn worker_page(
    context: &HttpContext,
    peer: &str,
    request: &HttpRequest,
    body_bytes: u64,
) {
    context.access_log.append(&LoggedRequest {
        peer,
        user: None,
        method: request.method(),
        target: request.target(),
        version: request.version.name(),
        status: 200,
        body_bytes,
        referer: request.field_bytes("referer").next(),
        user_agent: request.field_bytes("user-agent").next(),
        message: None,
        host: request.field_bytes("host").next(),
        duration: request.began.elapsed(),
    });
}

/// A request answered by a handler.
pub(super) fn answered(
    context: &HttpContext,
    (peer, peer_text): (Peer, &str),
    request: &HttpRequest,
    response: &HttpResponse,
    body_bytes: u64,
) {
    context.requests.count(response.status);
    context.access_log.append(&LoggedRequest {
        peer: &request.client(peer, peer_text),
        user: request.user(),
        method: request.method(),
        target: request.target(),
        version: request.version.name(),
        status: response.status,
        body_bytes,
        referer: request.field_bytes("referer").next(),
        user_agent: request.field_bytes("user-agent").next(),
        message: response.message,
        host: request.field_bytes("host").next(),
        duration: request.began.elapsed(),
    });
}

/// A request whose head could not be understood.
pub(super) fn refused(context: &HttpContext, peer: &str, status: u16) {
    context.requests.count(status);
    context.access_log.append(&LoggedRequest {
        peer,
        user: None,
        method: "-",
        target: "-",
        version: "-",
        status,
        body_bytes: 0,
        referer: None,
        user_agent: None,
        message: None,
        host: None,
        duration: Duration::ZERO,
    });
}
