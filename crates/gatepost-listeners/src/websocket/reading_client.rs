//! The client of a WebSocket that only reads: its frames are checked and dropped.

use super::decode::{AcceptedMessages, ControlFrame, WebSocketDecoder, WebSocketError};
use super::encode::{Opcode, whole_frame};

/// The longest message that such a client may send.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// RFC 6455, section 7.4.1.
const NORMAL_CLOSURE: u16 = 1000;

/// The client ends the connection, or has violated the protocol; the code for the server's close
/// frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WebSocketClose(pub(crate) u16);

/// Checks the frames that the client sends.
#[derive(Debug)]
pub(crate) struct ReadingClient {
    decoder: WebSocketDecoder,
    /// Payloads, which are dropped.
    ignored: Vec<u8>,
}

impl ReadingClient {
    pub(crate) const fn new() -> Self {
        let accepts = AcceptedMessages::Messages {
            bytes_max: MESSAGE_BYTES_MAX,
        };
        Self {
            decoder: WebSocketDecoder::new(MESSAGE_BYTES_MAX, accepts),
            ignored: Vec::new(),
        }
    }

    /// Takes the next bytes; gives the frames that answer them to `reply`.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        mut reply: impl FnMut(Vec<u8>),
    ) -> Result<(), WebSocketClose> {
        let mut closed = None;
        let fed = self.decoder.feed(input, &mut self.ignored, |control| {
            // Nothing counts after a close frame (section 5.5.1).
            if closed.is_some() {
                return;
            }
            match control {
                ControlFrame::Ping(payload) => reply(whole_frame(Opcode::Pong, &payload)),
                ControlFrame::Pong => {}
                ControlFrame::Close(code) => {
                    closed = Some(WebSocketClose(code.unwrap_or(NORMAL_CLOSURE)));
                }
            }
        });
        self.ignored.clear();
        match (closed, fed) {
            (Some(closed), _) => Err(closed),
            (None, Err(error)) => Err(WebSocketClose(WebSocketError::close_code(error))),
            (None, Ok(())) => Ok(()),
        }
    }
}
