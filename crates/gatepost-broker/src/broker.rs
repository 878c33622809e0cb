//! The broker's handle.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::BytesMut;
use gatepost_message::{MessageId, Peer, Publication, TopicFilter};
use gatepost_store::{ClockSource, Store, StoreError, SystemClock, Ticket};
use gatepost_topics::{RuleViolation, TopicRules};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::attachment::{Attachment, Connected};
use crate::authorization::OwnerRights;
use crate::connect::{ConnectError, ConnectOptions, ConnectionGreeting};
use crate::figures::BrokerFigures;
use crate::housekeeping::Housekeeper;
use crate::inspection::{self, SessionInspection};
use crate::limits::Limit;
use crate::memory::{MemoryGauge, ProcessMemory};
use crate::nodes::OtherNodes;
use crate::publisher::{PublishOutcome, Publisher};
use crate::reader::{LocalSubscription, ReaderOptions};
use crate::recovery;
use crate::session::DisconnectCause;
use crate::session_table::SessionTable;
use crate::settings::BrokerSettings;
use crate::shared::BrokerShared;
use crate::stats::{self, BrokerStats, SessionStats};
use crate::trace::{StepOutcome, TraceStep, Traces};

/// Idle publishers that are kept for the next single publication.
const IDLE_PUBLISHERS_MAX: usize = 16;

/// The sources from which the broker reads the time and the memory in use.
type Environment = (Arc<dyn ClockSource>, Arc<dyn MemoryGauge>);

/// The clock and the memory gauge of a server.
fn system() -> Environment {
    (Arc::new(SystemClock::default()), Arc::new(ProcessMemory))
}

/// The broker. Cheap to clone.
#[derive(Clone)]
pub struct Broker(pub(crate) Arc<BrokerCore>);

pub(crate) struct BrokerCore {
    pub(crate) shared: Arc<BrokerShared>,
    pub(crate) sessions: Arc<SessionTable>,
    traces: Traces,
    figures: BrokerFigures,
    /// Idle publishers keep their topics from one use to the next.
    idle_publishers: Mutex<Vec<Publisher>>,
}

impl Broker {
    /// A broker that stores nothing.
    pub fn new(settings: BrokerSettings) -> Self {
        Self::with(settings, None, system(), None)
    }

    /// A broker that keeps its durable state in `store`, and restores it from there.
    pub fn open(settings: BrokerSettings, store: Store) -> Result<Self, StoreError> {
        Self::restore(settings, store, system(), None)
    }

    /// As [`Broker::open`], with access rights: wills of an earlier run are published only where
    /// their owners may still do so.
    pub fn open_with_rights(
        settings: BrokerSettings,
        store: Store,
        rights: &dyn OwnerRights,
    ) -> Result<Self, StoreError> {
        Self::restore(settings, store, system(), Some(rights))
    }

    /// As [`Broker::open_with_rights`], with rules for topics, for one of several servers.
    pub fn open_as_node(
        settings: BrokerSettings,
        store: Store,
        rights: &dyn OwnerRights,
        nodes: Option<Arc<dyn OtherNodes>>,
        rules: TopicRules,
    ) -> Result<Self, StoreError> {
        let broker = Self::with(settings, Some(store), system(), nodes);
        broker.set_topic_rules(rules);
        broker.restored(Some(rights))
    }

    /// As [`Broker::open`], with the clock and the memory of a simulation.
    pub fn open_simulated(
        settings: BrokerSettings,
        store: Store,
        clock: Arc<dyn ClockSource>,
        memory: Arc<dyn MemoryGauge>,
    ) -> Result<Self, StoreError> {
        Self::restore(settings, store, (clock, memory), None)
    }

    fn restore(
        settings: BrokerSettings,
        store: Store,
        surroundings: Environment,
        rights: Option<&dyn OwnerRights>,
    ) -> Result<Self, StoreError> {
        Self::with(settings, Some(store), surroundings, None).restored(rights)
    }

