//! Access log lines of the HTTP listener.

use gatepost_message::Peer;
use gatepost_pages::access_log::Line;

use super::HttpContext;
use super::head::Head;
use super::request::{Request, Version};
use super::response::Response;

/// A request answered from the read buffer.
pub(super) fn quick(
    context: &HttpContext,
    peer: &str,
    head: &Head<'_, '_>,
    status: u16,
    body_bytes: u64,
) {
    context.access_log.append(&Line {
        peer,
        user: None,
        method: head.method,
        target: head.target,
        version: Version::from(head).name(),
        status,
        body_bytes,
        referer: head.referer,
        user_agent: head.user_agent,
        message: None,
    });
}

/// A page of which some part was code.
pub(super) fn coded(context: &HttpContext, peer: &str, request: &Request, body_bytes: u64) {
    context.access_log.append(&Line {
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
    });
}

/// A request answered by a handler.
pub(super) fn answered(
    context: &HttpContext,
    (peer, peer_text): (Peer, &str),
    request: &Request,
    response: &Response,
    body_bytes: u64,
) {
    context.requests.count(response.status);
    context.access_log.append(&Line {
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
    });
}

/// A request whose head could not be understood.
pub(super) fn refused(context: &HttpContext, peer: &str, status: u16) {
    context.requests.count(status);
    context.access_log.append(&Line {
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
    });
}
