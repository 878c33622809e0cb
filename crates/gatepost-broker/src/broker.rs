//! The broker's handle, and what all parts of it share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{Store, StoreError, Ticket};
use parking_lot::Mutex;

use crate::attachment::{Attachment, Close, ConnectError, ConnectOptions, Connected, Welcome};
use crate::counters::Counters;
use crate::index::Index;
use crate::keeping::Claims;
use crate::limits::{self, Limit, Limits, Rate};
use crate::publisher::{Delivery, Publisher};
use crate::reader::{Queue, Reader, ReaderOptions};
use crate::recent::Recent;
use crate::retained::Retained;
use crate::session::{Aftermath, Aliases, Ended, Link, Session, State, Surroundings};
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::subscription::Subscription;

/// Publishers that wait for their next use by those who publish now and then.
const IDLE_PUBLISHERS_MAX: usize = 16;

/// What all parts share.
pub(crate) struct Core {
    pub(crate) settings: BrokerSettings,
    pub(crate) store: Option<Store>,
    pub(crate) claims: Claims,
    pub(crate) index: Index,
    pub(crate) retained: Retained,
    pub(crate) recent: Recent,
    pub(crate) counters: Counters,
    pub(crate) limits: Limits,
    pub(crate) memory_share_bytes: usize,
    /// Present where the settings bound it.
    connect_rate: Option<Mutex<Rate>>,
    /// Connections of each user, where the settings bound them.
    connections_of_user: Mutex<HashMap<Arc<str>, usize>>,
    pub(crate) sessions: Mutex<HashMap<Arc<str>, Arc<Session>>>,
    pub(crate) readers: Mutex<Vec<Weak<Queue>>>,
    pub(crate) started: Instant,
    /// Seconds since the start, kept by the housekeeper: a clock that costs one load.
    pub(crate) now_seconds: AtomicU32,
    assigned: AtomicU64,
}

impl Core {
    pub(crate) fn around(&self) -> Surroundings<'_> {
        Surroundings {
            settings: &self.settings,
            counters: &self.counters,
            limits: &self.limits,
            now_seconds: self.now_seconds.load(Ordering::Relaxed),
        }
    }

    /// Counts a bound that was reached by this client.
    pub(crate) fn reached(&self, limit: Limit, client: &str) {
        let now_seconds = self.now_seconds.load(Ordering::Relaxed);
        self.limits.reached(limit, client, now_seconds);
    }

    /// Whether a topic or filter is as short and shallow as the settings demand.
    pub(crate) fn is_within_limits(&self, topic: &str) -> bool {
        let levels_max = self.settings.topic_levels_max;
        topic.len() <= self.settings.topic_bytes_max
            && memchr::memchr_iter(b'/', topic.as_bytes()).count() < levels_max
    }

    /// What is done with a slow session of this user, where its listener says `listener`.
    pub(crate) fn policy(
        &self,
        user: Option<&str>,
        listener: Option<SlowSubscriber>,
    ) -> SlowSubscriber {
        let settings = &self.settings;
        let of_user = user.and_then(|user| settings.slow_subscriber_of_user.get(user));
        of_user
            .copied()
            .or(listener)
            .unwrap_or(settings.slow_subscriber)
    }
}

/// The broker. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    core: Arc<Core>,
    /// Their topics stay known from one use to the next.
    idle_publishers: Arc<Mutex<Vec<Publisher>>>,
}

impl Broker {
    /// A broker that forgets everything when it ends.
    pub fn new(settings: BrokerSettings) -> Self {
        Self::with(settings, None)
    }

