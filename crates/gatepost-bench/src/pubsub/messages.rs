//! A publication in each message of a WebSocket (RFC 6455), without a protocol inside.
//!
//! The request for the upgrade names the topic, so it is the subscription as well.

use super::websocket::{Header, upgrade_answer};
use super::{MessageStamp, PacketEvent, ReaderStep};

/// Reads the server's frames. Every message must be one frame, so no partial message is kept.
#[derive(Debug, Default)]
pub struct MessageFrames {
    upgraded: bool,
}

impl MessageFrames {
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<ReaderStep<'a>, String> {
        if !self.upgraded {
            let answer = upgrade_answer(bytes, PacketEvent::Streaming)?;
            self.upgraded = matches!(answer, ReaderStep::Event(PacketEvent::Streaming, _));
            return Ok(answer);
        }
        let Some(header) = Header::read(bytes)? else {
            return Ok(ReaderStep::More(0));
        };
        let whole = header.length + header.payload as usize;
        if bytes.len() < whole {
            return Ok(ReaderStep::More(0));
        }
        let event = if header.is_control() {
            header.control_event()?
        } else if header.is_message() {
            message(&bytes[header.length..whole])
        } else {
            return Err("a message in several frames".into());
        };
        Ok(ReaderStep::Event(event, whole))
    }
}

/// The stamped payload, at any position.
fn message(text: &[u8]) -> PacketEvent<'_> {
    match MessageStamp::find(text) {
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

    const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";

    proptest! {
        #[test]
        fn messages_come_whole_however_reads_cut_them(count in 1_u32..6, part in 1_usize..300) {
            let mut text = UPGRADED.to_vec();
            for sequence in 0..count {
                let mut payload = vec![b'.'; 100];
                let stamp = MessageStamp { publisher: 1, sequence, due: 77 };
                stamp.write(&mut payload);
                // Text, a ping, binary.
                text.extend_from_slice(&[0x81 + (sequence % 2) as u8, 100]);
                text.extend_from_slice(&payload);
                text.extend_from_slice(&[0x89, 0]);
            }
            let payloads = publications(BrokerProtocol::Messages.reader(), &text, part);
            let stamp = |payload: &Vec<u8>| MessageStamp::read(payload).expect("a stamp");
            let found: Vec<u32> = payloads.iter().map(|payload| stamp(payload).sequence).collect();
            prop_assert_eq!(found, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            let _ = MessageFrames { upgraded: true }.next(&bytes);
        }
    }

    #[test]
    fn refusals_and_messages_in_parts_are_reported() {
        let mut frames = MessageFrames::default();
        let step = frames.next(b"HTTP/1.1 403 Forbidden\r\n\r\n");
        assert!(
            matches!(step, Ok(ReaderStep::Event(PacketEvent::Refused(_), 26))),
            "{step:?}"
        );
        let mut frames = MessageFrames { upgraded: true };
        assert!(frames.next(&[0x01, 1, b'x']).is_err());
        assert!(frames.next(&[0x88, 0]).is_err());
    }
}
