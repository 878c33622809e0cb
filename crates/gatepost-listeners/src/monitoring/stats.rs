//! The figures of each second: published on `$SYS/gatepost/stats` for the dashboard, and kept for
//! the last minutes, so that a newly opened page can show them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_alarms::Alarms;
use gatepost_broker::Broker;
use gatepost_gateway::{Gateway, ListenerCounts, journal};
use gatepost_learning::Learning;
use gatepost_message::{Action, Listener, Publication, Topic};
use gatepost_operations::learner::Learner;
use gatepost_sinks::Sinks;
use gatepost_store::Store;
use parking_lot::Mutex;

use super::slowdowns::{SLOWDOWNS_MAX, Slowdown, Slowdowns};
use super::state::{
    ClusterState, GatewayStats, ListenerState, MonitoredSession, MonitoredTopic,
    MonitoringSnapshot, ProcedureStats, STATS_TOPIC, VerdictCounts,
};

/// The number of seconds of history that the dashboard shows.
const SECONDS_KEPT: usize = 300;
const TOPICS_SHOWN: usize = 20;
const SESSIONS_SHOWN: usize = 20;
/// Topics that are shown for each raised alarm.
const RAISED_SHOWN: usize = 10;
/// Journal entries of a snapshot.
const JOURNAL_SHOWN: usize = 100;

/// An address that a listener has open.
pub struct OpenAddress {
    /// The protocol.
    pub listener: Listener,
    /// The address, as the config writes it.
    pub bind: String,
    /// Counts the connections of the listener.
    pub connections: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Keeps the figures of the last seconds.
pub struct StatsKeeper {
    gateway: Gateway,
    broker: Broker,
    store: Store,
    sinks: Option<Sinks>,
    alarms: Option<Alarms>,
    learner: Option<Arc<Learner>>,
    addresses: Mutex<Vec<OpenAddress>>,
    kept: Mutex<VecDeque<GatewayStats>>,
    slowdowns: Mutex<Slowdowns>,
    started_unix_ms: u64,
    /// Samples of figures over time that were not stored.
    dropped_samples: AtomicU64,
}

impl StatsKeeper {
    /// Creates a keeper that reads the counters of these parts.
    pub fn new(gateway: Gateway, broker: Broker, store: Store) -> Self {
        Self {
            gateway,
            broker,
            store,
            sinks: None,
            alarms: None,
            learner: None,
            addresses: Mutex::default(),
            kept: Mutex::default(),
            slowdowns: Mutex::default(),
            started_unix_ms: unix_ms(),
            dropped_samples: AtomicU64::new(0),
        }
    }

    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    pub(super) fn broker(&self) -> &Broker {
        &self.broker
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn dropped_samples(&self) -> &AtomicU64 {
        &self.dropped_samples
    }

    /// The open connections of all listeners.
    pub(super) fn connections(&self) -> u64 {
        let addresses = self.addresses.lock();
        addresses
            .iter()
            .map(|address| (address.connections)())
            .sum()
    }

    /// Whether this listener has an address open.
    pub(super) fn has_address(&self, listener: Listener) -> bool {
        let addresses = self.addresses.lock();
        addresses.iter().any(|address| address.listener == listener)
    }

    /// Adds these sinks to the figures.
    #[must_use]
    pub fn with_sinks(mut self, sinks: Sinks) -> Self {
        self.sinks = Some(sinks);
        self
    }

    /// Adds these alarms to the figures.
    #[must_use]
    pub fn with_alarms(mut self, alarms: Alarms) -> Self {
        self.alarms = Some(alarms);
        self
    }

    /// Adds the learned data to the figures over time.
    #[must_use]
    pub fn with_learner(mut self, learner: Arc<Learner>) -> Self {
        self.learner = Some(learner);
        self
    }

    /// The learned data, if it has been read.
    pub(super) fn loaded_learning(&self) -> Option<&Learning> {
        self.learner.as_ref()?.loaded()
    }

    /// Adds an address to those that the snapshot lists.
    pub fn add_address(&self, address: OpenAddress) {
        self.addresses.lock().push(address);
    }

    /// The snapshot that the dashboard starts from.
    pub async fn state(&self) -> MonitoringSnapshot {
        let store = self.store.clone();
        store.flush().await;
        let recent = tokio::task::spawn_blocking(move || store.journal_recent(JOURNAL_SHOWN))
            .await
            .unwrap_or(Ok(Vec::new()));
        let entries = recent.unwrap_or_else(|error| {
            tracing::warn!(target: "store", %error, "the journal cannot be read");
            Vec::new()
        });
        MonitoringSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ms: self.started_unix_ms,
            listeners: self.listeners(),
            stats: self.kept.lock().iter().cloned().collect(),
            journal: entries.iter().map(journal::to_json).collect(),
        }
    }

    /// Publishes the figures each second and stores those over time, for as long as it is polled.
    ///
    /// # Panics
    /// Never: the topic is a constant, which a test checks.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(self.keep_series(), self.publish());
    }

    /// Publishes the figures each second.
    async fn publish(&self) {
        let topic = stats_topic();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick comes immediately, when there is no interval to compute a rate from.
        ticks.tick().await;
        let mut before = StatsSums::now(&self.broker);
        loop {
            ticks.tick().await;
            let now = StatsSums::now(&self.broker);
            let stats = self.stats(&before, &now);
            before = now;
            if let Ok(text) = serde_json::to_string(&stats) {
                self.broker
                    .publish_now(Publication::new(topic.clone(), text));
            }
            let mut kept = self.kept.lock();
            if kept.len() >= SECONDS_KEPT {
                kept.pop_front();
            }
            kept.push_back(stats);
        }
    }