    /// A broker that keeps in `store` what must survive, and starts from what is there.
    pub fn open(settings: BrokerSettings, store: Store) -> Result<Self, StoreError> {
        let retained = store.retained()?;
        let per_topic = settings.recent_per_topic;
        let total = per_topic.saturating_mul(settings.recent_topics_max);
        let history = store.history(per_topic, total.min(100_000))?;
        let broker = Self::with(settings, Some(store));
        for publication in retained {
            broker.core.retained.keep(&Arc::new(publication));
        }
        for publication in history {
            let publication = Arc::new(publication);
            let record = broker.core.recent.record(&publication.topic);
            broker.core.recent.push(&record, &publication);
        }
        crate::recovery::take_back_sessions(&broker.core)?;
        Ok(broker)
    }

    fn with(settings: BrokerSettings, store: Option<Store>) -> Self {
        let core = Core {
            index: Index::new(),
            retained: Retained::new(
                settings.retained_messages_max,
                settings.retained_bytes_max.as_usize(),
            ),
            recent: Recent::new(
                settings.recent_per_topic,
                settings.recent_bytes_max.as_usize(),
                settings.recent_topics_max,
            ),
            counters: Counters::default(),
            limits: Limits::default(),
            memory_share_bytes: limits::memory_share_bytes(),
            connect_rate: Rate::new(settings.connects_per_second_max).map(Mutex::new),
            connections_of_user: Mutex::default(),
            claims: Claims::default(),
            sessions: Mutex::default(),
            readers: Mutex::default(),
            started: Instant::now(),
            now_seconds: AtomicU32::new(0),
            assigned: AtomicU64::new(0),
            settings,
            store,
        };
        Self {
            core: Arc::new(core),
            idle_publishers: Arc::default(),
        }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The settings that it runs with.
    pub fn settings(&self) -> &BrokerSettings {
        &self.core.settings
    }

    /// A publisher for a connection of its own.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.core.clone(), None)
    }

    /// Publishes one message at once. The ticket is for what must be durable before the sender
    /// is told of success; `None` where nothing needs to be.
    pub fn publish_now(
        &self,
        publication: Publication,
    ) -> (Delivery, Option<Result<Ticket, StoreError>>) {
        let idle = self.idle_publishers.lock().pop();
        let mut publisher = idle.unwrap_or_else(|| self.publisher());
        let delivery = publisher.publish(publication);
        let ticket = publisher.flush();
        let mut idle = self.idle_publishers.lock();
        if idle.len() < IDLE_PUBLISHERS_MAX {
            idle.push(publisher);
        }
        (delivery, ticket)
    }

    /// Publishes one message, and returns when it is durable where it must be.
    pub async fn publish(&self, publication: Publication) -> Result<Delivery, StoreError> {
        let (delivery, ticket) = self.publish_now(publication);
        if let Some(ticket) = ticket {
            ticket?.committed().await?;
        }
        Ok(delivery)
    }

    /// A subscriber within this process.
    pub fn subscribe_stream(&self, filters: &[TopicFilter], options: ReaderOptions) -> Reader {
        Reader::new(self.core.clone(), filters, options)
    }

