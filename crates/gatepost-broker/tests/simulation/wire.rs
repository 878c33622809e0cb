//! The frames between the simulated clients and the broker, and the socket that carries them. All
//! frames have one size; a publication's payload is its number.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use gatepost_broker::{Encoder, FrameOptions, SubscriberSocket, Unencodable};
use gatepost_message::{Publication, Qos};
use parking_lot::Mutex;

use crate::topics;

const FRAME_BYTES: usize = 16;

/// The packets that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Connack { is_present: bool },
    Publish(Publish),
    Puback { packet: u16, is_taken: bool },
    Pubrec { packet: u16, is_taken: bool },
    Pubrel { packet: u16 },
    Pubcomp { packet: u16 },
    Suback { packet: u16 },
    Unsuback { packet: u16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) packet: u16,
    pub(crate) topic: usize,
    pub(crate) number: u64,
    pub(crate) qos: Qos,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
}

impl Frame {
    pub(crate) fn put(self, out: &mut BytesMut) {
        let (kind, packet, flag) = match self {
            Self::Connack { is_present } => (0, 0, is_present),
            Self::Publish(publish) => {
                publish.put(out);
                return;
            }
            Self::Puback { packet, is_taken } => (2, packet, is_taken),
            Self::Pubrec { packet, is_taken } => (3, packet, is_taken),
            Self::Pubrel { packet } => (4, packet, false),
            Self::Pubcomp { packet } => (5, packet, false),
            Self::Suback { packet } => (6, packet, false),
            Self::Unsuback { packet } => (7, packet, false),
        };
        out.put_slice(&[kind, u8::from(flag)]);
        out.put_u16(packet);
        out.put_bytes(0, FRAME_BYTES - 4);
    }

    fn parse(bytes: &[u8; FRAME_BYTES]) -> Self {
        let packet = u16::from_be_bytes([bytes[2], bytes[3]]);
        let flag = bytes[1] != 0;
        match bytes[0] {
            0 => Self::Connack { is_present: flag },
            1 => Self::Publish(Publish {
                packet,
                topic: usize::from(bytes[4]),
                number: u64::from_be_bytes(*bytes.last_chunk().expect("8 bytes")),
                qos: Qos::from_level(bytes[1] & 3).expect("a level"),
                dup: bytes[1] & 4 != 0,
                retain: bytes[1] & 8 != 0,
            }),
            2 => Self::Puback {
                packet,
                is_taken: flag,
            },
            3 => Self::Pubrec {
                packet,
                is_taken: flag,
            },
            4 => Self::Pubrel { packet },
            5 => Self::Pubcomp { packet },
            6 => Self::Suback { packet },
            7 => Self::Unsuback { packet },
            other => panic!("no frame begins with {other}"),
        }
    }
}

impl Publish {
    fn put(self, out: &mut BytesMut) {
        let flags = self.qos.level() | u8::from(self.dup) << 2 | u8::from(self.retain) << 3;
        out.put_slice(&[1, flags]);
        out.put_u16(self.packet);
        out.put_u8(self.topic as u8);
        out.put_bytes(0, 3);
        out.put_u64(self.number);
    }
}

/// The number in a payload; 0 for the empty one, which clears a topic.
pub(crate) fn number_of(publication: &Publication) -> u64 {
    let payload: Option<[u8; 8]> = publication.payload[..].try_into().ok();
    payload.map_or(0, u64::from_be_bytes)
}

pub(crate) struct Frames;

impl Encoder for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let publish = Publish {
            packet: options.packet_id.map_or(0, NonZeroU16::get),
            topic: topics::index_of(publication.topic.as_str()),
            number: number_of(publication),
            qos: options.qos,
            dup: options.dup,
            retain: options.retain,
        };
        publish.put(out);
        Ok(0)
    }

    fn encode_release(&self, packet_id: NonZeroU16, out: &mut BytesMut) {
        let packet = packet_id.get();
        Frame::Pubrel { packet }.put(out);
    }
}

/// From the server to one client. Bytes that were written and not read are lost with the
/// connection.
#[derive(Default)]
pub(crate) struct FrameSocket {
    bytes: Mutex<Vec<u8>>,
    read: Mutex<usize>,
}

impl FrameSocket {
    pub(crate) fn has_frames(&self) -> bool {
        *self.read.lock() < self.bytes.lock().len()
    }

    pub(crate) fn next(&self) -> Option<Frame> {
        let bytes = self.bytes.lock();
        let mut read = self.read.lock();
        let frame = bytes.get(*read..*read + FRAME_BYTES)?;
        *read += FRAME_BYTES;
        Some(Frame::parse(frame.first_chunk().expect("a whole frame")))
    }
}

impl SubscriberSocket for FrameSocket {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock();
        let before = bytes.len();
        for slice in slices {
            bytes.extend_from_slice(slice);
        }
        Ok(bytes.len() - before)
    }
}

/// A new socket, shared by its reading end.
pub(crate) fn socket() -> Arc<FrameSocket> {
    Arc::default()
}
