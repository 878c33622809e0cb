//! Subscriptions while the server uses more memory than it may.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use gatepost_broker::{
    Broker, BrokerSettings, ConnectOptions, Encoder, FrameOptions, MemoryGauge, RequestedFilter,
    SubscribeError, SubscribeOptions, SubscriberSocket, Unencodable, WireFormat,
};
use gatepost_message::{Publication, Qos};
use gatepost_settings::ByteSize;
use gatepost_store::{ManualClock, SimulatedDatabase, StoreSettings};

const MEMORY_MAX_MEBIBYTES: u64 = 80;

#[derive(Default)]
struct Resident(AtomicUsize);

impl MemoryGauge for Resident {
    fn resident_bytes(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

/// A socket and a format of a client that receives nothing.
struct Nothing;

impl SubscriberSocket for Nothing {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }
}

impl Encoder for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
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

#[test]
fn only_new_subscriptions_are_refused() {
    let clock = ManualClock::at(SystemTime::now());
    let database = SimulatedDatabase::in_memory().expect("a database");
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, _writer) = opened.expect("a store");
    let settings = BrokerSettings {
        memory_max: ByteSize::mebibytes(MEMORY_MAX_MEBIBYTES),
        ..BrokerSettings::default()
    };
    let resident = Arc::new(Resident::default());
    let broker = Broker::open_simulated(settings, store, clock, resident.clone());
    let broker = broker.expect("a broker");
    let options = ConnectOptions {
        peer: gatepost_message::Peer::Local,
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
        format: WireFormat::Static(&Nothing),
        socket: Arc::new(Nothing),
    };
    let connected = broker.connect(options, |_, _| {}).expect("a session");
    let subscribe = |filter: &str| {
        let requested = RequestedFilter::new(filter).expect("a filter");
        let options = SubscribeOptions::at(Qos::AtMostOnce);
        let retained = connected.attachment.subscribe(&requested, &options);
        retained.map(|retained| retained.len())
    };
    assert_eq!(subscribe("early/+"), Ok(0));
    let too_many = (MEMORY_MAX_MEBIBYTES as usize) << 21;
    resident.0.store(too_many, Ordering::Relaxed);
    broker.tick(0);
    assert_eq!(subscribe("late/+"), Err(SubscribeError::OutOfMemory));
    assert_eq!(subscribe("early/+"), Ok(0));
    resident.0.store(0, Ordering::Relaxed);
    broker.tick(1);
    assert_eq!(subscribe("late/+"), Ok(0));
}