    /// The topic's last publication that is remembered.
    pub fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        self.core.recent.latest(topic)
    }

    /// The last `count` publications under `filter` that are remembered, oldest first.
    pub fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        self.core.recent.history(filter, count)
    }

    /// The retained messages under `filter`.
    pub fn retained(&self, filter: &TopicFilter) -> Vec<Arc<Publication>> {
        self.core.retained.matching(filter)
    }

    /// Gives a client its session: a new one, or the one that waits for it. A connection that
    /// has it now is ended. `greet` writes what the client must read before anything else
    /// (MQTT's CONNACK); it is called under a lock, so it should only write.
    pub fn connect(
        &self,
        options: ConnectOptions,
        greet: impl FnOnce(Welcome<'_>, &mut BytesMut),
    ) -> Result<Connected, ConnectError> {
        self.core.connect(options, greet)
    }

    /// Ends the connection of a client; tells whether there was one.
    pub fn disconnect(&self, client_id: &str) -> bool {
        let session = self.core.sessions.lock().get(client_id).cloned();
        session.is_some_and(|session| {
            session.end(Ended::Administrative);
            session.is_connected()
        })
    }

    /// Counts a bound that a listener saw reached, by this client or address.
    pub fn note_limit(&self, limit: Limit, client: &str) {
        self.core.reached(limit, client);
    }

    /// Whose session this is, where its client logged in.
    pub fn owner_of(&self, client_id: &str) -> Option<Arc<str>> {
        let sessions = self.core.sessions.lock();
        sessions.get(client_id)?.lock().user.clone()
    }

    /// Ends a session, connected or not, and all that it has; tells whether there was one. Its
    /// will is published \[MQTT-3.1.2-8\].
    pub fn forget(&self, client_id: &str) -> bool {
        let session = self.core.sessions.lock().remove(client_id);
        let Some(session) = session else {
            return false;
        };
        let aftermath = self.core.end_session(&session);
        self.core.settle(vec![aftermath]);
        true
    }

    /// Wakes the task of every connection, so that it looks at what has changed around it, such
    /// as what its user may do.
    pub fn wake_connections(&self) {
        let sessions: Vec<_> = self.core.sessions.lock().values().cloned().collect();
        for session in sessions {
            session.lock().wake_owner();
        }
    }

    /// Tells all connections and readers to end, when the server goes down.
    pub fn shut_down(&self) {
        let sessions: Vec<_> = self.core.sessions.lock().values().cloned().collect();
        for session in sessions {
            session.end(Ended::ShuttingDown);
        }
        for reader in self.core.readers.lock().drain(..) {
            if let Some(reader) = reader.upgrade() {
                reader.close();
            }
        }
    }
}

