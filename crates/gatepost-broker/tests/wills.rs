//! Wills, and the messages that they become.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{
    Authorization, Broker, BrokerSettings, LocalSubscription, MemoryGauge, MovedSession,
    ReaderOptions, SessionAbsence, SessionAdoption, SessionName, SessionWill, StreamEvent,
};
use gatepost_message::{MessageId, Properties, Publication, Qos, Topic, TopicFilter};
use gatepost_store::{ManualClock, ManualWriter, SimulatedDatabase, StoreSettings};

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
    let retained = fixture
        .broker
        .retained(&TopicFilter::new(TOPIC).expect("a filter"));
    assert_eq!(retained, std::slice::from_ref(published));
}
