//! What a line looks like: the combined format, or JSON.

use crate::clock;

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
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
}

pub(super) fn push_combined(log: &mut Vec<u8>, line: &Line<'_>) {
    log.extend_from_slice(line.peer.as_bytes());
    log.extend_from_slice(b" - ");
    push_quotable(log, line.user.unwrap_or("-").as_bytes());
    log.extend_from_slice(b" [");
    clock::push_log_date(log);
    log.extend_from_slice(b"] \"");
    push_quotable(log, line.method.as_bytes());
    log.push(b' ');
    push_quotable(log, line.target.as_bytes());
    log.push(b' ');
    log.extend_from_slice(line.version.as_bytes());
    log.extend_from_slice(b"\" ");
    push_number(log, u64::from(line.status));
    log.push(b' ');
    push_number(log, line.body_bytes);
    log.extend_from_slice(b" \"");
    push_quotable(log, line.referer.unwrap_or(b"-"));
    log.extend_from_slice(b"\" \"");
    push_quotable(log, line.user_agent.unwrap_or(b"-"));
    log.extend_from_slice(b"\"\n");
}

/// Decimal digits, without the formatting machinery.
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

/// What a peer sent, made harmless: no line of its own, no closing quote.
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

pub(super) fn push_json(log: &mut Vec<u8>, line: &Line<'_>) {
    let mut time = Vec::new();
    clock::push_log_date(&mut time);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let object = serde_json::json!({
        "time": text(&time),
        "peer": line.peer,
        "user": line.user,
        "method": line.method,
        "target": line.target,
        "version": line.version,
        "status": line.status,
        "body_bytes": line.body_bytes,
        "referer": line.referer.map(text),
        "user_agent": line.user_agent.map(text),
        "message": line.message.map(|id| id.to_string()),
    });
    log.extend_from_slice(object.to_string().as_bytes());
    log.push(b'\n');
}
