//! Retained messages that do not fit into the memory at a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_broker::{Broker, BrokerSettings, MemoryGauge};
use gatepost_message::{Publication, Qos, Topic, TopicFilter};
use gatepost_settings::ByteSize;
use gatepost_store::{ManualWriter, SimulatedDatabase, StoreError, StoreSettings, SystemClock};

/// Topics that retain a message; more than twice what one step loads.
const TOPICS: usize = 600;
const PAYLOAD: usize = 4_000;
const MEMORY_MAX_MEGABYTES: u64 = 80;
const MEMORY_MAX_BYTES: usize = MEMORY_MAX_MEGABYTES as usize * 1_000_000;
/// An eighth of the memory is left to sessions, and this is room for less than two steps.
const ROOM: usize = MEMORY_MAX_BYTES / 8 + 800_000;

#[derive(Default)]
struct Resident(AtomicUsize);

impl MemoryGauge for Resident {
    fn resident_bytes(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

struct Fixture {
    database: SimulatedDatabase,
    resident: Arc<Resident>,
    broker: Broker,
    writer: ManualWriter,
}

impl Fixture {
    fn new() -> Self {
        let database = SimulatedDatabase::in_memory().expect("a database");
        let resident = Arc::new(Resident::default());
        let (broker, writer) = start(&database, &resident);
        let mut fixture = Self {
            database,
            resident,
            broker,
            writer,
        };
        for number in 0..TOPICS {
            fixture.publish(&name(number), &"x".repeat(PAYLOAD));
        }
        fixture.writer.commit(usize::MAX);
        fixture
    }

    fn restart(&mut self, room: usize) {
        self.set_room(room);
        (self.broker, self.writer) = start(&self.database, &self.resident);
    }

    fn set_room(&self, room: usize) {
        let resident = MEMORY_MAX_BYTES - room;
        self.resident.0.store(resident, Ordering::Relaxed);
    }

    /// Retains; an empty payload clears.
    fn publish(&self, topic: &str, payload: &str) {
        let (outcome, _ticket) = self.broker.publish_now(Publication {
            qos: Qos::AtLeastOnce,
            retain: true,
            ..Publication::new(Topic::new(topic).expect("a topic"), payload.to_owned())
        });
        assert_eq!(outcome.refused, None);
    }

    /// Topics and the lengths of their retained messages.
    fn retained(&self, filter: &str) -> Vec<(String, usize)> {
        let found = self
            .broker
            .retained(&TopicFilter::new(filter).expect("a filter"));
        let mut found: Vec<_> = found
            .iter()
            .map(|one| (one.topic.to_string(), one.payload.len()))
            .collect();
        found.sort();
        found
    }

    fn in_memory(&self) -> usize {
        self.broker.stats(0, 0).retained
    }
}

fn start(database: &SimulatedDatabase, resident: &Arc<Resident>) -> (Broker, ManualWriter) {
    let clock = Arc::new(SystemClock::default());
    let opened = database.open(&StoreSettings::default(), clock.clone());
    let (store, writer) = opened.expect("a store");
    let settings = BrokerSettings {
        memory_max: ByteSize::megabytes(MEMORY_MAX_MEGABYTES),
        ..BrokerSettings::default()
    };
    let broker = Broker::open_simulated(settings, store, clock, resident.clone());
    (broker.expect("a broker"), writer)
}

fn name(number: usize) -> String {
    format!("kept/{number:04}")
}

#[test]
fn messages_beyond_the_bound_are_read_from_disk_and_loaded_when_space_is_free() {
    let mut fixture = Fixture::new();
    fixture.restart(ROOM);
    let loaded = fixture.in_memory();
    assert!((1..TOPICS).contains(&loaded), "{loaded} are loaded");
    let last = name(TOPICS - 1);
    assert_eq!(fixture.retained(&last), [(last.clone(), PAYLOAD)]);
    assert_eq!(fixture.retained("kept/#").len(), TOPICS);
    fixture.broker.tick(0);
    assert_eq!(fixture.in_memory(), loaded, "there is no room");
    fixture.set_room(MEMORY_MAX_BYTES);
    fixture.broker.tick(1);
    assert_eq!(fixture.in_memory(), TOPICS);
    assert_eq!(fixture.retained("kept/#").len(), TOPICS);
}

#[test]
fn messages_on_disk_are_replaced_and_cleared_and_come_back_after_a_failed_commit() {
    let mut fixture = Fixture::new();
    fixture.restart(ROOM);
    let (replaced, cleared) = (name(TOPICS - 1), name(TOPICS - 2));
    for commits in [false, true] {
        fixture.publish(&replaced, "new");
        fixture.publish(&cleared, "");
        assert_eq!(fixture.retained(&replaced), [(replaced.clone(), 3)]);
        assert_eq!(fixture.retained(&cleared), []);
        if commits {
            fixture.writer.commit(usize::MAX);
        } else {
            fixture.writer.fail(&StoreError::Closed);
        }
        for ticks in 0..2 {
            let expected = if commits { 3 } else { PAYLOAD };
            assert_eq!(fixture.retained(&replaced), [(replaced.clone(), expected)]);
            let expected = usize::from(!commits);
            assert_eq!(fixture.retained(&cleared).len(), expected);
            fixture.broker.tick(ticks);
        }
    }
    fixture.set_room(MEMORY_MAX_BYTES);
    fixture.broker.tick(2);
    assert_eq!(fixture.in_memory(), TOPICS - 1);
    assert_eq!(fixture.retained(&replaced), [(replaced.clone(), 3)]);
    fixture.restart(MEMORY_MAX_BYTES);
    assert_eq!(fixture.retained("kept/#").len(), TOPICS - 1);
}

/// A message loaded while a change is undecided is restored if the change's commit fails.
#[test]
fn a_change_that_fails_after_the_loading_is_undone() {
    let mut fixture = Fixture::new();
    fixture.restart(ROOM);
    let (replaced, cleared) = (name(TOPICS - 1), name(TOPICS - 2));
    fixture.publish(&replaced, "new");
    fixture.publish(&cleared, "");
    fixture.set_room(MEMORY_MAX_BYTES);
    fixture.broker.tick(0);
    assert_eq!(fixture.retained(&replaced), [(replaced.clone(), 3)]);
    fixture.writer.fail(&StoreError::Closed);
    fixture.broker.tick(1);
    assert_eq!(fixture.retained(&replaced), [(replaced.clone(), PAYLOAD)]);
    assert_eq!(fixture.retained(&cleared), [(cleared.clone(), PAYLOAD)]);
}

/// A subscription that reads all free memory full would exceed the limit, and the server would
/// refuse connections of others.
#[test]
fn a_subscription_reads_at_most_half_of_the_free_memory() {
    let mut fixture = Fixture::new();
    fixture.restart(0);
    let bytes = TOPICS * PAYLOAD;
    fixture.set_room(bytes * 3 / 2);
    assert_eq!(fixture.retained("kept/#"), []);
    fixture.set_room(bytes * 5 / 2);
    assert_eq!(fixture.retained("kept/#").len(), TOPICS);
}

/// More than a subscription may read while memory is short.
#[test]
fn messages_beyond_free_memory_are_not_read() {
    let mut fixture = Fixture::new();
    fixture.restart(0);
    assert_eq!(fixture.in_memory(), 0);
    let one = name(7);
    assert_eq!(fixture.retained(&one), [(one.clone(), PAYLOAD)]);
    assert_eq!(fixture.retained("kept/#"), [], "they need 2.7 MB");
}
