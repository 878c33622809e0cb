//! The format of a log line: the combined format, or JSON.

use std::borrow::Cow;
use std::time::Duration;

use crate::clock;

/// A logged request.
#[derive(Debug, Clone, Copy)]
pub struct LoggedRequest<'a> {
    /// The peer's address, without the port.
    pub peer: &'a str,
    /// The authenticated user.
    pub user: Option<&'a str>,
    /// The request's method.
    pub method: &'a str,
    /// The request's target as it was sent.
    pub target: &'a str,
    /// `HTTP/1.1`
    pub version: &'a str,
    /// The answer's status.
    pub status: u16,
    /// The bytes of the answer's body.
    pub body_bytes: u64,
    /// The request's `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The request's `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// The message that the request made.
    pub message: Option<gatepost_message::MessageId>,
    /// The request's `Host`.
    pub host: Option<&'a [u8]>,
    /// The time from the whole head to the response, before it is sent.
    pub duration: Duration,
}

pub(super) fn push_combined(log: &mut Vec<u8>, line: &LoggedRequest<'_>) {
    log.extend_from_slice(line.peer.as_bytes());
    log.extend_from_slice(b" - ");
    push_quotable(log, line.user.unwrap_or("-").as_bytes());
    log.extend_from_slice(b" [");
    clock::push_log_date(log);
    log.extend_from_slice(b"] \"");
    push_quotable(log, line.method.as_bytes());
    log.push(b' ');
    push_quotable(log, &without_credentials(line.target.as_bytes()));
    log.push(b' ');
    log.extend_from_slice(line.version.as_bytes());
    log.extend_from_slice(b"\" ");
    push_number(log, u64::from(line.status));
    log.push(b' ');
    push_number(log, line.body_bytes);
    log.extend_from_slice(b" \"");
    push_quotable(log, &without_credentials(line.referer.unwrap_or(b"-")));
    log.extend_from_slice(b"\" \"");
    push_quotable(log, line.user_agent.unwrap_or(b"-"));
    log.extend_from_slice(b"\"\n");
}

/// Appends decimal digits, without the formatting machinery.
pub fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(digits.get(20 - used..).unwrap_or_default());
}

/// The query parameters whose value is a permission: a login, as in ntfy, and the ticket of a link
/// in a digest of the quarantine.
const SECRET_PARAMETERS: [&[u8]; 2] = [b"auth", b"ticket"];

/// A URL without the values of these parameters, however their names are escaped. Borrowed if there
/// are none; then the only cost is the search for the question mark.
fn without_credentials(address: &[u8]) -> Cow<'_, [u8]> {
    let Some(query) = memchr::memchr(b'?', address) else {
        return Cow::Borrowed(address);
    };
    let (path, query) = address.split_at(query + 1);
    let secret = |pair: &[u8]| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        let is_named = |secret: &&[u8]| decoded(name).eq(secret.iter().copied());
        SECRET_PARAMETERS.into_iter().find(is_named)
    };
    if !query
        .split(|&byte| byte == b'&')
        .any(|pair| secret(pair).is_some())
    {
        return Cow::Borrowed(address);
    }
    let mut masked = path.to_vec();
    for (index, pair) in query.split(|&byte| byte == b'&').enumerate() {
        if index > 0 {
            masked.push(b'&');
        }
        if let Some(name) = secret(pair) {
            masked.extend_from_slice(name);
            masked.extend_from_slice(b"=***");
        } else {
            masked.extend_from_slice(pair);
        }
    }
    Cow::Owned(masked)
}

/// A name of a query with its percent escapes decoded.
fn decoded(name: &[u8]) -> impl Iterator<Item = u8> {
    let mut bytes = name.iter().copied();
    std::iter::from_fn(move || {
        let byte = bytes.next()?;
        if byte != b'%' {
            return Some(byte);
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        Some((digit()? << 4 | digit()?) as u8)
    })
}

/// Escapes text from a peer: it can neither begin a new line nor close a quote.
fn push_quotable(log: &mut Vec<u8>, text: &[u8]) {
    let harmless = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if text.iter().all(harmless) {
        log.extend_from_slice(text);
        return;
    }
    for byte in text {
        if harmless(byte) {
            log.push(*byte);
        } else {
            log.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
        }
    }
}

pub(super) fn push_json(log: &mut Vec<u8>, line: &LoggedRequest<'_>) {
    let mut time = Vec::new();
    clock::push_log_date(&mut time);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let object = serde_json::json!({
        "time": text(&time),
        "peer": line.peer,
        "user": line.user,
        "method": line.method,
        "target": text(&without_credentials(line.target.as_bytes())),
        "version": line.version,
        "status": line.status,
        "body_bytes": line.body_bytes,
        "referer": line.referer.map(|referer| text(&without_credentials(referer))),
        "user_agent": line.user_agent.map(text),
        "message": line.message.map(|id| id.to_string()),
        "host": line.host.map(text),
        "duration_ms": line.duration.as_micros() as f64 / 1_000.0,
    });
    log.extend_from_slice(object.to_string().as_bytes());
    log.push(b'\n');
}
