//! Redis publish/subscribe: the part of its protocol, RESP 2, that the scenarios need.
//!
//! Redis serves as a floor for brokers: it has one thread, matches topics by a hash table, keeps
//! no message, and answers a publication with the number of its receivers.

use std::io::Write as _;

use memchr::memmem;

use super::{PacketEvent, ReaderStep};

/// The maximum length of the line before a value: a status, an error, a number or a length.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// The maximum length of a value; a longer one is an error of the server.
const VALUE_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The values of a message or of a confirmation: its kind, the channel, and the payload or the
/// number of subscriptions.
const PUSH_VALUES: usize = 3;

/// The client speaks first: the answer to PING shows that commands are accepted.
pub(super) fn open(out: &mut Vec<u8>) {
    command(&[b"PING"], out);
}

pub(super) fn subscribe(topic: &str, out: &mut Vec<u8>) {
    command(&[b"SUBSCRIBE", topic.as_bytes()], out);
}

pub(super) fn publish(topic: &str, payload: &[u8], out: &mut Vec<u8>) {
    command(&[b"PUBLISH", topic.as_bytes(), payload], out);
}

fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[inline]
pub(super) fn next(bytes: &[u8]) -> Result<ReaderStep<'_>, String> {
    let Some((line, after)) = line(bytes)? else {
        return Ok(ReaderStep::More(0));
    };
    let event = match line.split_first() {
        Some((b'+', _)) => PacketEvent::Ready,
        Some((b':', _)) => PacketEvent::Acknowledged { packet_id: None },
        Some((b'-', reason)) => PacketEvent::Refused(String::from_utf8_lossy(reason).into_owned()),
        Some((b'*', b"3")) => return push(bytes, after),
        _ => return Err(format!("unexpected {:?}", String::from_utf8_lossy(line))),
    };
    Ok(ReaderStep::Event(event, after))
}

/// A message or a confirmation, whose values begin at `first`.
fn push(bytes: &[u8], first: usize) -> Result<ReaderStep<'_>, String> {
    let mut values: [&[u8]; PUSH_VALUES] = [b""; PUSH_VALUES];
    let mut at = first;
    for value in &mut values {
        let Some((found, length)) = self::value(bytes.get(at..).unwrap_or_default())? else {
            return Ok(ReaderStep::More(0));
        };
        *value = found;
        at += length;
    }
    let event = match values {
        [b"message", _, payload] => PacketEvent::Publication {
            payload,
            answer: None,
        },
        [b"subscribe", ..] => PacketEvent::Subscribed { granted: true },
        _ => PacketEvent::Other,
    };
    Ok(ReaderStep::Event(event, at))
}

/// The string or number at the start of `bytes`, and the length of its encoding; `None` if it is
/// incomplete.
fn value(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let Some((line, after)) = line(bytes)? else {
        return Ok(None);
    };
    match line.split_first() {
        Some((b':', number)) => Ok(Some((number, after))),
        Some((b'$', digits)) => {
            let length: usize = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .filter(|length| *length <= VALUE_MAX_BYTES)
                .ok_or("a string without a valid length")?;
            let whole = after + length + 2;
            let is_whole = bytes.len() >= whole;
            Ok(is_whole.then(|| (&bytes[after..after + length], whole)))
        }
        _ => Err("a value that is neither a string nor a number".into()),
    }
}

/// The line at the start of `bytes` without its end, and the offset after it.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    match memmem::find(bytes, b"\r\n") {
        Some(end) => Ok(Some((&bytes[..end], end + 2))),
        None if bytes.len() > LINE_MAX_BYTES => Err("a line without end".into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        publish("bench/1", b"x\r\ny", &mut out);
        assert_eq!(
            out,
            b"*3\r\n$7\r\nPUBLISH\r\n$7\r\nbench/1\r\n$4\r\nx\r\ny\r\n"
        );
    }

    #[test]
    fn a_reply_is_taken_whole_or_not_at_all() {
        let replies: [(&[u8], PacketEvent<'_>); 4] = [
            (b"+PONG\r\n", PacketEvent::Ready),
            (
                b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
                PacketEvent::Subscribed { granted: true },
            ),
            (
                b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\nx\r\ny\r\n",
                PacketEvent::Publication {
                    payload: b"x\r\ny",
                    answer: None,
                },
            ),
            (b":12\r\n", PacketEvent::Acknowledged { packet_id: None }),
        ];
        for (text, event) in replies {
            for cut in 0..text.len() {
                assert_eq!(next(&text[..cut]), Ok(ReaderStep::More(0)), "{cut}");
            }
            let followed = [text, b"+OK"].concat();
            assert_eq!(next(&followed), Ok(ReaderStep::Event(event, text.len())));
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error() {
        for text in [
            b"HTTP/1.1 400\r\n".as_slice(),
            b"*3\r\n$-1\r\n",
            b"*3\r\n$99999999999999999999\r\n",
            b"*3\r\n$999999999999\r\n",
            b"*3\r\n*1\r\n",
            b"*2\r\n",
        ] {
            assert!(next(text).is_err(), "{text:?}");
        }
        assert!(next(&vec![b'+'; LINE_MAX_BYTES + 1]).is_err());
    }
}
