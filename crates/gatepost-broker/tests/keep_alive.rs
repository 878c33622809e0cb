//! The keep alive of a client that the server does not read at times.

mod support;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use gatepost_broker::{
    Attachment, Broker, BrokerSettings, ConnectOptions, DisconnectCause, MemoryGauge,
};
use gatepost_store::{ManualClock, SimulatedDatabase, StoreSettings};

use support::connect_options;

const SILENCE_MAX: Duration = Duration::from_secs(3);

struct Unlimited;

impl MemoryGauge for Unlimited {
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
}

fn ended(attachment: &Attachment) -> Option<DisconnectCause> {
    let mut context = Context::from_waker(Waker::noop());
    match attachment.poll_ended(&mut context, |_| Poll::Pending) {
        Poll::Ready(cause) => Some(cause),
        Poll::Pending => None,
    }
}

#[test]
fn mqtt_3_1_2_22_silence_counts_only_while_the_client_is_read() {
    let clock = ManualClock::at(SystemTime::now());
    let database = SimulatedDatabase::in_memory().expect("a database");
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, _writer) = opened.expect("a store");
    let settings = BrokerSettings::default();
    let broker = Broker::open_simulated(settings, store, clock.clone(), Arc::new(Unlimited));
    let broker = broker.expect("a broker");
    let options = ConnectOptions {
        silence_max: Some(SILENCE_MAX),
        ..connect_options()
    };
    let connected = broker.connect(options, |_, _| {}).expect("a session");
    let mut attachment = connected.attachment;
    attachment.begin();
    let mut ticks = 0;
    let mut pass = |time: Duration| {
        clock.pass(time);
        broker.tick(ticks);
        ticks += 1;
    };

    pass(SILENCE_MAX);
    attachment.note_reading(false);
    pass(SILENCE_MAX * 10);
    assert_eq!(ended(&attachment), None);
    attachment.note_reading(true);
    pass(SILENCE_MAX);
    assert_eq!(ended(&attachment), None, "it is allowed its time again");
    pass(Duration::from_secs(1));
    assert_eq!(ended(&attachment), Some(DisconnectCause::KeepAliveTimeout));
}
