//! Delayed messages: those that cannot be delivered, and changes that could not be stored.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatepost_broker::{
    Broker, BrokerSettings, MovedSession, SessionAdoption, SessionName, TopicRules,
};
use gatepost_gateway::{
    DELAY, DelayedMessages, DelayedSettings, PublicationReceipt, PublicationSink,
};
use gatepost_message::{Publication, Qos, SEQUENCE_ID, Topic, TopicFilter};
use gatepost_store::{
    ManualClock, ManualWriter, Store, StoreError, StoreSettings, SubscriptionRow,
};
use serde_json::json;
use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_mins(1);

/// A server's delayed messages, and commits that the test makes.
struct Fixture {
    _folder: tempfile::TempDir,
    store: Store,
    writer: ManualWriter,
    broker: Broker,
    delayed: DelayedMessages,
}

impl Fixture {
    fn new(settings: BrokerSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let of_store = StoreSettings {
            reserve: "0B".parse().expect("a size"),
            ..StoreSettings::default()
        };
        let clock = ManualClock::at(SystemTime::now());
        let opened = Store::open_manual(folder.path(), &of_store, clock);
        let (store, _, writer) = opened.expect("a store");
        let broker = Broker::open(settings, store.clone()).expect("a broker");
        let of_delayed = DelayedSettings::default();
        let delayed = DelayedMessages::open(broker.clone(), store.clone(), &of_delayed);
        Self {
            _folder: folder,
            store,
            writer,
            broker,
            delayed: delayed.expect("delayed messages"),
        }
    }

    /// The names of the messages that wait.
    fn waiting(&self) -> Vec<String> {
        let listing = self.delayed.delayed(0, 100);
        let names = listing.messages.into_iter();
        names.map(|message| message.sequence_id).collect()
    }

    /// The number of messages on the disk.
    fn stored(&self) -> usize {
        self.store.records("delayed", b"").expect("read").len()
    }

    fn keep(&self, topic: &str, name: &str, delay: &str) -> PublicationReceipt {
        let mut publication = Publication::new(Topic::new(topic).expect("a topic"), "text");
        publication.qos = Qos::AtLeastOnce;
        let properties = publication.properties.get_or_insert_default();
        for (property, value) in [(DELAY, delay), (SEQUENCE_ID, name)] {
            properties
                .user
                .push((property.to_owned(), value.to_owned()));
        }
        let receipt = self.delayed.publish(publication);
        assert_eq!(receipt.refused, None);
        receipt
    }

    /// Makes commits until the messages are delivered as `is_done` wants.
    async fn deliver_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let (is_down, watched) = watch::channel(false);
        let running = tokio::spawn(self.delayed.clone().run(watched));
        let deadline = Instant::now() + PATIENCE;
        while !is_done(self) {
            assert!(Instant::now() < deadline, "{:?} wait", self.waiting());
            self.writer.commit(usize::MAX);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        is_down.send_replace(true);
        self.writer.commit(usize::MAX);
        running.await.expect("it ends");
    }

    fn is_delivered(&self, topic: &str) -> bool {
        self.broker.latest(topic).is_some()
    }
}

fn failure() -> StoreError {
    StoreError::Closed
}

/// A time in the next second, so that messages are due soon and in the order of their calls.
fn soon() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    (since.expect("a time").as_secs() + 1).to_string()
}

fn is_stored(receipt: &PublicationReceipt) -> bool {
    let ticket = receipt.ticket.as_ref().expect("a commit");
    let ticket = ticket.as_ref().expect("accepted");
    ticket.outcome().expect("decided").is_ok()
}

#[tokio::test]
async fn a_message_that_is_refused_delays_no_other() {
    let mut fixture = Fixture::new(BrokerSettings::default());
    let rule = json!({"filter": "limited", "messages_max": 1, "messages_per": "1h"});
    let rules = TopicRules::new(&[serde_json::from_value(rule).expect("a rule")]);
    fixture.broker.set_topic_rules(rules.expect("rules"));
    let soon = soon();
    for (topic, name) in [("limited", "a"), ("limited", "b"), ("free", "c")] {
        fixture.keep(topic, name, &soon);
    }
    fixture.writer.commit(usize::MAX);
    fixture
        .deliver_until(|now| now.is_delivered("free") && now.is_delivered("limited"))
        .await;
    assert_eq!(fixture.waiting(), ["b"]);
    assert_eq!(fixture.stored(), 1);
}

