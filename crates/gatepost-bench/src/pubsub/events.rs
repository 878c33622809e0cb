//! Server-sent events (WHATWG HTML section 9.2) over HTTP/1.1, in chunks or until the end.
//!
//! Only `data:` is relevant. An event within one chunk is read in place; only an event that spans
//! several chunks is reassembled.

use memchr::{memchr, memchr_iter, memmem};

use super::{MessageStamp, PacketEvent, ReaderStep};

/// The maximum length of the response's header.
const HEAD_MAX_BYTES: usize = 16 * 1024;
/// The maximum length of an event that is reassembled.
const EVENT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Reads a stream of events.
#[derive(Debug, Default)]
pub struct EventStream {
    streaming: bool,
    chunked: bool,
    /// Remaining bytes of the current chunk.
    left: u64,
    /// The beginning of an event that continues in the next chunk.
    carried: Vec<u8>,
    /// Whether the carried bytes were passed on.
    carried_done: bool,
}

impl EventStream {
    pub(super) fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<ReaderStep<'a>, String> {
        if !self.streaming {
            return self.head(bytes);
        }
        if self.carried_done {
            self.carried.clear();
            self.carried_done = false;
        }
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            if self.chunked && self.left == 0 {
                let Some((length, size)) = chunk_length(rest)? else {
                    return Ok(ReaderStep::More(taken));
                };
                if size == 0 {
                    return Err("the stream ended".into());
                }
                taken += length;
                self.left = size;
                continue;
            }
            let available = if self.chunked {
                self.left.min(rest.len() as u64) as usize
            } else {
                rest.len()
            };
            if available == 0 {
                return Ok(ReaderStep::More(taken));
            }
            let part = &rest[..available];
            if !self.carried.is_empty() {
                let (used, whole) = self.carry(part)?;
                taken += used;
                self.pass(used);
                if whole {
                    self.carried_done = true;
                    return Ok(ReaderStep::Event(event(&self.carried), taken));
                }
                continue;
            }
            if let Some(end) = end_of_event(part, 0) {
                self.pass(end);
                return Ok(ReaderStep::Event(event(&part[..end]), taken + end));
            }
            if !self.chunked {
                return Ok(ReaderStep::More(taken));
            }
            self.carried.extend_from_slice(part);
            taken += available;
            self.pass(available);
        }
    }

    fn pass(&mut self, count: usize) {
        if self.chunked {
            self.left -= count as u64;
        }
    }

    /// Adds bytes to the carried ones up to the end of the event; returns whether the event is
    /// complete.
    fn carry(&mut self, part: &[u8]) -> Result<(usize, bool), String> {
        let before = self.carried.len();
        self.carried.extend_from_slice(part);
        // The two line ends may be in different chunks.
        match end_of_event(&self.carried, before.saturating_sub(2)) {
            Some(end) => {
                self.carried.truncate(end);
                Ok((end - before, true))
            }
            None if self.carried.len() > EVENT_MAX_BYTES => Err("an event without end".into()),
            None => Ok((part.len(), false)),
        }
    }

    fn head<'a>(&mut self, bytes: &[u8]) -> Result<ReaderStep<'a>, String> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
            return if bytes.len() > HEAD_MAX_BYTES {
                Err("a head without end".into())
            } else {
                Ok(ReaderStep::More(0))
            };
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let line = head.lines().next().unwrap_or_default();
        let event = if line.split(' ').nth(1) == Some("200") {
            self.streaming = true;
            self.chunked = head.contains("transfer-encoding: chunked");
            PacketEvent::Streaming
        } else {
            PacketEvent::Refused(line.to_owned())
        };
        Ok(ReaderStep::Event(event, end + 4))
    }
}

/// The line before a chunk, with the line end of the previous chunk: its length, and the chunk's
/// size.
fn chunk_length(bytes: &[u8]) -> Result<Option<(usize, u64)>, String> {
    let begin = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(end) = memchr(b'\n', &bytes[begin..]) else {
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&bytes[begin..begin + end]);
    let digits = line.split(';').next().unwrap_or_default().trim();
    let size = u32::from_str_radix(digits, 16).map_err(|_| format!("a chunk of {digits:?}"))?;
    Ok(Some((begin + end + 1, u64::from(size))))
}

/// The end of the event whose empty line begins at `from` or later.
fn end_of_event(bytes: &[u8], from: usize) -> Option<usize> {
    memchr_iter(b'\n', &bytes[from..]).find_map(|at| {
        let after = &bytes[from + at + 1..];
        match after {
            [b'\n', ..] => Some(from + at + 2),
            [b'\r', b'\n', ..] => Some(from + at + 3),
            _ => None,
        }
    })
}

/// The stamped payload in an event's data, at any position.
fn event(text: &[u8]) -> PacketEvent<'_> {
    let data = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"data:"));
    match data.and_then(MessageStamp::find) {
        Some(payload) => PacketEvent::Publication {
            payload,
            answer: None,
        },
        None => PacketEvent::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BrokerProtocol, publications};
    use super::*;
    use proptest::prelude::*;

    fn stamped(sequence: u32) -> Vec<u8> {
        let mut payload = vec![b'.'; 40];
        let stamp = MessageStamp {
            publisher: 1,
            sequence,
            due: 77,
        };
        stamp.write(&mut payload);
        payload
    }

    fn read(text: &[u8], part: usize) -> Vec<u32> {
        let payloads = publications(BrokerProtocol::Events.reader(), text, part);
        let sequence = |payload: &Vec<u8>| MessageStamp::read(payload).expect("a stamp").sequence;
        payloads.iter().map(sequence).collect()
    }

    proptest! {
        #[test]
        fn events_come_whole_however_chunks_and_reads_cut_them(
            count in 1_u32..6,
            chunk in 1_usize..200,
            part in 1_usize..300,
            chunked: bool,
            carriage: bool,
        ) {
            let mut body = b": hello\n\n".to_vec();
            let line = if carriage { "\r\n" } else { "\n" };
            for sequence in 0..count {
                let head = format!("id: {sequence}{line}data: {{\"message\":\"");
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(&stamped(sequence));
                body.extend_from_slice(format!("\"}}{line}{line}").as_bytes());
            }
            let mut text = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n".to_vec();
            if chunked {
                text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for cut in body.chunks(chunk) {
                    text.extend_from_slice(format!("{:x}\r\n", cut.len()).as_bytes());
                    text.extend_from_slice(cut);
                    text.extend_from_slice(b"\r\n");
                }
            } else {
                text.extend_from_slice(b"\r\n");
                text.extend_from_slice(&body);
            }
            prop_assert_eq!(read(&text, part), (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_panics(bytes: Vec<u8>, chunked: bool) {
            let mut stream = EventStream { streaming: true, chunked, ..EventStream::default() };
            let _ = stream.next(&bytes);
        }
    }

    #[test]
    fn the_end_and_a_refusal_are_reported() {
        let mut stream = EventStream::default();
        let step = stream
            .next(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            .expect("a step");
        assert!(
            matches!(step, ReaderStep::Event(PacketEvent::Refused(_), 26)),
            "{step:?}"
        );
        let mut stream = EventStream {
            streaming: true,
            chunked: true,
            ..EventStream::default()
        };
        assert!(stream.next(b"0\r\n\r\n").is_err());
    }
}
