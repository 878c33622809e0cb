//! WebSocket framing (RFC 6455, section 5), server side, without I/O.
//!
//! HTTP performs the handshake; from the first byte after it, [`WebSocketDecoder`] turns what the
//! client sends into a stream of data bytes and [`ControlFrame`] frames, and the `put_…` functions
//! write the server's frames, which are not masked. Protocols that only need a stream of bytes,
//! as MQTT does \[MQTT-6.0.0-2\], never see where frames begin or end.

mod decode;
mod encode;
mod reading_client;
mod utf8;

pub use decode::{AcceptedMessages, ControlFrame, WebSocketDecoder, WebSocketError};
pub use encode::{
    HEADER_BYTES_MAX, Opcode, header_length, put_close, put_framed, put_header, whole_frame,
};
pub(crate) use reading_client::{ReadingClient, WebSocketClose};
