//! A client that receives nothing, for tests of what the broker does besides deliveries.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{
    ConnectOptions, Encoder, FrameOptions, SubscriberSocket, Unencodable, WireFormat,
};
use gatepost_message::{Peer, Publication};

/// A socket that takes everything, and a format without bytes.
pub(crate) struct NoFrames;

impl Encoder for NoFrames {
    fn name(&self) -> &'static str {
        "no frames"
    }

    fn encode(
        &self,
        _publication: &Publication,
        _options: &FrameOptions<'_>,
        _out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        Ok(0)
    }

    fn encode_release(&self, _packet_id: NonZeroU16, _out: &mut BytesMut) {}
}

impl SubscriberSocket for NoFrames {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }
}

/// The options of a client whose session ends with its connection.
pub(crate) fn connect_options() -> ConnectOptions {
    ConnectOptions {
        peer: Peer::Local,
        client_id: Some("client".to_owned()),
        user: None,
        authorization: None,
        kind: "test",
        clean_start: false,
        expiry: Duration::ZERO,
        receive_max: 10,
        frame_bytes_max: None,
        alias_max: 0,
        silence_max: None,
        will: None,
        slow_subscriber: None,
        format: WireFormat::Static(&NoFrames),
        socket: Arc::new(NoFrames),
    }
}
