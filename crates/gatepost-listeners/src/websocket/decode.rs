//! The decoder of a client's frames, which may arrive in pieces of any size.
//!
//! One decoder serves both uses of WebSocket: MQTT takes binary messages as a stream of bytes, a
//! reader of events sends no messages, but the same rules apply to it.

use super::encode::Opcode;
use super::utf8::Utf8Check;

/// The longest payload of a control frame (section 5.5).
const CONTROL_BYTES_MAX: usize = 125;
/// The bit of the last frame of a message.
const FINAL: u8 = 0x80;
/// Two bytes, eight of length, four of mask.
const HEADER_BYTES_MAX: usize = 14;

/// The reason why a client's frames are refused; each has its close code (section 7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketError {
    /// section 5.1: a client masks.
    #[error("a client's frame is not masked")]
    NotMasked,
    /// Section 5.2: no extension was agreed on.
    #[error("a reserved bit of a frame is set")]
    ReservedBit,
    /// Section 5.2.
    #[error("a frame has an unknown opcode")]
    UnknownOpcode,
    /// Section 5.2: lengths are written as short as can be.
    #[error("a frame's length is written longer than needed, or out of range")]
    Length,
    /// section 5.5.
    #[error("a control frame is fragmented or longer than 125 bytes")]
    Control,
    /// section 5.4.
    #[error("a continuation without a beginning, or a beginning within a message")]
    Continuation,
    /// \[MQTT-6.0.0-1\]
    #[error("a text frame, where only binary ones are understood")]
    Text,
    /// Section 8.1.
    #[error("a text message or the reason of a close frame is not UTF-8")]
    NotUtf8,
    /// Section 7.4.
    #[error("a close frame has a code that no peer may send, or half a code")]
    CloseCode,
    /// A bound that the standard does not have.
    #[error("a frame is larger than allowed")]
    TooLarge,
}

impl WebSocketError {
    /// The code for the close frame.
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Text => 1003,
            Self::NotUtf8 => 1007,
            Self::TooLarge => 1009,
            _ => 1002,
        }
    }
}

/// The messages of a client that a decoder accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedMessages {
    /// Binary messages of any length, as a stream of bytes.
    BinaryStream,
    /// Text and binary messages up to a length.
    Messages {
        /// The longest message, over all its frames.
        bytes_max: u64,
    },
}

/// A control frame from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlFrame {
    /// To be answered with a pong of the same payload.
    Ping(Vec<u8>),
    /// An answer, or a sign of life.
    Pong,
    /// The client closes; with its code, where it gave one.
    Close(Option<u16>),
}

#[derive(Debug)]
enum FrameState {
    Header,
    Payload {
        mask: [u8; 4],
        /// Bytes unmasked so far; only their number modulo four matters.
        done: u64,
        left: u64,
        opcode: Opcode,
    },
}

/// Reads a client's frames. Holds no data but an unfinished header or control frame. After an
/// error or a close frame it must not be fed any more.
#[derive(Debug)]
pub struct WebSocketDecoder {
    state: FrameState,
    header: [u8; HEADER_BYTES_MAX],
    header_length: usize,
    /// The opcode of the unfinished message.
    message: Option<Opcode>,
    /// The bytes of its frames so far, where they are bounded.
    message_bytes: u64,
    text: Utf8Check,
    control: Vec<u8>,
    frame_bytes_max: u64,
    accepts: AcceptedMessages,
}

impl WebSocketDecoder {
    /// Refuses frames of more than `frame_bytes_max` bytes of payload.
    pub const fn new(frame_bytes_max: u64, accepts: AcceptedMessages) -> Self {
        Self {
            state: FrameState::Header,
            header: [0; HEADER_BYTES_MAX],
            header_length: 0,
            message: None,
            message_bytes: 0,
            text: Utf8Check::new(),
            control: Vec::new(),
            frame_bytes_max,
            accepts,
        }
    }

    /// Whether a frame has begun and has not ended.
    pub const fn is_within_frame(&self) -> bool {
        self.header_length > 0 || matches!(self.state, FrameState::Payload { .. })
    }

