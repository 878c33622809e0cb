//! Wills, and the messages that they become.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use gatepost_broker::{
    Authorization, Broker, BrokerSettings, ConnectOptions, Connected, Encoder, FrameOptions,
    LocalSubscription, MemoryGauge, MovedSession, ReaderOptions, SessionAbsence, SessionAdoption,
    SessionName, SessionWill, StreamEvent, SubscriberSocket, Unencodable, WireFormat,
};
use gatepost_message::{MessageId, Peer, Properties, Publication, Qos, Topic, TopicFilter};
use gatepost_store::{
    ManualClock, ManualWriter, SimulatedDatabase, StoreError, StoreSettings, Ticket,
};

const HOUR: Duration = Duration::from_hours(1);
const TOPIC: &str = "state/one";

struct Unlimited;

impl MemoryGauge for Unlimited {
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
}

struct Permitted;

impl Authorization for Permitted {
    fn may_receive(&self, _topic: &str) -> bool {
        true
    }

    fn may_publish(&self, _topic: &str, _retain: bool) -> bool {
        true
    }
}

/// A format without bytes: what clients receive is not tested here.
struct NoFrames;

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

struct Fixture {
    broker: Broker,
    writer: ManualWriter,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::at(SystemTime::now());
        let database = SimulatedDatabase::in_memory().expect("a database");
        let opened = database.open(&StoreSettings::default(), clock.clone());
        let (store, writer) = opened.expect("a store");
        let settings = BrokerSettings::default();
        let broker = Broker::open_simulated(settings, store, clock.clone(), Arc::new(Unlimited));
        Self {
            broker: broker.expect("a broker"),
            writer,
            clock,
        }
    }

    /// Adds a session without a connection, whose will is due after a second.
    fn await_client(&self, number: u64, will: Publication) {
        let absence = SessionAbsence {
            ended: None,
            will: Some(SessionWill {
                publication: will,
                delay: Duration::from_secs(1),
            }),
            authorization: Arc::new(Permitted),
        };
        let adopted = self.broker.adopt_session(SessionAdoption {
            session: MovedSession {
                number,
                name: SessionName {
                    user: None,
                    client_id: format!("client-{number}").into(),
                },
                kind: "mqtt".to_owned(),
                expiry: HOUR,
                sent: 0,
                subscriptions: Vec::new(),
                received: Vec::new(),
                deliveries: Vec::new(),
            },
            missed: Vec::new(),
            changes: Vec::new(),
            absence: Some(absence),
        });
        adopted.expect("it is submitted");
    }

    /// Connects a client, whose will has no delay.
    fn connect(&self, clean_start: bool, expiry: Duration) -> Connected {
        let options = ConnectOptions {
            client_id: Some("client".to_owned()),
            user: None,
            authorization: None,
            peer: Peer::Local,
            kind: "mqtt",
            clean_start,
            expiry,
            receive_max: 10,
            frame_bytes_max: None,
            alias_max: 0,
            silence_max: None,
            will: Some(SessionWill {
                publication: will(),
                delay: Duration::ZERO,
            }),
            slow_subscriber: None,
            format: WireFormat::Static(&NoFrames),
            socket: Arc::new(NoFrames),
        };
        self.broker.connect(options, |_, _| {}).expect("connected")
    }

    /// Loses a connection whose will the disk then does not store.
    fn lose_while_disk_fails(&mut self, mut connected: Connected) {
        self.writer.commit(usize::MAX);
        connected.attachment.begin();
        drop(connected);
        self.writer.fail(&StoreError::Closed);
    }

    fn retained(&self) -> Vec<Arc<Publication>> {
        let filter = TopicFilter::new(TOPIC).expect("a filter");
        self.broker.retained(&filter)
    }

    fn read(&self) -> LocalSubscription {
        let filters = [TopicFilter::new("state/#").expect("a filter")];
        self.broker
            .subscribe_stream(&filters, ReaderOptions::default())
    }
}

/// A retained message of a client that connected an hour ago, worth delivering for a minute.
fn will() -> Publication {
    Publication {
        id: MessageId::floor_at(SystemTime::now() - HOUR),
        qos: Qos::AtLeastOnce,
        retain: true,
        properties: Some(Box::new(Properties {
            expiry_seconds: Some(60),
            ..Properties::default()
        })),
        ..Publication::new(Topic::new(TOPIC).expect("a topic"), "offline")
    }
}

fn received(reader: &mut LocalSubscription) -> Vec<Arc<Publication>> {
    let mut all = Vec::new();
    while let Some(StreamEvent::Publication(one)) = reader.try_next() {
        all.push(one.publication.clone());
    }
    all
}

// MQTT 5, section 3.1.3.2.4, and [MQTT-3.3.2-5].
#[test]
fn a_will_arrives_and_begins_to_expire_when_it_is_published() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let before = MessageId::next();
    fixture.await_client(1, will());
    fixture.writer.commit(usize::MAX);
    fixture.clock.pass(Duration::from_secs(2));
    fixture.broker.tick(0);
    fixture.writer.commit(usize::MAX);

    let published = received(&mut reader);
    let [published] = published.as_slice() else {
        panic!("{published:?}");
    };
    assert!(published.id > before, "{:?} is not new", published.id);
    assert_eq!(fixture.retained(), std::slice::from_ref(published));
}

#[test]
fn a_will_is_published_again_when_it_can_be_stored_and_not_before() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.lose_while_disk_fails(connected);
    for tick in 0..5 {
        fixture.broker.tick(tick);
        fixture.writer.fail(&StoreError::Closed);
    }
    assert_eq!(received(&mut reader).len(), 1, "subscribers get it at once");
    assert_eq!(fixture.retained().len(), 0);

    fixture.writer.probe();
    fixture.broker.tick(5);
    fixture.writer.commit(usize::MAX);
    assert_eq!(received(&mut reader).len(), 1);
    assert_eq!(fixture.retained().len(), 1);
    fixture.broker.tick(6);
    assert_eq!(received(&mut reader).len(), 0);
}

#[test]
fn a_client_whose_will_cannot_be_stored_may_connect_again() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.lose_while_disk_fails(connected);
    let connected = fixture.connect(true, Duration::ZERO);
    assert!(connected.tickets.is_empty(), "it waits for nothing");
    assert_eq!(received(&mut reader).len(), 1);
}

// [MQTT-3.1.2-4]
#[test]
fn a_client_waits_for_the_end_of_its_earlier_session() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, HOUR);
    fixture.lose_while_disk_fails(connected);
    for _ in 0..3 {
        let connected = fixture.connect(true, Duration::ZERO);
        assert!(connected.tickets.iter().any(Result::is_err));
    }
    assert_eq!(received(&mut reader).len(), 1);

    fixture.writer.probe();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.writer.commit(usize::MAX);
    let is_stored = |ticket: &Result<Ticket, StoreError>| ticket.as_ref().is_ok_and(is_committed);
    assert!(!connected.tickets.is_empty() && connected.tickets.iter().all(is_stored));
    assert_eq!(received(&mut reader).len(), 1);
}

fn is_committed(ticket: &Ticket) -> bool {
    matches!(ticket.outcome(), Some(Ok(())))
}
