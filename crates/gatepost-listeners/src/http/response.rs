//! A response independent of its encoding.

use std::borrow::Cow;
use std::fs::File;

use bytes::Bytes;
use gatepost_broker::LocalSubscription;
use gatepost_message::MessageId;

use super::event_stream::StreamFormat;
use super::stream_rights::StreamRights;

/// The response of a handler.
#[derive(Debug)]
pub(super) struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Header fields in addition to those of the encoding.
    pub fields: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// The body.
    pub body: ResponseBody,
    /// The message that the request made, for the log.
    pub message: Option<MessageId>,
}

/// A response's body.
pub(super) enum ResponseBody {
    /// Bytes, in pieces that are written as they are.
    Pieces(Vec<Bytes>),
    /// A range of a file, read while it is written.
    File {
        /// The open file.
        file: File,
        /// The first byte.
        start: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Publications as they are published.
    Stream {
        /// The source of the events.
        reader: Box<LocalSubscription>,
        /// The format of the events.
        format: StreamFormat,
        /// The rights that end the stream when they are lost.
        rights: Box<StreamRights>,
    },
    /// The connection becomes a WebSocket that carries MQTT.
    WebSocket {
        /// The value that proves that the handshake was understood.
        accept: String,
    },
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Pieces(_) => "Pieces",
            Self::File { .. } => "File",
            Self::Stream { .. } => "Stream",
            Self::WebSocket { .. } => "WebSocket",
        })
    }
}

impl HttpResponse {
    /// A response without body.
    pub(super) const fn empty(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            body: ResponseBody::Pieces(Vec::new()),
            message: None,
        }
    }

    /// A body of this type.
    pub(super) fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut response = Self::empty(status);
        response.field("Content-Type", content_type);
        response.body = ResponseBody::Pieces(vec![body.into()]);
        response
    }

    /// A JSON body.
    pub(super) fn json(status: u16, value: &impl serde::Serialize) -> Self {
        let mut text = serde_json::to_vec(value).unwrap_or_default();
        text.push(b'\n');
        let mut response = Self::new(status, "application/json", text);
        response.field("Cache-Control", "no-store");
        response
    }

    /// Adds a header field. A value with a line break is omitted, so that a peer's text cannot
    /// inject a field.
    pub(super) fn field(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) {
        let value = value.into();
        if value
            .bytes()
            .all(|byte| byte >= 0x20 && byte != 0x7f || byte == b'\t')
        {
            self.fields.push((name.into(), value));
        }
    }

    /// The same with one more header field.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.field(name, value);
        self
    }
}

/// The text beside a status code.
pub(super) const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