    /// Takes the next bytes of the connection: appends the payload of data frames to `data`, and
    /// passes control frames to `on_control` in order.
    pub fn feed(
        &mut self,
        mut input: &[u8],
        data: &mut Vec<u8>,
        mut on_control: impl FnMut(ControlFrame),
    ) -> Result<(), WebSocketError> {
        loop {
            match &mut self.state {
                FrameState::Header => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(());
                    };
                    input = rest;
                    self.header[self.header_length] = byte;
                    self.header_length += 1;
                    self.read_header()?;
                }
                FrameState::Payload {
                    mask,
                    done,
                    left,
                    opcode,
                } => {
                    let count = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    let (bytes, rest) = input.split_at(count);
                    input = rest;
                    let out = if opcode.is_control() {
                        &mut self.control
                    } else {
                        &mut *data
                    };
                    let start = out.len();
                    unmask(bytes, *mask, *done, out);
                    let is_text = self.message == Some(Opcode::Text) && !opcode.is_control();
                    if is_text && !self.text.feed(out.get(start..).unwrap_or_default()) {
                        return Err(WebSocketError::NotUtf8);
                    }
                    *done += count as u64;
                    *left -= count as u64;
                    if *left > 0 {
                        return Ok(());
                    }
                    let opcode = *opcode;
                    self.state = FrameState::Header;
                    self.header_length = 0;
                    if opcode.is_control() {
                        on_control(self.take_control(opcode)?);
                    } else if self.header[0] & FINAL != 0 {
                        self.end_message()?;
                    }
                }
            }
        }
    }

    fn end_message(&mut self) -> Result<(), WebSocketError> {
        let is_text = self.message.take() == Some(Opcode::Text);
        self.message_bytes = 0;
        if is_text && !self.text.end() {
            return Err(WebSocketError::NotUtf8);
        }
        Ok(())
    }

    fn take_control(&mut self, opcode: Opcode) -> Result<ControlFrame, WebSocketError> {
        let payload = std::mem::take(&mut self.control);
        Ok(match opcode {
            Opcode::Ping => ControlFrame::Ping(payload),
            Opcode::Close => ControlFrame::Close(close_code(&payload)?),
            _ => ControlFrame::Pong,
        })
    }

    /// Looks whether the header is whole, and checks it as early as can be.
    fn read_header(&mut self) -> Result<(), WebSocketError> {
        let first = self.header[0];
        if self.header_length == 1 {
            return self.check_first(first);
        }
        let second = self.header[1];
        if second & 0x80 == 0 {
            return Err(WebSocketError::NotMasked);
        }
        let length_bytes = match second & 0x7F {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let opcode = Opcode::from_bits(first & 0x0F).ok_or(WebSocketError::UnknownOpcode)?;
        if opcode.is_control() && (length_bytes > 0 || first & 0x80 == 0) {
            return Err(WebSocketError::Control);
        }
        if self.header_length < 2 + length_bytes + 4 {
            return Ok(());
        }
        let length = match length_bytes {
            0 => u64::from(second & 0x7F),
            count => self.header[2..2 + count]
                .iter()
                .fold(0, |length, &byte| length << 8 | u64::from(byte)),
        };
        let is_shortest = match length_bytes {
            2 => length > CONTROL_BYTES_MAX as u64,
            8 => length > u64::from(u16::MAX) && length >> 63 == 0,
            _ => true,
        };
        if !is_shortest {
            return Err(WebSocketError::Length);
        }
        if length > self.frame_bytes_max {
            return Err(WebSocketError::TooLarge);
        }
        let mut mask = [0; 4];
        mask.copy_from_slice(&self.header[2 + length_bytes..6 + length_bytes]);
        if !opcode.is_control() {
            self.begin_frame(opcode, length)?;
        }
        self.state = FrameState::Payload {
            mask,
            done: 0,
            left: length,
            opcode,
        };
        Ok(())
    }

    fn check_first(&self, first: u8) -> Result<(), WebSocketError> {
        if first & 0x70 != 0 {
            return Err(WebSocketError::ReservedBit);
        }
        match Opcode::from_bits(first & 0x0F).ok_or(WebSocketError::UnknownOpcode)? {
            Opcode::Text if self.accepts == AcceptedMessages::BinaryStream => {
                Err(WebSocketError::Text)
            }
            Opcode::Continuation if self.message.is_none() => Err(WebSocketError::Continuation),
            Opcode::Binary | Opcode::Text if self.message.is_some() => {
                Err(WebSocketError::Continuation)
            }
            _ => Ok(()),
        }
    }

    fn begin_frame(&mut self, opcode: Opcode, length: u64) -> Result<(), WebSocketError> {
        if opcode != Opcode::Continuation {
            self.message = Some(opcode);
        }
        if let AcceptedMessages::Messages { bytes_max } = self.accepts {
            self.message_bytes += length;
            if self.message_bytes > bytes_max {
                return Err(WebSocketError::TooLarge);
            }
        }
        Ok(())
    }
}