    fn stats(&self, before: &StatsSums, now: &StatsSums) -> GatewayStats {
        let broker = self.broker.stats(TOPICS_SHOWN, SESSIONS_SHOWN);
        let seconds = (now.unix_ms.saturating_sub(before.unix_ms)).max(1) as f64 / 1_000.0;
        let listeners = self.gateway.counters().by_listener();
        let mut verdicts = [0; Action::ALL.len()];
        for counts in &listeners {
            for (sum, count) in verdicts.iter_mut().zip(counts.verdicts) {
                *sum += count;
            }
        }
        let held = self.store.held_expiry();
        GatewayStats {
            held_rows: held.map_or(0, |held| held.rows),
            clock_ahead_seconds: held.map_or(0, |held| held.ahead.as_secs()),
            unix_ms: now.unix_ms,
            messages_in_per_second: (now.messages_in - before.messages_in) as f64 / seconds,
            deliveries_per_second: (now.deliveries - before.deliveries) as f64 / seconds,
            messages_in: broker.messages_in,
            deliveries: broker.deliveries,
            dropped: broker.dropped_total(),
            verdicts: named(verdicts),
            subscriptions: broker.subscriptions as u64,
            sessions_connected: broker.sessions_connected + broker.readers,
            retained: broker.retained as u64,
            quarantined: verdicts[Action::Quarantine as usize],
            memory_bytes: memory_bytes(),
            cpu_cores: (now.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds,
            topics: broker.topics.into_iter().map(topic).collect(),
            sessions: broker.queues.into_iter().map(session).collect(),
            slowdowns: self.slowdowns(now.unix_ms),
            sinks: self.sinks.as_ref().map_or_else(Vec::new, Sinks::status),
            alarms: self
                .alarms
                .as_ref()
                .map_or_else(Vec::new, |alarms| alarms.status(RAISED_SHOWN)),
            cluster: self.broker.nodes_status().map(ClusterState::from),
            procedures: self.procedures(),
            listeners: self.listeners(),
        }
    }

    fn slowdowns(&self, now_ms: u64) -> Vec<Slowdown> {
        let slow = self.broker.slowing_publishers(SLOWDOWNS_MAX);
        self.slowdowns.lock().observe(now_ms, &slow).to_vec()
    }

    fn listeners(&self) -> Vec<ListenerState> {
        let counts = self.gateway.counters().by_listener();
        let messages = |listener: Listener| {
            counts
                .iter()
                .find(|one| one.listener == listener)
                .map_or(0, ListenerCounts::messages)
        };
        let state = |address: &OpenAddress| ListenerState {
            name: address.listener.name().to_owned(),
            bind: address.bind.clone(),
            open: true,
            error: None,
            connections: (address.connections)(),
            messages: messages(address.listener),
        };
        self.addresses.lock().iter().map(state).collect()
    }

    fn procedures(&self) -> Vec<ProcedureStats> {
        let status = self.gateway.procedures().status();
        status
            .procedures
            .into_iter()
            .map(|one| ProcedureStats {
                verdicts: named(
                    Action::ALL
                        .map(|action| one.verdicts.get(action.name()).copied().unwrap_or_default()),
                ),
                path: one.path,
                requests: one.requests,
                errors: one.errors,
                cpu_seconds: one.cpu_seconds,
            })
            .collect()
    }
}

/// The sums whose differences are rates.
struct StatsSums {
    unix_ms: u64,
    messages_in: u64,
    deliveries: u64,
    cpu: Duration,
}

impl StatsSums {
    fn now(broker: &Broker) -> Self {
        let stats = broker.stats(0, 0);
        Self {
            unix_ms: unix_ms(),
            messages_in: stats.messages_in,
            deliveries: stats.deliveries,
            cpu: cpu_time(),
        }
    }
}

fn named(verdicts: [u64; Action::ALL.len()]) -> VerdictCounts {
    let of = |action: Action| verdicts[action as usize];
    VerdictCounts {
        accept: of(Action::Accept),
        tag: of(Action::Tag),
        quarantine: of(Action::Quarantine),
        drop: of(Action::Drop),
        reject: of(Action::Reject),
        defer: of(Action::Defer),
    }
}

fn topic(topic: gatepost_broker::TopicStats) -> MonitoredTopic {
    MonitoredTopic {
        topic: topic.topic,
        per_second: topic.per_second as f64,
        messages: topic.messages,
        bytes: topic.bytes,
    }
}

fn session(session: gatepost_broker::SessionStats) -> MonitoredSession {
    MonitoredSession {
        client: session.client,
        kind: session.kind.to_string(),
        connected: session.connected,
        subscriptions: session.subscriptions as u64,
        queued: session.queued as u64,
        dropped: session.dropped,
        dropped_by: session
            .dropped_by
            .into_iter()
            .map(|(cause, count)| (cause.name().to_owned(), count))
            .collect(),
    }
}

pub(super) fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64
}

/// User and system time of all threads of this process.
pub(super) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory; 0 if `/proc` is not available.
pub(super) fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

/// The topic that the figures are published on.
fn stats_topic() -> Topic {
    Topic::new(STATS_TOPIC).expect("a constant that is a topic")
}
