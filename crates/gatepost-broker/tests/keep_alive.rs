//! The keep alive of a client that the server does not read at times.

mod support;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use gatepost_broker::{
    Attachment, Broker, BrokerSettings, ConnectOptions, DisconnectCause, MemoryGauge,
    SlowSubscriber, SubscriberSocket,
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

/// A broker with one client, whose time passes as a test wants.
struct Fixture {
    clock: Arc<ManualClock>,
    broker: Broker,
    attachment: Attachment,
    ticks: Cell<u32>,
}

impl Fixture {
    fn new(settings: BrokerSettings, options: ConnectOptions) -> Self {
        let clock = ManualClock::at(SystemTime::now());
        let database = SimulatedDatabase::in_memory().expect("a database");
        let opened = database.open(&StoreSettings::default(), clock.clone());
        let (store, _writer) = opened.expect("a store");
        let broker = Broker::open_simulated(settings, store, clock.clone(), Arc::new(Unlimited));
        let broker = broker.expect("a broker");
        let connected = broker.connect(options, |_, _| {}).expect("a session");
        let mut attachment = connected.attachment;
        attachment.begin();
        Self {
            clock,
            broker,
            attachment,
            ticks: Cell::new(0),
        }
    }

    fn pass(&self, time: Duration) {
        self.clock.pass(time);
        self.broker.tick(self.ticks.get());
        self.ticks.set(self.ticks.get() + 1);
    }
}

#[test]
fn mqtt_3_1_2_22_silence_counts_only_while_the_client_is_read() {
    let options = ConnectOptions {
        silence_max: Some(SILENCE_MAX),
        ..connect_options()
    };
    let fixture = Fixture::new(BrokerSettings::default(), options);
    fixture.pass(SILENCE_MAX);
    fixture.attachment.note_reading(false);
    fixture.pass(SILENCE_MAX * 10);
    assert_eq!(ended(&fixture.attachment), None);
    fixture.attachment.note_reading(true);
    fixture.pass(SILENCE_MAX);
    assert_eq!(
        ended(&fixture.attachment),
        None,
        "it is allowed its time again"
    );
    fixture.pass(Duration::from_secs(1));
    let cause = ended(&fixture.attachment);
    assert_eq!(cause, Some(DisconnectCause::KeepAliveTimeout));
}

#[test]
fn mqtt_3_1_2_22_silence_is_never_cut_short() {
    let options = ConnectOptions {
        // A keep alive of one second.
        silence_max: Some(Duration::from_millis(1_500)),
        ..connect_options()
    };
    let fixture = Fixture::new(BrokerSettings::default(), options);
    for _ in 0..10 {
        // The broker counts whole seconds, so a packet at the end of one may be counted as one at
        // its beginning: here the client has been silent for little more than a second.
        fixture.pass(Duration::from_secs(1));
        fixture.pass(Duration::from_secs(1));
        assert_eq!(ended(&fixture.attachment), None);
        fixture.attachment.note_activity();
    }
    fixture.pass(Duration::from_secs(3));
    let cause = ended(&fixture.attachment);
    assert_eq!(cause, Some(DisconnectCause::KeepAliveTimeout));
}

/// A socket that takes nothing.
struct FullSocket;

impl SubscriberSocket for FullSocket {
    fn try_write(&self, _slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[test]
fn a_client_that_reads_nothing_is_ended_although_no_publisher_waits_for_it() {
    let settings = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        ..BrokerSettings::default()
    };
    let options = ConnectOptions {
        socket: Arc::new(FullSocket),
        ..connect_options()
    };
    let fixture = Fixture::new(settings, options);
    fixture.pass(Duration::from_hours(1));
    assert_eq!(ended(&fixture.attachment), None, "nothing waits for it");
    fixture
        .attachment
        .append(|out| out.extend_from_slice(b"an answer"));
    fixture.attachment.flush();
    fixture.pass(Duration::from_mins(4));
    assert_eq!(ended(&fixture.attachment), None);
    fixture.pass(Duration::from_mins(2));
    assert_eq!(ended(&fixture.attachment), Some(DisconnectCause::TooSlow));
}