/// The code of a close frame's payload (section 5.5.1), if it has one.
fn close_code(payload: &[u8]) -> Result<Option<u16>, WebSocketError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() {
            Ok(None)
        } else {
            Err(WebSocketError::CloseCode)
        };
    };
    let code = u16::from_be_bytes(*code);
    // Section 7.4: the others are reserved, or must not be sent in a frame.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WebSocketError::CloseCode);
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(WebSocketError::NotUtf8),
    }
}

/// Section 5.3. `done` is the number of earlier bytes of the payload.
fn unmask(bytes: &[u8], mut mask: [u8; 4], done: u64, out: &mut Vec<u8>) {
    mask.rotate_left((done % 4) as usize);
    let start = out.len();
    out.extend_from_slice(bytes);
    // The compiler makes wide instructions of whole groups.
    let mut groups = out[start..].chunks_exact_mut(4);
    for group in &mut groups {
        for (byte, key) in group.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
    for (byte, key) in groups.into_remainder().iter_mut().zip(mask) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's frame.
    fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..=125 => bytes.push(0x80 | length as u8),
            length @ 126..=65_535 => {
                bytes.push(0xFE);
                bytes.extend((length as u16).to_be_bytes());
            }
            length => {
                bytes.push(0xFF);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, key)| byte ^ key),
        );
        bytes
    }

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Vec<ControlFrame>), WebSocketError> {
        let mut decoder = WebSocketDecoder::new(1 << 20, AcceptedMessages::BinaryStream);
        let (mut data, mut controls) = (Vec::new(), Vec::new());
        for piece in pieces {
            decoder.feed(piece, &mut data, |control| controls.push(control))?;
        }
        Ok((data, controls))
    }

    #[test]
    fn malformed_frames_have_an_explanation() {
        let cases: [(&[u8], WebSocketError); 9] = [
            (&[0x82, 0x01], WebSocketError::NotMasked),
            (&[0xC2], WebSocketError::ReservedBit),
            (&[0x83], WebSocketError::UnknownOpcode),
            (&[0x81], WebSocketError::Text),
            (&[0x80], WebSocketError::Continuation),
            (&[0x89, 0xFE], WebSocketError::Control),
            (&[0x09, 0x80], WebSocketError::Control),
            (&[0x82, 0xFE, 0, 125, 0, 0, 0, 0], WebSocketError::Length),
            (
                &[0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
                WebSocketError::TooLarge,
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(decode(&[bytes]), Err(error), "{bytes:x?}");
        }
        let begun = frame(0x02, b"a", [1; 4]);
        assert_eq!(decode(&[&begun, &begun]), Err(WebSocketError::Continuation));
    }

    #[test]
    fn control_frames_may_stand_between_fragments() {
        let bytes = [
            frame(0x02, b"one ", [1, 2, 3, 4]),
            frame(0x89, b"ping", [5, 6, 7, 8]),
            frame(0x80, b"two", [9, 9, 9, 9]),
            frame(0x88, &[0x03, 0xE8], [1, 1, 1, 1]),
        ]
        .concat();
        let (data, controls) = decode(&[&bytes]).expect("valid");
        assert_eq!(data, b"one two");
        assert_eq!(
            controls,
            [
                ControlFrame::Ping(b"ping".to_vec()),
                ControlFrame::Close(Some(1000))
            ]
        );
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_data(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
            mask: [u8; 4], cut: prop::sample::Index,
        ) {
            let frames = payloads.iter().flat_map(|payload| frame(0x82, payload, mask));
            let bytes: Vec<u8> = frames.collect();
            let cut = cut.index(bytes.len());
            let (data, _) = decode(&[&bytes[..cut], &bytes[cut..]]).expect("valid");
            prop_assert_eq!(data, payloads.concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&[&bytes]);
        }
    }
}