impl Core {
    fn connect(
        self: &Arc<Self>,
        options: ConnectOptions,
        greet: impl FnOnce(Welcome<'_>, &mut BytesMut),
    ) -> Result<Connected, ConnectError> {
        let name = options.client_id.as_deref().unwrap_or_default();
        self.check_limits(name, options.user.as_deref())?;
        let (client_id, was_assigned) = match &options.client_id {
            Some(client_id) => (Arc::from(client_id.as_str()), false),
            None => (self.assign_client_id(), true),
        };
        let mut aftermaths = Vec::new();
        let mut sessions = self.sessions.lock();
        let mut kept = sessions.get(&client_id).cloned();
        if let Some(session) = &kept
            && let Some(owner) = &session.lock().user
            && options.user.as_ref() != Some(owner)
        {
            return Err(ConnectError::OtherUser(owner.clone()));
        }
        let is_over = |earlier: &Arc<Session>| {
            // A session without expiry ends with its connection, which ends here.
            options.clean_start || earlier.lock().expiry.is_zero()
        };
        if let Some(earlier) = kept.take_if(|earlier| is_over(earlier)) {
            sessions.remove(&client_id);
            aftermaths.push(self.end_session(&earlier)); // [MQTT-3.1.2-4]
        }
        let session_present = kept.is_some();
        let session = match kept {
            Some(session) => session,
            None if sessions.len() >= self.settings.sessions_max => {
                drop(sessions);
                self.reached(Limit::Sessions, &client_id);
                self.settle(aftermaths);
                return Err(ConnectError::TooManySessions);
            }
            None => {
                let session = Arc::new(Session::new(client_id.clone(), options.kind.into()));
                sessions.insert(client_id, session.clone());
                session
            }
        };
        let epoch = {
            let mut state = session.lock();
            aftermaths.extend(self.take_over(&session, &mut state));
            let epoch = self.attach(&session, &mut state, options);
            let welcome = Welcome {
                session_present,
                client_id: &session.client_id,
                was_assigned,
            };
            session.greet(&mut state, |out| greet(welcome, out), self.around());
            epoch
        };
        drop(sessions);
        self.settle(aftermaths);
        if session_present {
            // Routes know the session by its earlier connection.
            self.index.touch_everything();
        }
        Ok(Connected {
            attachment: Attachment::new(self.clone(), session, epoch),
            session_present,
        })
    }

    /// The bounds on connections, other than that on sessions.
    fn check_limits(&self, client: &str, user: Option<&str>) -> Result<(), ConnectError> {
        if self.limits.is_out_of_memory() {
            self.reached(Limit::Memory, client);
            return Err(ConnectError::OutOfMemory);
        }
        if let Some(rate) = &self.connect_rate
            && !rate.lock().take(Instant::now())
        {
            self.reached(Limit::ConnectRate, client);
            return Err(ConnectError::TooFast);
        }
        let of_user_max = self.settings.connections_per_user_max;
        if of_user_max > 0
            && let Some(user) = user
            && self.connections_of_user.lock().get(user).copied() >= Some(of_user_max)
        {
            self.reached(Limit::ConnectionsOfUser, client);
            return Err(ConnectError::TooManyOfUser);
        }
        Ok(())
    }

    /// Counts a session's connection in or out, for its user too.
    fn count_connection(&self, user: Option<&Arc<str>>, is_new: bool) {
        let connected = &self.counters.connected;
        if is_new {
            connected.fetch_add(1, Ordering::Relaxed);
        } else {
            connected.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(user) = user.filter(|_| self.settings.connections_per_user_max > 0) else {
            return;
        };
        let mut of_user = self.connections_of_user.lock();
        let count = of_user.entry(user.clone()).or_default();
        *count = if is_new {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            of_user.remove(user);
        }
    }

    fn assign_client_id(&self) -> Arc<str> {
        let number = self.assigned.fetch_add(1, Ordering::Relaxed);
        let unique = MessageId::next();
        Arc::from(format!("auto-{unique}-{number}"))
    }

    /// Takes the session from its present connection, if it has one.
    fn take_over(&self, session: &Arc<Session>, state: &mut State) -> Option<Aftermath> {
        state.link.as_ref()?;
        session.epoch.fetch_add(1, Ordering::AcqRel);
        session.end_locked(state, Ended::TakenOver);
        state.was_cut_cleanly = session.detach(state, self.around());
        self.count_connection(state.user.as_ref(), false);
        // The client is back before any delay could pass; only a will without delay is due.
        state.will.as_ref().filter(|will| will.delay.is_zero())?;
        let mut aftermath = Aftermath::default();
        aftermath.will = state.take_will(&mut aftermath.changes);
        Some(aftermath)
    }

    fn attach(&self, session: &Session, state: &mut State, options: ConnectOptions) -> u64 {
        let in_flight_max = options.receive_max.min(self.settings.inflight_max).max(1);
        let link = Link {
            sink: options.sink,
            format: options.format,
            frame_bytes_max: options
                .frame_bytes_max
                .map_or(usize::MAX, |bytes| bytes as usize),
            in_flight_max: usize::from(in_flight_max),
            aliases: (options.alias_max > 0).then(|| Box::new(Aliases::new(options.alias_max))),
        };
        state.will = options.will.map(Box::new);
        if options.user.is_some() {
            state.user = options.user;
        }
        state.policy = self.policy(state.user.as_deref(), options.slow_subscriber);
        state.expiry = options
            .expiry
            .min(self.settings.session_expiry_max.duration());
        let now = self.now_seconds.load(Ordering::Relaxed);
        session.heard_seconds.store(now, Ordering::Relaxed);
        let silence_max = options
            .silence_max
            .map_or(0, |silence| silence.as_secs() as u32);
        session
            .silence_max_seconds
            .store(silence_max, Ordering::Relaxed);
        session.attach(state, link);
        if let Some(store) = &self.store
            && (state.is_kept() || !state.expiry.is_zero())
        {
            state.begin_keeping(MessageId::next().number());
            state.keep_will();
            session.keep_row(state, store);
        }
        self.count_connection(state.user.as_ref(), true);
        session.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The connection of this epoch is over.
    pub(crate) fn close(self: &Arc<Self>, session: &Arc<Session>, epoch: u64, close: &Close) {
        let mut aftermath = Aftermath::default();
        {
            let mut sessions = self.sessions.lock();
            let mut state = session.lock();
            if session.epoch.load(Ordering::Acquire) != epoch || state.link.is_none() {
                return; // Another connection has it.
            }
            session.detach(&mut state, self.around());
            self.count_connection(state.user.as_ref(), false);
            if let Some(expiry) = close.expiry {
                state.expiry = expiry.min(self.settings.session_expiry_max.duration());
            }
            if !close.with_will {
                state.take_will(&mut aftermath.changes); // [MQTT-3.14.4-3]
            }
            if state.expiry.is_zero() {
                drop(state);
                sessions.remove(&session.client_id);
                aftermath = self.end_session(session);
            } else {
                self.leave(session, &mut state, &mut aftermath);
                drop(state);
                // Routes may leave it out, or must give it frames of its own.
                if !session.filters.lock().is_empty() {
                    self.index.touch_everything();
                }
            }
        }
        self.settle(vec![aftermath]);
    }

    /// The session goes on without a connection.
    fn leave(&self, session: &Session, state: &mut State, aftermath: &mut Aftermath) {
        let now = Instant::now();
        state.expires = now.checked_add(state.expiry);
        let delay = state.will.as_ref().map(|will| will.delay);
        match delay {
            Some(Duration::ZERO) => aftermath.will = state.take_will(&mut aftermath.changes),
            Some(delay) => state.will_due = Some(now + delay.min(state.expiry)),
            None => {}
        }
        if let Some(store) = &self.store {
            session.keep_row(state, store);
        }
    }

    /// Ends a session that the caller has taken out of the table: its subscriptions, its queue,
    /// its connection. What it leaves behind is to be settled when no lock is held.
    pub(crate) fn end_session(&self, session: &Arc<Session>) -> Aftermath {
        let mut aftermath = Aftermath::default();
        {
            let mut state = session.lock();
            state.has_ended = true;
            if state.link.is_some() {
                session.epoch.fetch_add(1, Ordering::AcqRel);
                session.end_locked(&mut state, Ended::TakenOver);
                state.was_cut_cleanly = session.detach(&mut state, self.around());
                self.count_connection(state.user.as_ref(), false);
            }
            // [MQTT-3.1.3-9]: at the latest when the session ends.
            aftermath.will = state.take_will(&mut aftermath.changes);
            let queue = state.acknowledged.take();
            if let Some(kept) = queue.and_then(|mut queue| queue.end()) {
                aftermath.changes.extend(kept.changes);
            }
        }
        let filters = std::mem::take(&mut *session.filters.lock());
        for text in filters {
            self.remove_subscription(session, &text);
        }
        aftermath
    }

    pub(crate) fn remove_subscription(&self, session: &Arc<Session>, text: &TopicFilter) -> bool {
        let Ok(requested) = crate::filter::RequestedFilter::new(text.as_str()) else {
            return false;
        };
        match &requested.share {
            Some(share) => self.index.leave(&share.filter, &share.name, session),
            None => self.index.remove(text, &|subscription| {
                    matches!(subscription, Subscription::Session(member) if member.is(session))
                }),
        }
    }

    /// Publishes wills and submits what goes with them. To be called when no lock is held.
    pub(crate) fn settle(self: &Arc<Self>, aftermaths: Vec<Aftermath>) {
        if aftermaths.iter().all(Aftermath::is_nothing) {
            return;
        }
        let mut publisher = Publisher::new(self.clone(), None);
        for aftermath in aftermaths {
            if let Some(will) = aftermath.will {
                publisher.publish(will);
            }
            publisher.take_along(aftermath.changes);
        }
        // Nobody waits for a will's durability: its sender is gone.
        let _ = publisher.flush();
    }
}
