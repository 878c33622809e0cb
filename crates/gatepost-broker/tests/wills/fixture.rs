//! A broker on a simulated disk and clock, with clients whose wills become due.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{
    Authorization, Broker, BrokerSettings, ConnectOptions, Connected, LocalSubscription,
    MemoryGauge, MovedSession, OtherNodes, OwnerRights, ReaderOptions, SessionAbsence,
    SessionAdoption, SessionName, SessionWill, StreamEvent, TopicRules,
};
use gatepost_message::{MessageId, Properties, Publication, Qos, Topic, TopicFilter};
use gatepost_store::{
    ManualClock, ManualWriter, SimulatedDatabase, Store, StoreError, StoreSettings,
};

use crate::support::connect_options;

pub(crate) const HOUR: Duration = Duration::from_hours(1);
const TOPIC: &str = "state/one";

struct Unlimited;

impl MemoryGauge for Unlimited {
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
}

pub(crate) struct Permitted;

impl Authorization for Permitted {
    fn may_receive(&self, _topic: &str) -> bool {
        true
    }

    fn may_publish(&self, _topic: &str, _retain: bool) -> bool {
        true
    }
}

impl OwnerRights for Permitted {
    fn of_owner(&self, _user: Option<&str>, _client_id: &str) -> Arc<dyn Authorization> {
        Arc::new(Self)
    }
}

pub(crate) struct Fixture {
    pub(crate) broker: Broker,
    pub(crate) writer: ManualWriter,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(SystemTime::now());
        let (store, writer) = open_store(clock.clone());
        let settings = BrokerSettings::default();
        let broker = Broker::open_simulated(settings, store, clock.clone(), Arc::new(Unlimited));
        Self {
            broker: broker.expect("a broker"),
            writer,
            clock,
        }
    }

    /// A broker on the clock of this machine, as one of several nodes.
    pub(crate) fn of_node(nodes: Arc<dyn OtherNodes>) -> Self {
        let clock = ManualClock::at(SystemTime::now());
        let (store, writer) = open_store(clock.clone());
        let settings = BrokerSettings::default();
        let rules = TopicRules::default();
        let broker = Broker::open_as_node(settings, store, &Permitted, Some(nodes), rules);
        Self {
            broker: broker.expect("a broker"),
            writer,
            clock,
        }
    }

    /// Adds a session without a connection, whose will is due after this time.
    pub(crate) fn await_client(&self, number: u64, delay: Duration) {
        let absence = SessionAbsence {
            ended: None,
            will: Some(SessionWill {
                publication: will(),
                delay,
            }),
            authorization: Arc::new(Permitted),
        };
        let session = MovedSession {
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
        };
        let missed = self.broker.missed_by(&session);
        let adopted = self.broker.adopt_session(SessionAdoption {
            session,
            missed,
            changes: Vec::new(),
            absence: Some(absence),
        });
        adopted.expect("it is submitted");
    }

    /// Connects a client, whose will has no delay.
    pub(crate) fn connect(&self, clean_start: bool, expiry: Duration) -> Connected {
        let options = ConnectOptions {
            clean_start,
            expiry,
            will: Some(SessionWill {
                publication: will(),
                delay: Duration::ZERO,
            }),
            ..connect_options()
        };
        self.broker.connect(options, |_, _| {}).expect("connected")
    }

    /// Connects a client of this user, whose session is kept.
    pub(crate) fn connect_as(&self, user: &str) -> Connected {
        let options = ConnectOptions {
            user: Some(user.into()),
            expiry: HOUR,
            will: Some(SessionWill {
                publication: will(),
                delay: Duration::ZERO,
            }),
            ..connect_options()
        };
        self.broker.connect(options, |_, _| {}).expect("connected")
    }

    /// Loses a connection whose will the disk then does not store.
    pub(crate) fn lose_while_disk_fails(&mut self, mut connected: Connected) {
        self.writer.commit(usize::MAX);
        connected.attachment.begin();
        drop(connected);
        self.writer.fail(&StoreError::Closed);
    }

    pub(crate) fn retained(&self) -> Vec<Arc<Publication>> {
        let filter = TopicFilter::new(TOPIC).expect("a filter");
        self.broker.retained(&filter)
    }

    pub(crate) fn read(&self) -> LocalSubscription {
        let filters = [TopicFilter::new("state/#").expect("a filter")];
        self.broker
            .subscribe_stream(&filters, ReaderOptions::default())
    }
}

fn open_store(clock: Arc<ManualClock>) -> (Store, ManualWriter) {
    let database = SimulatedDatabase::in_memory().expect("a database");
    let opened = database.open(&StoreSettings::default(), clock);
    opened.expect("a store")
}

/// A retained message of a client that connected an hour ago, worth delivering for a minute.
pub(crate) fn will() -> Publication {
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

pub(crate) fn received(reader: &mut LocalSubscription) -> Vec<Arc<Publication>> {
    let mut all = Vec::new();
    while let Some(StreamEvent::Publication(one)) = reader.try_next() {
        all.push(one.publication.clone());
    }
    all
}
