//! Clients without a network, and CPU time.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{
    Attachment, Broker, ConnectOptions, Encoder, FrameOptions, RequestedFilter, SubscribeOptions,
    SubscriberSocket, Unencodable, WireFormat,
};
use gatepost_message::{Publication, Qos};

struct NullSocket;

impl SubscriberSocket for NullSocket {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }
}

/// Frames that are only a payload.
struct Bare;

impl Encoder for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn encode(
        &self,
        publication: &Publication,
        _options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        out.extend_from_slice(&publication.payload);
        Ok(0)
    }

    fn encode_release(&self, _packet_id: NonZeroU16, _out: &mut BytesMut) {}
}

/// A client that takes everything; its session outlives it for so long.
pub(crate) fn connect(broker: &Broker, client_id: &str, expiry: Duration) -> Attachment {
    let options = ConnectOptions {
        peer: gatepost_message::Peer::Local,
        client_id: Some(client_id.to_owned()),
        user: None,
        authorization: None,
        kind: "bench",
        clean_start: false,
        expiry,
        receive_max: u16::MAX,
        frame_bytes_max: None,
        alias_max: 0,
        silence_max: None,
        will: None,
        slow_subscriber: None,
        format: WireFormat::Static(&Bare),
        socket: Arc::new(NullSocket),
    };
    let mut connected = broker.connect(options, |_, _| {}).expect("a session");
    connected.attachment.begin();
    connected.attachment
}

pub(crate) fn subscribe(attachment: &Attachment, filter: &str, qos: Qos) {
    let requested = RequestedFilter::new(filter).expect("a filter");
    attachment
        .subscribe(&requested, &SubscribeOptions::at(qos))
        .expect("within limits");
}

/// The CPU time of this process so far, of all threads, in clock ticks of 10 ms.
#[allow(dead_code)] // not every bench asks
pub(crate) fn cpu_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").expect("readable");
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u32 = behind_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u32>().expect("a number"))
        .sum();
    TICK * ticks
}
