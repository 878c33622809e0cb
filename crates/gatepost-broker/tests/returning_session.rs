//! A session that leaves for another server and returns, while the disk fails. It has the same
//! number as before.

use std::sync::Arc;
use std::time::Duration;

use gatepost_broker::{
    Broker, BrokerSettings, MemoryGauge, MovedSession, SessionAdoption, SessionName,
};
use gatepost_message::{Qos, TopicFilter};
use gatepost_store::{
    ManualWriter, SimulatedDatabase, StoreError, StoreSettings, SubscriptionRow, SystemClock,
};

const NUMBER: u64 = 77;

struct Unlimited;

impl MemoryGauge for Unlimited {
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
}

fn start(database: &SimulatedDatabase) -> (Broker, ManualWriter) {
    let clock = Arc::new(SystemClock::default());
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, writer) = opened.expect("a store");
    let settings = BrokerSettings::default();
    let broker = Broker::open_simulated(settings, store, clock, Arc::new(Unlimited));
    (broker.expect("a broker"), writer)
}

fn name() -> SessionName {
    SessionName {
        user: None,
        client_id: "traveller".into(),
    }
}

fn arrive(broker: &Broker) {
    let subscription = SubscriptionRow {
        session: NUMBER,
        filter: TopicFilter::new("kept/#").expect("a filter"),
        qos: Qos::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        identifier: None,
    };
    let session = MovedSession {
        number: NUMBER,
        name: name(),
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        sent: 0,
        subscriptions: vec![subscription],
        received: Vec::new(),
        deliveries: Vec::new(),
    };
    let adopted = broker.adopt_session(SessionAdoption {
        missed: broker.missed_by(&session),
        session,
        changes: Vec::new(),
        absence: None,
    });
    adopted.expect("it is submitted");
}

/// The subscriptions that the session has after a restart.
fn subscriptions(database: &SimulatedDatabase) -> Option<usize> {
    let (broker, _writer) = start(database);
    Some(broker.session("traveller")?.subscriptions)
}

#[test]
fn an_end_that_could_not_be_stored_does_not_end_the_session_after_its_return() {
    let database = SimulatedDatabase::in_memory().expect("a database");
    let (broker, mut writer) = start(&database);
    arrive(&broker);
    writer.commit(usize::MAX);
    assert_eq!(subscriptions(&database), Some(1));

    broker.disown_session(&name());
    writer.fail(&StoreError::Closed);
    arrive(&broker);
    writer.commit(usize::MAX);
    broker.tick(0);
    writer.commit(usize::MAX);
    assert_eq!(subscriptions(&database), Some(1));

    broker.disown_session(&name());
    writer.fail(&StoreError::Closed);
    broker.tick(1);
    writer.commit(usize::MAX);
    assert_eq!(subscriptions(&database), None, "the end is stored at last");
}
