//! Subscriptions while the server uses more memory than it may.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use gatepost_broker::{
    Broker, BrokerSettings, MemoryGauge, RequestedFilter, SubscribeError, SubscribeOptions,
};
use gatepost_message::Qos;
use gatepost_settings::ByteSize;
use gatepost_store::{ManualClock, SimulatedDatabase, StoreSettings};

use support::connect_options;

const MEMORY_MAX_MEBIBYTES: u64 = 80;

#[derive(Default)]
struct Resident(AtomicUsize);

impl MemoryGauge for Resident {
    fn resident_bytes(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed))
    }
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
    let connected = broker
        .connect(connect_options(), |_, _| {})
        .expect("a session");
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
