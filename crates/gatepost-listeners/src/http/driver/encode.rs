//! Responses as HTTP/1.1 bytes.

use bytes::Bytes;
use gatepost_pages::access_log::push_number;
use gatepost_pages::{PageOutput, clock};

use super::output::Output;
use crate::http::response::{HttpResponse, ResponseBody, reason};

/// The way in which the client finds the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// By its length.
    Known(u64),
    /// By the chunked coding.
    Chunked,
    /// By the end of the connection, for HTTP/1.0.
    UntilClose,
    /// There can be no body (1xx, 204, 304).
    None,
}

/// Appends a status line and header fields up to the blank line.
pub(super) fn push_head<'a>(
    text: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    length: Length,
    keep_alive: bool,
) {
    text.extend_from_slice(b"HTTP/1.1 ");
    push_number(text, u64::from(status));
    text.push(b' ');
    text.extend_from_slice(reason(status).as_bytes());
    text.extend_from_slice(b"\r\nServer: gatepost\r\nDate: ");
    clock::push_http_date(text);
    // No browser may guess another type than the declared one.
    text.extend_from_slice(b"\r\nX-Content-Type-Options: nosniff\r\n");
    for (name, value) in fields {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    match length {
        Length::Known(bytes) => {
            text.extend_from_slice(b"Content-Length: ");
            push_number(text, bytes);
            text.extend_from_slice(b"\r\n");
        }
        Length::Chunked => text.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Length::UntilClose | Length::None => {}
    }
    if !keep_alive {
        text.extend_from_slice(b"Connection: close\r\n");
    }
    text.extend_from_slice(b"\r\n");
}

fn push_response_head(
    text: &mut Vec<u8>,
    response: &HttpResponse,
    length: Length,
    keep_alive: bool,
) {
    let fields = response
        .fields
        .iter()
        .map(|(name, value)| (name.as_ref(), value.as_ref()));
    push_head(text, response.status, fields, length, keep_alive);
}

/// The length of a body that is not a stream.
pub(super) fn body_length(response: &HttpResponse) -> Length {
    match &response.body {
        _ if response.status < 200 || matches!(response.status, 204 | 304) => Length::None,
        ResponseBody::Pieces(pieces) => {
            Length::Known(pieces.iter().map(|piece| piece.len() as u64).sum())
        }
        ResponseBody::File { length, .. } => Length::Known(*length),
        ResponseBody::Stream { .. } => Length::Chunked,
        ResponseBody::WebSocket { .. } => Length::None,
    }
}

/// Appends a response whose body is pieces.
pub(super) fn push_response(
    output: &mut Output,
    response: &HttpResponse,
    without_body: bool,
    keep_alive: bool,
) {
    let length = body_length(response);
    output.text(|text| push_response_head(text, response, length, keep_alive));
    if let (ResponseBody::Pieces(pieces), false) = (&response.body, without_body) {
        for piece in pieces {
            output.shared(piece);
        }
    }
}

/// A response's bytes: the head, then the pieces of the body.
pub(super) fn response_bytes(
    response: &HttpResponse,
    without_body: bool,
    keep_alive: bool,
) -> Vec<Bytes> {
    let mut bytes = vec![head_bytes(response, body_length(response), keep_alive)];
    if let (ResponseBody::Pieces(pieces), false) = (&response.body, without_body) {
        bytes.extend(pieces.iter().cloned());
    }
    bytes
}

/// A response's head.
pub(super) fn head_bytes(response: &HttpResponse, length: Length, keep_alive: bool) -> Bytes {
    let mut text = Vec::with_capacity(256);
    push_response_head(&mut text, response, length, keep_alive);
    text.into()
}
