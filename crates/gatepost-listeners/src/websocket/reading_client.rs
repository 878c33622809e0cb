//! The client of a WebSocket that only reads: its frames are checked and dropped.

use super::decode::{AcceptedMessages, Control, Decoder, FrameError};
use super::encode::{Opcode, whole_frame};

/// The longest message that such a client may send.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// RFC 6455, section 7.4.1.
const NORMAL_CLOSURE: u16 = 1000;

/// The client ends the connection, or broke the protocol; the code for our close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) u16);

/// Checks what the client sends.
#[derive(Debug)]
pub(crate) struct ReadingClient {
    decoder: Decoder,
    /// Payloads, which are dropped.
    ignored: Vec<u8>,
}

impl ReadingClient {
    pub(crate) const fn new() -> Self {
        let accepts = AcceptedMessages::Messages {
            bytes_max: MESSAGE_BYTES_MAX,
        };
        Self {
            decoder: Decoder::new(MESSAGE_BYTES_MAX, accepts),
            ignored: Vec::new(),
        }
    }

    /// Takes the next bytes; gives the frames that answer them to `reply`.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        mut reply: impl FnMut(Vec<u8>),
    ) -> Result<(), Closed> {
        let mut closed = None;
        let fed = self.decoder.feed(input, &mut self.ignored, |control| {
            // Nothing counts after a close frame (section 5.5.1).
            if closed.is_some() {
                return;
            }
            match control {
                Control::Ping(payload) => reply(whole_frame(Opcode::Pong, &payload)),
                Control::Pong => {}
                Control::Close(code) => closed = Some(Closed(code.unwrap_or(NORMAL_CLOSURE))),
            }
        });
        self.ignored.clear();
        match (closed, fed) {
            (Some(closed), _) => Err(closed),
            (None, Err(error)) => Err(Closed(FrameError::close_code(error))),
            (None, Ok(())) => Ok(()),
        }
    }
}