    /// Restores the stored state. Must be called before everything else.
    fn restored(self, rights: Option<&dyn OwnerRights>) -> Result<Self, StoreError> {
        let shared = &self.0.shared;
        let Some(store) = shared.store.clone() else {
            return Ok(self);
        };
        shared.retained.leave_in(&store);
        shared.load_retained(usize::MAX)?;
        let on_disk = shared.retained.on_disk_count()?;
        if on_disk > 0 {
            tracing::error!(target: "broker", topics = on_disk,
                "some retained messages do not fit into the memory (broker.memory_max) and stay on \
                 disk: subscriptions read them there, until there is room");
        }
        recovery::restore_sessions(&self.0.sessions, rights)?;
        recovery::restore_recent(shared, &store)?;
        Ok(self)
    }

    fn with(
        settings: BrokerSettings,
        store: Option<Store>,
        (clock, memory): Environment,
        nodes: Option<Arc<dyn OtherNodes>>,
    ) -> Self {
        let traces = Traces::new(settings.traced_messages_max);
        let shared = Arc::new(BrokerShared::new(settings, store, clock, memory, nodes));
        Self(Arc::new(BrokerCore {
            sessions: Arc::new(SessionTable::new(shared.clone())),
            shared,
            traces,
            figures: BrokerFigures::new(),
            idle_publishers: Mutex::default(),
        }))
    }

    /// The settings of the broker.
    pub fn settings(&self) -> &BrokerSettings {
        &self.0.shared.settings
    }

    /// Replaces the rules for topics. Messages beyond the limits of the new rules are removed
    /// within a second.
    pub fn set_topic_rules(&self, rules: TopicRules) {
        let shared = &self.0.shared;
        if let Some(store) = &shared.store {
            store.set_history_ages(rules.history_ages());
        }
        shared.topic_rules.replace(rules);
        shared.recent.apply_rules();
    }

    /// The reason why the rule of its topic never permits this publication.
    pub fn rule_violation(&self, publication: &Publication) -> Option<RuleViolation> {
        let topic = publication.topic.as_str();
        let rule = self.0.shared.topic_rules.find(topic)?;
        rule.violation(publication)
    }

    /// The time by which messages age: that of the store, which does not follow a clock that jumps
    /// far ahead.
    pub fn time_for_ages(&self) -> SystemTime {
        let shared = &self.0.shared;
        let store = shared.store.as_ref();
        store.map_or_else(|| shared.clock.time_of_day(), Store::time_for_ages)
    }

