//! The head of an HTTP/1 request: parsed in place, and its meaning for the wire.
//!
//! Everything that decides where a request ends is decided here, once, and strictly: whatever two
//! parsers might read differently is refused (RFC 9112, section 6.3, section 11.2), so that no
//! request can be smuggled past a proxy in front of the server.

use std::mem::MaybeUninit;

use gatepost_message::Peer;
use httparse::{Header, Status};

use crate::http::error::HttpError;
use crate::http::host::is_host;
use crate::http::request::{HttpRequest, HttpVersion};

/// More fields than this are refused.
pub(super) const FIELDS_MAX: usize = 64;
/// Longer targets are refused.
pub(super) const TARGET_BYTES_MAX: usize = 8 << 10;

/// Storage for the fields of one head.
pub(in crate::http) type FieldStorage<'b> = [MaybeUninit<Header<'b>>; FIELDS_MAX];

/// Empty storage.
pub(in crate::http) const fn field_storage<'b>() -> FieldStorage<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// The way in which the body's end is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum BodyFraming {
    /// By its length; a missing body has the length 0.
    Length(u64),
    /// By a last chunk.
    Chunked,
}

/// A parsed head, borrowed from the read buffer.
#[derive(Debug)]
pub(in crate::http) struct RequestHead<'h, 'b> {
    /// The method, as sent.
    pub method: &'b str,
    /// The target, as sent.
    pub target: &'b str,
    /// The target's path, still percent-encoded; begins with `/` (or is `*`).
    pub path: &'b str,
    /// The query after the target's `?`.
    pub query: &'b str,
    /// The 0 or 1 of HTTP/1.x.
    pub minor_version: u8,
    /// All header fields.
    pub fields: &'h [Header<'b>],
    /// The end of the body.
    pub framing: BodyFraming,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue`.
    pub expects_continue: bool,
    /// Whether the client requests another protocol.
    pub upgrade: bool,
    /// Whether a field makes the request conditional or partial.
    pub conditional: bool,
    /// `Host`
    pub host: Option<&'b [u8]>,
    /// `Accept-Encoding`; of several fields the last.
    pub accept_encoding: Option<&'b [u8]>,
    /// `Referer`
    pub referer: Option<&'b [u8]>,
    /// `User-Agent`
    pub user_agent: Option<&'b [u8]>,
}

impl RequestHead<'_, '_> {
    /// Copies the parts that must outlive the read buffer.
    pub(in crate::http) fn to_request(&self, peer: Peer) -> Result<HttpRequest, HttpError> {
        let fields = self.fields.iter().map(|field| (field.name, field.value));
        let line = (self.method, self.target);
        HttpRequest::new(line, (self.path, self.query), fields, self.into(), peer)
    }
}

impl From<&RequestHead<'_, '_>> for HttpVersion {
    fn from(head: &RequestHead<'_, '_>) -> Self {
        if head.minor_version == 0 {
            Self::Http10
        } else {
            Self::Http11
        }
    }
}

/// Parses the head at the start of `buffer`. `Ok(None)` means that the head is not complete yet;
/// otherwise returns the head and its length.
pub(in crate::http) fn parse<'h, 'b: 'h>(
    buffer: &'b [u8],
    storage: &'h mut FieldStorage<'b>,
    head_bytes_max: usize,
) -> Result<Option<(RequestHead<'h, 'b>, usize)>, HttpError> {
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(buffer, storage) {
        Ok(Status::Complete(length)) if length <= head_bytes_max => length,
        Ok(Status::Complete(_)) => return Err(HttpError::HeadTooLarge(head_bytes_max as u64)),
        Ok(Status::Partial) => {
            refuse_bare_newline(buffer)?;
            return if buffer.len() >= head_bytes_max {
                Err(HttpError::HeadTooLarge(head_bytes_max as u64))
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(syntax_error(error)),
    };
    refuse_bare_newline(buffer.get(..length).unwrap_or_default())?;
    let (Some(method), Some(target), Some(minor_version)) =
        (request.method, request.path, request.version)
    else {
        return Err(HttpError::MalformedHead("the request line is not complete"));
    };
    if target.len() > TARGET_BYTES_MAX {
        return Err(HttpError::TargetTooLong(TARGET_BYTES_MAX));
    }
    let fields: &'h [Header<'b>] = request.headers;
    let meaning = FramingFields::of(fields, minor_version)?;
    let (path, query) = split_target(target)?;
    Ok(Some((
        RequestHead {
            method,
            target,
            path,
            query,
            minor_version,
            fields,
            framing: meaning.framing(minor_version)?,
            // HTTP/1.0 connections carry one request: no present client needs more.
            keep_alive: minor_version == 1 && meaning.keep_alive.unwrap_or(true),
            expects_continue: meaning.expects_continue && minor_version == 1,
            upgrade: meaning.upgrade,
            conditional: meaning.conditional,
            host: meaning.host,
            accept_encoding: meaning.accept_encoding,
            referer: meaning.referer,
            user_agent: meaning.user_agent,
        },
        length,
    )))
}

const fn syntax_error(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::TooManyFields(FIELDS_MAX),
        httparse::Error::Version => HttpError::Version,
        httparse::Error::HeaderName => HttpError::MalformedHead("a field name is malformed"),
        httparse::Error::HeaderValue => HttpError::MalformedHead("a field value is malformed"),
        httparse::Error::NewLine => HttpError::MalformedHead("a line does not end in CR LF"),
        httparse::Error::Token | httparse::Error::Status => {
            HttpError::MalformedHead("the request line is malformed")
        }
    }
}

/// RFC 9112, section 2.2 permits a recipient to treat a bare LF as a line end; if a proxy in front
/// does not, requests can be smuggled. The parser accepts a bare LF, so it is refused here.
fn refuse_bare_newline(head: &[u8]) -> Result<(), HttpError> {
    let bare = |newline: usize| newline == 0 || head.get(newline - 1) != Some(&b'\r');
    if memchr::memchr_iter(b'\n', head).any(bare) {
        return Err(HttpError::MalformedHead("a line does not end in CR LF"));
    }
    Ok(())
}

/// Origin form, absolute form or the asterisk (RFC 9112, section 3.2).
fn split_target(target: &str) -> Result<(&str, &str), HttpError> {
    let from_path = if target.starts_with('/') || target == "*" {
        target
    } else {
        let authority = target
            .strip_prefix("http://")
            .or_else(|| target.strip_prefix("https://"))
            .ok_or(HttpError::Target("a target begins with a slash"))?;
        match authority.find(['/', '?', '#']) {
            Some(start) => authority.get(start..).unwrap_or("/"),
            None => "/",
        }
    };
    // One search for both, since most targets contain neither.
    let (path, query) = match memchr::memchr2(b'?', b'#', from_path.as_bytes()) {
        None => (from_path, ""),
        Some(_) if target.contains('#') => {
            return Err(HttpError::Target("a target has no fragment"));
        }
        Some(_) => from_path.split_once('?').unwrap_or((from_path, "")),
    };
    Ok((if path.is_empty() { "/" } else { path }, query))
}

/// The framing that the fields describe.
#[derive(Default)]
struct FramingFields<'b> {
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    keep_alive: Option<bool>,
    expects_continue: bool,
    upgrade: bool,
    conditional: bool,
    host: Option<&'b [u8]>,
    accept_encoding: Option<&'b [u8]>,
    referer: Option<&'b [u8]>,
    user_agent: Option<&'b [u8]>,
}

impl<'b> FramingFields<'b> {
    fn of(fields: &[Header<'b>], minor_version: u8) -> Result<Self, HttpError> {
        let mut meaning = Self::default();
        for field in fields {
            meaning.add(field)?;
        }
        // RFC 9112, section 3.2: exactly one Host in HTTP/1.1.
        if meaning.hosts > 1 || (meaning.hosts == 0 && minor_version == 1) {
            return Err(HttpError::MalformedHead(
                "a request has exactly one Host field",
            ));
        }
        Ok(meaning)
    }

    fn add(&mut self, field: &Header<'b>) -> Result<(), HttpError> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // The length distinguishes most fields before their text is compared.
        match field.name.len() {
            4 if is("host") => {
                // RFC 9112, section 3.2.
                if !is_host(field.value) {
                    return Err(HttpError::MalformedHead("the Host field names no host"));
                }
                self.hosts += 1;
                self.host = Some(field.value);
            }
            5 if is("range") => self.conditional = true,
            6 if is("expect") => self.add_expect(field.value)?,
            7 if is("upgrade") => self.upgrade = true,
            7 if is("referer") => self.referer = Some(field.value),
            8 if is("if-match") || is("if-range") => self.conditional = true,
            10 if is("user-agent") => self.user_agent = Some(field.value),
            10 if is("connection") => self.add_connection(field.value),
            13 if is("if-none-match") => self.conditional = true,
            14 if is("content-length") => self.add_length(field.value)?,
            15 if is("accept-encoding") => self.accept_encoding = Some(field.value),
            17 if is("transfer-encoding") => self.add_coding(field.value)?,
            17 if is("if-modified-since") => self.conditional = true,
            19 if is("if-unmodified-since") => self.conditional = true,
            _ => {}
        }
        Ok(())
    }

    fn add_expect(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            let value = String::from_utf8_lossy(value.get(..40).unwrap_or(value)).into_owned();
            return Err(HttpError::Expectation(value));
        }
        self.expects_continue = true;
        Ok(())
    }

    fn add_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.keep_alive = Some(false);
            } else if option.eq_ignore_ascii_case(b"keep-alive") && self.keep_alive.is_none() {
                self.keep_alive = Some(true);
            }
        }
    }

    /// Digits only, once: `+5`, `5, 5` and two fields are all refused (RFC 9112, section 6.3).
    fn add_length(&mut self, value: &[u8]) -> Result<(), HttpError> {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value)
            .ok()
            .filter(|_| digits)
            .and_then(|text| text.parse().ok())
            .ok_or(HttpError::Framing("Content-Length is not a number"))?;
        if self.length.replace(length).is_some() {
            return Err(HttpError::Framing("there are two Content-Length fields"));
        }
        Ok(())
    }

    fn add_coding(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if self.chunked {
            return Err(HttpError::Framing("there are two Transfer-Encoding fields"));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(HttpError::TransferCoding);
        }
        self.chunked = true;
        Ok(())
    }

    const fn framing(&self, minor_version: u8) -> Result<BodyFraming, HttpError> {
        match (self.chunked, self.length) {
            // RFC 9112, section 6.1: both together permit request smuggling.
            (true, Some(_)) => Err(HttpError::Framing(
                "Content-Length and Transfer-Encoding exclude each other",
            )),
            (true, None) if minor_version == 0 => {
                Err(HttpError::Framing("HTTP/1.0 knows no Transfer-Encoding"))
            }
            (true, None) => Ok(BodyFraming::Chunked),
            (false, Some(length)) => Ok(BodyFraming::Length(length)),
            (false, None) => Ok(BodyFraming::Length(0)),
        }
    }
}
