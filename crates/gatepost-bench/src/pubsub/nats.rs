//! NATS core: the part of its text protocol that the scenarios need.
//!
//! A subscription has no confirmation, so each is followed by a PING, and its PONG serves as the
//! confirmation: the server answers in order.

use std::io::Write as _;

use gatepost_mqtt::PacketId;
use memchr::{memchr, memmem};
use serde_json::json;

use super::{PacketEvent, ReaderStep};

/// The maximum length of a control line: INFO is the longest.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// The maximum length of a payload; a longer one is an error of the server.
const PAYLOAD_MAX_BYTES: usize = 64 * 1024 * 1024;

fn subject(topic: &str) -> String {
    topic.replace('/', ".")
}

/// The first PONG confirms the login. `Ready` and the later `Subscribed` look the same on the
/// wire, so the conversation distinguishes them by its own state.
pub(super) fn login(client_id: &str, login: Option<(&str, Option<&str>)>, out: &mut Vec<u8>) {
    let mut connect = json!({"verbose": false, "pedantic": false, "name": client_id});
    if let Some((user, password)) = login {
        connect["user"] = user.into();
        connect["pass"] = password.unwrap_or_default().into();
    }
    // Writing to a Vec cannot fail.
    let _ = write!(out, "CONNECT {connect}\r\nPING\r\n");
}

pub(super) fn subscribe(topic: &str, number: PacketId, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "SUB {} {number}\r\nPING\r\n", subject(topic));
}

pub(super) fn publish(topic: &str, payload: &[u8], out: &mut Vec<u8>) {
    let _ = write!(out, "PUB {} {}\r\n", subject(topic), payload.len());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn next(bytes: &[u8]) -> Result<ReaderStep<'_>, String> {
    let Some(end) = memchr(b'\n', bytes) else {
        return if bytes.len() > LINE_MAX_BYTES {
            Err("a line without end".into())
        } else {
            Ok(ReaderStep::More(0))
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let after = end + 1;
    if let Some(rest) = line.strip_prefix(b"MSG ") {
        let digits = rest.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        let length: usize = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .filter(|length| *length <= PAYLOAD_MAX_BYTES)
            .ok_or("MSG without a valid length")?;
        let whole = after + length + 2;
        return Ok(match bytes.get(after..after + length) {
            Some(payload) if bytes.len() >= whole => {
                let answer = None;
                ReaderStep::Event(PacketEvent::Publication { payload, answer }, whole)
            }
            _ => ReaderStep::More(0),
        });
    }
    let event = match line {
        b"PONG" => PacketEvent::Subscribed { granted: true },
        b"PING" => PacketEvent::Ping,
        _ if line.starts_with(b"INFO") => PacketEvent::Greeting,
        _ if line.starts_with(b"-ERR") => {
            let text = String::from_utf8_lossy(line).into_owned();
            if memmem::find(line, b"Authorization").is_some() {
                return Ok(ReaderStep::Event(PacketEvent::Refused(text), after));
            }
            return Err(text);
        }
        _ => PacketEvent::Other,
    };
    Ok(ReaderStep::Event(event, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_whole_or_not_at_all() {
        let text = b"MSG a.b 7 5\r\nhello\r\nPING\r\n";
        for cut in 0..20 {
            assert_eq!(next(&text[..cut]), Ok(ReaderStep::More(0)), "{cut}");
        }
        let event = PacketEvent::Publication {
            payload: b"hello",
            answer: None,
        };
        assert_eq!(next(text), Ok(ReaderStep::Event(event, 20)));
        assert_eq!(
            next(&text[20..]),
            Ok(ReaderStep::Event(PacketEvent::Ping, 6))
        );
        assert!(next(b"MSG a b c\r\n").is_err());
        assert!(next(b"-ERR 'Unknown Protocol Operation'\r\n").is_err());
    }

    #[test]
    fn topics_become_subjects() {
        let mut out = Vec::new();
        publish("bench/1", b"xy", &mut out);
        assert_eq!(out, b"PUB bench.1 2\r\nxy\r\n");
    }
}
