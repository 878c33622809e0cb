//! The properties of a request that a page can read.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use gatepost_message::Peer;
use serde::Serialize;

/// Names and values; of a repeated name, the last value.
pub type Pairs = BTreeMap<String, String>;

/// The `request` of a template.
///
/// Empty for a page that does not use it, so that it costs nothing.
#[derive(Debug, Default, Serialize)]
pub struct PageRequest {
    /// The method.
    pub method: String,
    /// The path, decoded.
    pub path: String,
    /// The query, decoded.
    pub query: Pairs,
    /// The fields of a form that was sent to the page.
    pub form: Pairs,
    /// The cookies.
    pub cookies: Pairs,
    /// The header fields, names in lower case.
    pub headers: Pairs,
    /// The authenticated user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client's address, without the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The result of the form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<FormResult>,
    /// The error, for an error page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<PageError>,
    /// The client's address.
    #[serde(skip)]
    pub peer: Option<Peer>,
    /// The form as JSON, for the procedures that the page calls.
    #[serde(skip)]
    pub body: Bytes,
    /// Whether the connection is encrypted.
    #[serde(skip)]
    pub secure: bool,
    /// The session to which forms are bound.
    #[serde(skip)]
    pub session: BrowserSession,
}

/// The result of a form, as `request.result`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FormResult {
    /// The verdict's name; empty if there is no verdict.
    pub verdict: String,
    /// The reason.
    pub reason: String,
    /// The text of the procedure that was called.
    pub text: String,
    /// The id of the message that was published.
    pub id: String,
}

/// An error, as `request.error`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PageError {
    /// The status.
    pub status: u16,
    /// The general description.
    pub text: String,
    /// The specific description.
    pub detail: String,
    /// The id of the log line; empty if there is none.
    pub id: String,
}

/// The random name of a browser, stored in its cookie. Generated when a page first needs it.
#[derive(Debug, Default)]
pub struct BrowserSession {
    known: Option<String>,
    made: OnceLock<String>,
}

/// Random bytes of a session's name.
const SESSION_BYTES: usize = 16;

impl BrowserSession {
    /// The cookie that contains it.
    pub const COOKIE: &'static str = "gatepost-form";

    /// The session of a browser with this cookie, or without one. A name that this server cannot
    /// have generated is ignored.
    pub fn of(cookie: Option<&String>) -> Self {
        let ours = |name: &&String| {
            name.len() == 2 * SESSION_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        Self {
            known: cookie.filter(ours).cloned(),
            made: OnceLock::new(),
        }
    }

    /// Its name, generated now if the browser has none.
    pub fn name(&self) -> &str {
        match &self.known {
            Some(known) => known,
            None => self.made.get_or_init(random_name),
        }
    }

    /// The name that the browser already has.
    pub fn known(&self) -> Option<&str> {
        self.known.as_deref()
    }

    /// The name to send to the browser.
    pub fn new_name(&self) -> Option<&str> {
        self.made.get().map(String::as_str)
    }
}

fn random_name() -> String {
    let mut bytes = [0_u8; SESSION_BYTES];
    // Without randomness no name is generated, and no form of this page is accepted.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)]);
    digits.collect()
}

/// A property of a request in a page's notation: `request.query.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the fields above
pub enum Reference {
    Method,
    Path,
    User,
    Address,
    Query(String),
    Form(String),
    Cookie(String),
    Header(String),
}

impl Reference {
    /// `field` or `field.key` after `request.`.
    pub fn new(field: &str, key: Option<&str>) -> Option<Self> {
        Some(match (field, key) {
            ("method", None) => Self::Method,
            ("path", None) => Self::Path,
            ("user", None) => Self::User,
            ("address", None) => Self::Address,
            ("query", Some(key)) => Self::Query(key.to_owned()),
            ("form", Some(key)) => Self::Form(key.to_owned()),
            ("cookies", Some(key)) => Self::Cookie(key.to_owned()),
            ("headers", Some(key)) => Self::Header(key.to_owned()),
            _ => return None,
        })
    }

    /// Its text; empty if it does not exist.
    pub fn value<'a>(&self, request: &'a PageRequest) -> &'a str {
        let found = match self {
            Self::Method => Some(&request.method),
            Self::Path => Some(&request.path),
            Self::User => request.user.as_ref(),
            Self::Address => request.address.as_ref(),
            Self::Query(key) => request.query.get(key),
            Self::Form(key) => request.form.get(key),
            Self::Cookie(key) => request.cookies.get(key),
            Self::Header(key) => request.headers.get(key),
        };
        found.map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_made_once_and_only_where_there_is_none() {
        let new = BrowserSession::of(None);
        assert_eq!(new.new_name(), None);
        let name = new.name().to_owned();
        assert_eq!((name.len(), new.new_name()), (32, Some(name.as_str())));
        let known = BrowserSession::of(Some(&name));
        assert_eq!((known.name(), known.new_name()), (name.as_str(), None));
        for foreign in ["", "x", "'; drop", &"g".repeat(32)] {
            assert_eq!(BrowserSession::of(Some(&foreign.to_owned())).known(), None);
        }
    }
}
