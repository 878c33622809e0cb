//! The reading half of a connection: from the socket to complete packets, with no buffer of its own
//! while no packet is unfinished.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll};

use gatepost_mqtt::Frame;

use super::partial_packet::PartialPacket;
use super::settings::MqttSettings;
use crate::in_flight::{InFlightLease, InFlightLimitReached};
use crate::stream::Stream;
use crate::websocket::{AcceptedMessages, ControlFrame, WebSocketDecoder, WebSocketError};

/// The size of a worker's read buffer. One read gives one batch of work: large enough that a busy
/// connection needs few system calls, small enough that other connections get their turn.
const READ_BYTES: usize = 64 * 1024;
/// The buffer of an unfinished packet grows with the bytes that arrive, never with the length that
/// the packet announces.
const GROWTH_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// The additional state for WebSocket.
pub(super) struct WebSocketInput {
    decoder: WebSocketDecoder,
}

/// The content of the bytes of a WebSocket connection.
#[derive(Default)]
pub(super) struct ControlFrames {
    /// Control frames to answer or to follow.
    pub(super) controls: Vec<ControlFrame>,
    /// The error of a malformed frame.
    pub(super) error: Option<WebSocketError>,
}

/// The reading half of a connection.
#[derive(Default)]
pub(super) struct MqttInput {
    /// The beginning of a packet whose end has not arrived.
    tail: Vec<u8>,
    /// Present only while `tail` contains such a beginning.
    unfinished: Option<Box<PartialPacket>>,
    websocket: Option<Box<WebSocketInput>>,
}

impl MqttInput {
    pub(super) fn plain() -> Self {
        Self::default()
    }

    /// Frames may have any length, since each may contain any number of packets
    /// \[MQTT-6.0.0-2\]; the packets are bounded.
    pub(super) fn websocket() -> Self {
        let decoder = WebSocketDecoder::new(u64::MAX, AcceptedMessages::BinaryStream);
        Self {
            websocket: Some(Box::new(WebSocketInput { decoder })),
            ..Self::default()
        }
    }

    /// Whether a packet or a frame has begun and has not ended.
    fn is_unfinished(&self) -> bool {
        let in_frame = |websocket: &WebSocketInput| websocket.decoder.is_within_frame();
        !self.tail.is_empty() || self.websocket.as_deref().is_some_and(in_frame)
    }

    /// Records the bytes of a read, and whether packets were completed by them.
    fn note(&mut self, count: usize, ended_packets: bool) {
        if ended_packets || !self.is_unfinished() {
            self.unfinished = None;
        } else if let Some(unfinished) = &mut self.unfinished {
            unfinished.add(count);
        }
    }

    /// Ready when the rest of the pending packet arrives too slowly. To be polled only while
    /// waiting for the client.
    pub(super) fn poll_deadline(
        &mut self,
        context: &mut Context<'_>,
        settings: &MqttSettings,
    ) -> Poll<()> {
        if !self.is_unfinished() {
            return Poll::Pending;
        }
        let unfinished = self.unfinished.get_or_insert_default();
        unfinished.poll_deadline(context, settings)
    }

    /// Stops the clock while the client is not read, since its packet cannot be completed
    /// meanwhile.
    pub(super) fn stop_clock(&mut self) {
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.stop_clock();
        }
    }

    /// Reserves memory for the present length of the unfinished packet.
    pub(super) fn reserve(
        &mut self,
        lease: impl FnOnce() -> InFlightLease,
    ) -> Result<(), InFlightLimitReached> {
        let bytes = self.tail.len();
        if bytes <= READ_BYTES {
            return Ok(());
        }
        let unfinished = self.unfinished.get_or_insert_default();
        unfinished.reserve(bytes, lease)
    }

    /// Reads once and passes the bytes of all packets so far to `process`, which returns how many
    /// it used. `Ok(0)` is the end of the connection.
    pub(super) fn read(
        &mut self,
        stream: &Stream,
        controls: &mut ControlFrames,
        process: impl FnOnce(&[u8]) -> usize,
    ) -> io::Result<usize> {
        if self.websocket.is_none() && self.needs_own_buffer() {
            return self.read_large(stream, process);
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            if self.websocket.is_some() {
                let count = stream.try_read(buffer)?;
                self.take_frames(&buffer[..count], controls, process);
                return Ok(count);
            }
            let begun = self.tail.len();
            buffer[..begun].copy_from_slice(&self.tail);
            let count = stream.try_read(&mut buffer[begun..])?;
            let bytes = &buffer[..begun + count];
            let used = process(bytes).min(bytes.len());
            self.tail = bytes[used..].to_vec();
            self.note(count, used > 0);
            Ok(count)
        })
    }

    /// Whether the unfinished packet does not fit into the worker's buffer.
    fn needs_own_buffer(&self) -> bool {
        Frame::expected_length(&self.tail).is_some_and(|length| length > READ_BYTES)
    }

    /// Continues with a large packet in the connection's own buffer.
    fn read_large(
        &mut self,
        stream: &Stream,
        process: impl FnOnce(&[u8]) -> usize,
    ) -> io::Result<usize> {
        let begun = self.tail.len();
        let missing = Frame::expected_length(&self.tail)
            .map_or(READ_BYTES, |length| length.saturating_sub(begun).max(1));
        let room = missing.min(begun.clamp(READ_BYTES, GROWTH_BYTES_MAX));
        self.tail.resize(begun + room, 0);
        let result = stream.try_read(&mut self.tail[begun..]);
        let count = *result.as_ref().unwrap_or(&0);
        self.tail.truncate(begun + count);
        let used = if count > 0 && count >= missing {
            self.use_tail(process)
        } else {
            0
        };
        self.note(count, used > 0);
        result
    }

    /// Adds bytes that were read elsewhere, such as after an HTTP request.
    pub(super) fn take_frames(
        &mut self,
        bytes: &[u8],
        controls: &mut ControlFrames,
        process: impl FnOnce(&[u8]) -> usize,
    ) {
        let Some(websocket) = &mut self.websocket else {
            return;
        };
        let on_control = |control| controls.controls.push(control);
        if let Err(error) = websocket.decoder.feed(bytes, &mut self.tail, on_control) {
            controls.error = Some(error);
        }
        let used = self.use_tail(process);
        self.note(bytes.len(), used > 0);
    }

    /// Handles the bytes that were read after the awaited packet.
    pub(super) fn process_tail(&mut self, process: impl FnOnce(&[u8]) -> usize) {
        if !self.tail.is_empty() {
            self.use_tail(process);
        }
    }

    fn use_tail(&mut self, process: impl FnOnce(&[u8]) -> usize) -> usize {
        let tail = std::mem::take(&mut self.tail);
        let used = process(&tail).min(tail.len());
        if used == 0 {
            self.tail = tail;
        } else {
            self.tail = tail[used..].to_vec();
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_frame_may_be_larger_than_any_packet() {
        let mut input = MqttInput::websocket();
        let mut controls = ControlFrames::default();
        let mut header = vec![0x82, 0xFF];
        header.extend((1_u64 << 40).to_be_bytes());
        header.extend([0; 4]);
        let mut packets = 0;
        for bytes in [&header[..], &[0xC0, 0], &[0xC0, 0]] {
            input.take_frames(bytes, &mut controls, |bytes| {
                packets += bytes.len() / 2;
                bytes.len()
            });
        }
        assert_eq!((packets, controls.error), (2, None));
    }
}