    /// A publisher for a connection of its own.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.0.shared.clone(), None)
    }

    /// Publishes one message immediately. The ticket is for changes that must be durable before the
    /// sender is answered with success; `None` if there are none.
    pub fn publish_now(
        &self,
        publication: Publication,
    ) -> (PublishOutcome, Option<Result<Ticket, StoreError>>) {
        self.with_publisher(publication, Publisher::publish)
    }

    fn with_publisher(
        &self,
        publication: Publication,
        publish: impl FnOnce(&mut Publisher, Publication) -> PublishOutcome,
    ) -> (PublishOutcome, Option<Result<Ticket, StoreError>>) {
        let idle = self.0.idle_publishers.lock().pop();
        let mut publisher = idle.unwrap_or_else(|| self.publisher());
        publisher.act_for(self.0.shared.senders.find(publication.id));
        let delivery = publish(&mut publisher, publication);
        let ticket = publisher.flush();
        publisher.forget_order();
        publisher.act_for(None);
        let mut idle = self.0.idle_publishers.lock();
        if idle.len() < IDLE_PUBLISHERS_MAX {
            idle.push(publisher);
        }
        (delivery, ticket)
    }

    /// As [`Broker::publish_now`], recording its subscribers and the outcome at each, under
    /// the id of `message`.
    pub fn publish_traced(
        &self,
        publication: Publication,
        message: MessageId,
    ) -> (PublishOutcome, Option<Result<Ticket, StoreError>>) {
        let trace = self.0.traces.begin(message);
        self.with_publisher(publication, |publisher, publication| {
            publisher.publish_traced(publication, trace)
        })
    }

    /// Records the outcome of a message outside the broker: the mailbox that it was stored in, or
    /// the reply of the next hop (`said`).
    pub fn note_elsewhere(
        &self,
        message: MessageId,
        receiver: &str,
        kind: &'static str,
        outcome: StepOutcome,
        said: Option<&str>,
    ) {
        if let Some(trace) = self.0.traces.begin(message) {
            trace.at_destination(receiver, kind, outcome, said);
        }
    }

    /// The subscribers of a message and the outcome at each, with the number of further
    /// subscribers; `None` if the trace is no longer remembered.
    pub fn trace(&self, message: MessageId) -> Option<(Vec<TraceStep>, u64)> {
        self.0.traces.of(message)
    }

    /// Publishes one message, and returns when it is durable where it must be.
    pub async fn publish(&self, publication: Publication) -> Result<PublishOutcome, StoreError> {
        let (delivery, ticket) = self.publish_now(publication);
        if let Some(ticket) = ticket {
            ticket?.committed().await?;
        }
        Ok(delivery)
    }

    /// A subscriber within this process.
    pub fn subscribe_stream(
        &self,
        filters: &[TopicFilter],
        options: ReaderOptions,
    ) -> LocalSubscription {
        LocalSubscription::new(self.0.shared.clone(), filters, options)
    }

    /// The topic's last remembered publication.
    pub fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        self.0.shared.recent.latest(topic)
    }

    /// The last `count` publications under `filter` that are remembered, oldest first.
    pub fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        self.history_of(std::slice::from_ref(filter), count)
    }

    /// The same under any of several filters.
    pub fn history_of(&self, filters: &[TopicFilter], count: usize) -> Vec<Arc<Publication>> {
        self.0.shared.recent.history(filters, count)
    }

    /// The retained messages under `filter`; only those in memory, if too many others are on disk.
    pub fn retained(&self, filter: &TopicFilter) -> Vec<Arc<Publication>> {
        let shared = &self.0.shared;
        let found = shared.retained_matching(filter);
        let search = found.unwrap_or_else(|_| {
            let now = || shared.clock.time_of_day();
            shared.retained.matching(filter, now)
        });
        search.found
    }

    /// Connects a client to its session: a new one, or the one that waits for it. An open
    /// connection of the session is ended. `greet` writes what the client must read before anything
    /// else (MQTT's CONNACK); it is called under a lock, so it should only write.
    pub fn connect(
        &self,
        options: ConnectOptions,
        greet: impl FnOnce(ConnectionGreeting<'_>, &mut BytesMut),
    ) -> Result<Connected, ConnectError> {
        let nodes = self.0.shared.nodes.as_ref();
        let name = nodes.and_then(|_| options.name());
        let attached = self.0.sessions.connect(options, greet);
        let attached = attached.inspect_err(|_| {
            if let Some(name) = &name
                && let Some(nodes) = self.0.shared.nodes_for(name)
            {
                nodes.session_ended(name);
            }
        })?;
        let mut attachment =
            Attachment::new(self.0.sessions.clone(), attached.session, attached.epoch);
        if attached.tickets.is_empty() {
            attachment.begin();
        }
        Ok(Connected {
            attachment,
            session_present: attached.session_present,
            tickets: attached.tickets,
        })
    }

    /// Adds figures under `$SYS/broker/`, by these names; only the first call has an effect.
    pub fn add_figures(&self, figures: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static) {
        self.0.figures.add(figures);
    }

    /// Counts a limit that this client or address reached at a listener.
    pub fn note_limit(&self, limit: Limit, client: &str) {
        self.0.shared.reached(limit, client);
    }

    /// Ends the sessions of this client id, connected or not, and discards their state: the
    /// sessions of one user, if one is named (the empty name stands for clients without a login).
    /// Their wills are published \[MQTT-3.1.2-8\]. Returns how many there were, when their end is
    /// durable.
    pub async fn end_sessions(
        &self,
        client_id: &str,
        user: Option<&str>,
    ) -> Result<usize, StoreError> {
        let (ended, settled) = self.0.sessions.end_all_of(client_id, user);
        if let Some(ticket) = settled {
            ticket?.committed().await?;
        }
        Ok(ended)
    }

    /// Ends the connections of this client id's sessions, of one user if one is named as above; the
    /// sessions continue as if the client had lost its connection. Returns how many there were.
    pub fn end_connections(&self, client_id: &str, user: Option<&str>) -> usize {
        let mut found = self.0.sessions.all_of(client_id, user);
        found.retain(|session| session.is_connected());
        for session in &found {
            session.end(DisconnectCause::Administrative);
        }
        found.len()
    }

    /// The same of all sessions that `is_one` picks by user and peer.
    pub fn end_connections_of(&self, is_one: impl Fn(Option<&str>, Peer) -> bool) -> usize {
        let mut ended = 0;
        for session in self.0.sessions.all() {
            let mut state = session.lock();
            let Some(peer) = state.link.as_ref().map(|link| link.peer) else {
                continue;
            };
            if is_one(state.user.as_deref(), peer) {
                session.end_locked(&mut state, DisconnectCause::Administrative);
                ended += 1;
            }
        }
        ended
    }

    /// The sessions of this client id, of one user if one is named as above, each with a limited
    /// number of subscriptions.
    pub fn inspect(
        &self,
        client_id: &str,
        user: Option<&str>,
        subscriptions_max: usize,
    ) -> Vec<SessionInspection> {
        inspection::of_client(&self.0.sessions, client_id, user, subscriptions_max)
    }

    /// At most `count` sessions whose client id, user or address contains `search`, after the first
    /// `skip`, sorted by client id and without their subscriptions; and how many there are. Walks
    /// over all of them: for an operator, not for a hot path.
    pub fn sessions(
        &self,
        search: &str,
        skip: usize,
        count: usize,
    ) -> (Vec<SessionInspection>, usize) {
        inspection::search(&self.0.sessions, search, skip, count)
    }

    /// At most `count` of the sessions that publishers wait for now. Walks over all of them: for
    /// once a second, not for a hot path.
    pub fn slowing_publishers(&self, count: usize) -> Vec<SessionInspection> {
        inspection::slowing_publishers(&self.0.sessions, count)
    }

    /// The session of this client id that belongs to no user.
    pub fn session(&self, client_id: &str) -> Option<SessionStats> {
        stats::session(&self.0.sessions, client_id)
    }

    /// The figures, with at most `topics` topics and `sessions` sessions. Walks over all of
    /// them: for once a second, not for a hot path.
    pub fn stats(&self, topics: usize, sessions: usize) -> BrokerStats {
        stats::collect(&self.0.sessions, topics, sessions)
    }

    /// Does the housekeeping until `shutdown` becomes true. To be run once for each broker.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        self.housekeeper().run(shutdown).await;
        self.shut_down();
    }

    /// Does the housekeeping of one second, given its number: for simulations, which do not
    /// [`run`](Broker::run) the broker.
    pub fn tick(&self, count: u32) {
        self.housekeeper().tick(count);
    }

    fn housekeeper(&self) -> Housekeeper<'_> {
        Housekeeper {
            shared: &self.0.shared,
            sessions: &self.0.sessions,
            figures: &self.0.figures,
        }
    }

    /// Wakes the task of every connection and reader, so that it checks for changes, such as the
    /// rights of its user.
    pub fn wake_connections(&self) {
        for session in self.0.sessions.all() {
            session.lock().wake_owner();
        }
        for stream in self.0.shared.live_streams() {
            stream.wake();
        }
    }

    /// Ends all connections and readers when the server shuts down.
    pub fn shut_down(&self) {
        for session in self.0.sessions.all() {
            session.end(DisconnectCause::ShuttingDown);
        }
        for stream in self.0.shared.live_streams() {
            stream.close();
        }
    }
}
