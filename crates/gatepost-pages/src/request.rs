//! What a page may know of the request that it is made for.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use gatepost_message::Peer;
use serde::Serialize;

/// Names and values; of a name that repeats, the last value.
pub type Pairs = BTreeMap<String, String>;

/// What a template sees as `request`.
///
/// Empty for a page that asks nothing of it, so that making one costs nothing.
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
    /// What became of the form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<FormResult>,
    /// What is wrong, for an error's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<PageError>,
    /// The other end.
    #[serde(skip)]
    pub peer: Option<Peer>,
    /// The form as JSON, for the procedures that the page calls.
    #[serde(skip)]
    pub body: Bytes,
    /// Whether it came encrypted.
    #[serde(skip)]
    pub secure: bool,
    /// What forms are bound to.
    #[serde(skip)]
    pub session: Session,
}

/// What became of a form, as `request.result`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FormResult {
    /// The verdict's name; empty where nothing was judged.
    pub verdict: String,
    /// Why.
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
    /// What is wrong in general.
    pub text: String,
    /// What is wrong here.
    pub detail: String,
    /// The id of the log's line about it; empty where there is none.
    pub id: String,
}

/// The random name of a browser, which its cookie holds. Made when a page first asks for it.
#[derive(Debug, Default)]
pub struct Session {
    known: Option<String>,
    made: OnceLock<String>,
}

/// Random bytes of a session's name.
const SESSION_BYTES: usize = 16;

impl Session {
    /// The cookie that holds it.
    pub const COOKIE: &'static str = "gatepost-form";

    /// The session of a browser that sent this cookie, or sent none. A name that we cannot have
    /// given counts as none.
    pub fn of(cookie: Option<&String>) -> Self {
        let ours = |name: &&String| {
            name.len() == 2 * SESSION_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        Self {
            known: cookie.filter(ours).cloned(),
            made: OnceLock::new(),
        }
    }

    /// Its name, made now where the browser has none.
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

    /// The name that the browser is to be given.
    pub fn made(&self) -> Option<&str> {
        self.made.get().map(String::as_str)
    }
}

fn random_name() -> String {
    let mut bytes = [0_u8; SESSION_BYTES];
    // Without randomness no name is given, and no form of this page is taken.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)]);
    digits.collect()
}

/// One thing of a request, as a page names it: `request.query.name`.
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
    /// `field` or `field.key` behind `request.`.
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

    /// Its text; empty where it is not there.
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
        let new = Session::of(None);
        assert_eq!(new.made(), None);
        let name = new.name().to_owned();
        assert_eq!((name.len(), new.made()), (32, Some(name.as_str())));
        let known = Session::of(Some(&name));
        assert_eq!((known.name(), known.made()), (name.as_str(), None));
        for foreign in ["", "x", "'; drop", &"g".repeat(32)] {
            assert_eq!(Session::of(Some(&foreign.to_owned())).known(), None);
        }
    }
}
