//! Errors of requests: one table of statuses, codes and texts, and the one place
//! where an error becomes a response.
//!
//! Codes are stable: the status times one hundred plus a number. Clients may rely on them.

use gatepost_gateway::AttachmentError;
use gatepost_message::TopicError;
use gatepost_pages::RenderError;
use gatepost_pages::forms::FormError;
use gatepost_settings::MalformedPeriod;
use gatepost_users::LoginRefusal;

use super::response::HttpResponse;

/// The reason why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each variant's text is in the table
pub(super) enum HttpError {
    #[error("{0}")]
    MalformedHead(&'static str),
    #[error("{0}")]
    Framing(&'static str),
    #[error("{0}")]
    Target(&'static str),
    #[error("{0}")]
    Chunk(&'static str),
    #[error("{0}")]
    Topic(#[from] TopicError),
    #[error("{name}: {detail}")]
    Parameter { name: &'static str, detail: String },
    #[error("{0} does not come from this server's own pages; listeners.http.origins may allow it")]
    CrossOrigin(String),
    #[error("there is nothing at {0}")]
    NotFound(String),
    #[error("{0}")]
    Missing(String),
    #[error("there is no procedure {0}")]
    NoProcedure(String),
    #[error("{path} takes {allow}")]
    Method { path: String, allow: &'static str },
    #[error("{0}")]
    RequestTimeout(&'static str),
    #[error("{0}")]
    Denied(LoginRefusal),
    #[error("{0} may not do this")]
    Forbidden(String),
    #[error("topics that begin with '$' are the server's own; nothing is published there")]
    ServerTopic,
    #[error("this address is banned for a while; an administrator can lift the ban")]
    Banned,
    #[error(
        "until the first user exists, this is served only to clients on this machine that address \
         it by a local name; `gatepost user add NAME --admin` on it adds the first user, who can \
         log in from anywhere"
    )]
    NoUserYet,
    #[error("{0}")]
    NoTopic(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Body(String),
    #[error("write it as {0}")]
    MediaType(&'static str),
    #[error("{0}")]
    Unavailable(String),
    #[error("more requests than are allowed in a second; try again in {0} s")]
    TooManyRequests(u64),
    #[error("more mail than is allowed in an hour; try again in {0} s")]
    TooManyEmails(u64),
    #[error("a precondition of the request is not fulfilled")]
    PreconditionFailed,
    #[error("a body has at most {0} bytes")]
    BodyTooLarge(u64),
    #[error("{0}")]
    Attachment(#[from] AttachmentError),
    #[error("a request target has at most {0} bytes")]
    TargetTooLong(usize),
    #[error("{0}")]
    Form(#[from] FormError),
    #[error("the file has {0} bytes")]
    Range(u64),
    #[error("{0}")]
    Expectation(String),
    #[error("{0}")]
    Upgrade(&'static str),
    #[error("a head has at most {0} bytes")]
    HeadTooLarge(u64),
    #[error("a head has at most {0} fields")]
    TooManyFields(usize),
    #[error("error {0}")]
    Internal(String),
    #[error("the only supported transfer coding is \"chunked\"")]
    TransferCoding,
    #[error("no method {0} is known")]
    UnknownMethod(String),
    #[error("{0}")]
    Busy(&'static str),
    #[error("the supported versions are HTTP/1.0, HTTP/1.1 and HTTP/2")]
    Version,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ErrorRow {
    /// The response's status.
    pub status: u16,
    /// The stable code.
    pub code: u32,
    /// The general description of the error.
    pub text: &'static str,
}

impl HttpError {
    /// The error's row of the table.
    pub(super) const fn row(&self) -> ErrorRow {
        let (status, number, text) = match self {
            Self::MalformedHead(_) => (400, 1, "malformed request head"),
            Self::Framing(_) => (400, 2, "the length of the body is ambiguous"),
            Self::Target(_) => (400, 3, "malformed request target"),
            Self::Chunk(_) => (400, 4, "malformed chunked body"),
            Self::Topic(_) => (400, 5, "malformed topic"),
            Self::Parameter { .. } => (400, 6, "malformed parameter"),
            Self::Denied(LoginRefusal::Malformed(_)) => (400, 7, "malformed login"),
            Self::Denied(LoginRefusal::Anonymous | LoginRefusal::Credentials) => {
                (401, 1, "a login is needed")
            }
            Self::Denied(LoginRefusal::Disabled) => (403, 2, "the user is switched off"),
            Self::Denied(LoginRefusal::Banned { .. }) => (403, 7, "the user is banned"),
            Self::Denied(LoginRefusal::TooMany { .. }) => (429, 2, "too many failed logins"),
            Self::Denied(LoginRefusal::Busy) => (503, 2, "too many logins at once"),
            Self::Forbidden(_) => (403, 3, "not allowed"),
            Self::Form(_) => (403, 4, "form refused"),
            Self::NoUserYet => (403, 5, "there is no user yet"),
            Self::ServerTopic => (403, 8, "topic of the server"),
            Self::Banned => (403, 6, "address banned"),
            Self::NoTopic(_) => (
                409,
                1,
                "the message has no recipient or topic to release it to",
            ),
            Self::Conflict(_) => (409, 2, "in conflict with the present state"),
            Self::Body(_) => (400, 8, "malformed body"),
            Self::Unavailable(_) => (503, 3, "not available"),
            Self::CrossOrigin(_) => (403, 1, "refused to a page of another origin"),
            Self::NotFound(_) | Self::Missing(_) => (404, 1, "not found"),
            Self::NoProcedure(_) => (404, 2, "no such procedure"),
            Self::Method { .. } => (405, 1, "method not allowed"),
            Self::RequestTimeout(_) => (408, 1, "request timed out"),
            Self::PreconditionFailed => (412, 1, "precondition failed"),
            Self::BodyTooLarge(_) => (413, 1, "body too large"),
            Self::Attachment(error) => attachment_row(error),
            Self::TargetTooLong(_) => (414, 1, "request target too long"),
            Self::MediaType(_) => (415, 1, "another content type is needed"),
            Self::Range(_) => (416, 1, "range not satisfiable"),
            Self::Expectation(_) => (417, 1, "expectation not understood"),
            Self::Upgrade(_) => (426, 1, "upgrade required"),
            Self::TooManyRequests(_) => (429, 1, "too many requests"),
            Self::TooManyEmails(_) => (429, 3, "too many mails"),
            Self::HeadTooLarge(_) => (431, 1, "request head too large"),
            Self::TooManyFields(_) => (431, 2, "too many header fields"),
            Self::Internal(_) => (500, 1, "internal error"),
            Self::TransferCoding => (501, 1, "transfer coding not implemented"),
            Self::UnknownMethod(_) => (501, 2, "method not implemented"),
            Self::Busy(_) => (503, 1, "busy"),
            Self::Version => (505, 1, "HTTP version not supported"),
        };
        ErrorRow {
            status,
            code: status as u32 * 100 + number,
            text,
        }
    }

    /// The response that reports the error: JSON with `code`, `error` and `detail`.
    pub(super) fn response(&self) -> HttpResponse {
        let row = self.row();
        let body = serde_json::json!({
            "code": row.code,
            "error": row.text,
            "detail": self.to_string(),
        });
        let mut response = HttpResponse::json(row.status, &body);
        match self {
            Self::Method { allow, .. } => response.field("Allow", *allow),
            Self::Range(length) => response.field("Content-Range", format!("bytes */{length}")),
            Self::Denied(LoginRefusal::Anonymous | LoginRefusal::Credentials) => {
                let challenge = "Basic realm=\"Gatepost\", charset=\"UTF-8\"";
                response.field("WWW-Authenticate", challenge);
            }
            Self::Denied(LoginRefusal::TooMany { retry_after }) => {
                response.field("Retry-After", retry_after.as_secs().max(1).to_string());
            }
            Self::TooManyRequests(seconds) | Self::TooManyEmails(seconds) => {
                response.field("Retry-After", seconds.to_string());
            }
            Self::Busy(_) => response.field("Retry-After", "1"),
            Self::Upgrade(_) => {
                response.field("Upgrade", "websocket");
                // RFC 6455, section 4.4.
                response.field("Sec-WebSocket-Version", "13");
            }
            _ => {}
        }
        response
    }
}

/// Status, number and text of a file that was not kept.
const fn attachment_row(error: &AttachmentError) -> (u16, u32, &'static str) {
    match error {
        AttachmentError::FileTooLarge(_) | AttachmentError::ClientQuota(_) => {
            (413, 2, "attachment too large")
        }
        AttachmentError::Full(_) | AttachmentError::DiskFull => (507, 1, "insufficient storage"),
        AttachmentError::ExpiresBeforeDelivery => (400, 9, "attachment expires too early"),
        AttachmentError::NotStored(_) => (503, 4, "attachment not stored"),
    }
}

impl From<RenderError> for HttpError {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Busy => Self::Busy("too many pages wait for a worker"),
            other => Self::page_failed(&other),
        }
    }
}

impl HttpError {
    /// Logs why a page could not be made. The place and the cause are for the operator, not for
    /// every reader, who gets the line's id.
    pub(super) fn page_failed(cause: &dyn std::error::Error) -> Self {
        let id = gatepost_message::MessageId::next();
        tracing::error!(target: "pages", error = %id, "page failed: {cause}");
        Self::Internal(id.to_string())
    }
}

impl From<MalformedPeriod> for HttpError {
    fn from(error: MalformedPeriod) -> Self {
        Self::Parameter {
            name: "expiry",
            detail: error.to_string(),
        }
    }
}