#[tokio::test]
async fn a_message_that_the_history_has_is_not_published_again_for_full_queues() {
    let mut fixture = Fixture::new(BrokerSettings {
        queue_messages_max: 1,
        ..BrokerSettings::default()
    });
    let session = MovedSession {
        number: 1,
        name: SessionName {
            user: None,
            client_id: "slow".into(),
        },
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        sent: 0,
        subscriptions: vec![SubscriptionRow {
            session: 1,
            filter: TopicFilter::new("alarm").expect("a filter"),
            qos: Qos::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            identifier: None,
        }],
        received: Vec::new(),
        deliveries: Vec::new(),
    };
    let missed = fixture.broker.missed_by(&session);
    let adopted = fixture.broker.adopt_session(SessionAdoption {
        session,
        missed,
        changes: Vec::new(),
        absence: None,
    });
    adopted.expect("it is submitted");
    let soon = soon();
    for name in ["a", "b", "c"] {
        fixture.keep("alarm", name, &soon);
    }
    fixture.writer.commit(usize::MAX);
    fixture.deliver_until(|now| now.stored() == 0).await;
    assert!(fixture.waiting().is_empty());
    assert_eq!(fixture.store.history(100, 100).expect("read").len(), 3);
}

#[tokio::test]
async fn a_message_is_published_and_removed_in_one_commit() {
    let mut fixture = Fixture::new(BrokerSettings::default());
    let soon = soon();
    for name in ["a", "b"] {
        fixture.keep("kitchen", name, &soon);
    }
    fixture.writer.commit(usize::MAX);
    let (_is_down, watched) = watch::channel(false);
    let running = tokio::spawn(fixture.delayed.clone().run(watched));
    let deadline = Instant::now() + PATIENCE;
    while fixture.writer.waiting() == 0 {
        assert!(Instant::now() < deadline, "nothing is submitted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(fixture.writer.waiting(), 1);
    assert!(fixture.waiting().is_empty());
    fixture.writer.fail(&failure());
    fixture.writer.probe();
    while fixture.waiting().is_empty() {
        assert!(Instant::now() < deadline, "the messages are back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.abort();
    assert_eq!(fixture.waiting(), ["a", "b"]);
    assert_eq!(fixture.stored(), 2);
    fixture.deliver_until(|now| now.stored() == 0).await;
    assert_eq!(fixture.store.history(100, 100).expect("read").len(), 2);
}

#[tokio::test]
async fn memory_is_as_the_disk_after_a_commit_that_failed() {
    let mut fixture = Fixture::new(BrokerSettings::default());
    let lost = fixture.keep("kitchen", "lost", "1h");
    assert_eq!(fixture.waiting(), ["lost"]);
    fixture.writer.fail(&failure());
    assert!(!is_stored(&lost));
    assert!(fixture.waiting().is_empty());

    let first = fixture.keep("kitchen", "a", "1h");
    fixture.writer.commit(usize::MAX);
    assert!(is_stored(&first));
    // A replacement, a second one, and the end of that.
    for delay in ["2h", "3h"] {
        fixture.keep("kitchen", "a", delay);
    }
    let cancelled = fixture.delayed.cancel("kitchen", "a").expect("it waits");
    let _ = cancelled.expect("accepted");
    assert!(fixture.waiting().is_empty());
    fixture.writer.fail(&failure());
    assert_eq!(fixture.waiting(), ["a"]);
    let due = fixture.delayed.delayed(0, 1).messages[0].due_unix_ms;
    assert!(
        due < (SystemTime::now() + Duration::from_mins(90))
            .duration_since(UNIX_EPOCH)
            .expect("a time")
            .as_millis() as u64
    );

    // The publisher repeats the cancellation.
    let cancelled = fixture.delayed.cancel("kitchen", "a").expect("it waits");
    fixture.writer.commit(usize::MAX);
    let cancelled = cancelled.expect("accepted").outcome().expect("decided");
    cancelled.expect("stored");
    assert_eq!((fixture.waiting().len(), fixture.stored()), (0, 0));
}
