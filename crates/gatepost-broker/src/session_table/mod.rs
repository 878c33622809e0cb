//! All sessions by client id: their start, their takeover by another connection, and their end.

mod settling;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use gatepost_message::MessageId;
use gatepost_store::{StoreError, Ticket};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::connect::{Close, ConnectError, ConnectOptions, Welcome};
use crate::counters::Counters;
use crate::held_wills::HeldWills;
use crate::limits::{Limit, Rate};
use crate::session::{Aliases, DeferredEffects, DisconnectCause, LiveLink, Session, SessionState};
use crate::shared::BrokerShared;
use crate::unsettled::UnsettledEffects;

/// The key of a session. Client ids are per user: a client can neither get nor block the session of
/// another user by its client id.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SessionKey {
    /// `None` for clients that did not log in.
    user: Option<Arc<str>>,
    client_id: Arc<str>,
}

impl SessionKey {
    fn new(user: Option<Arc<str>>, client_id: Arc<str>) -> Self {
        Self { user, client_id }
    }

    fn of(session: &Session) -> Self {
        let user = session.lock().user.clone();
        Self::new(user, session.client_id.clone())
    }
}

/// The session that waits for a client. A session from before there were users is
/// assigned to the first user who logs in.
fn waiting_session(
    sessions: &mut HashMap<SessionKey, Arc<Session>>,
    key: &SessionKey,
) -> Option<Arc<Session>> {
    if let Some(session) = sessions.get(key) {
        return Some(session.clone());
    }
    key.user.as_ref()?;
    let session = sessions.remove(&SessionKey::new(None, key.client_id.clone()))?;
    sessions.insert(key.clone(), session.clone());
    Some(session)
}

/// A session with its new connection.
pub(crate) struct Attached {
    pub(crate) session: Arc<Session>,
    /// The connection's number within the session.
    pub(crate) epoch: u64,
    pub(crate) session_present: bool,
    /// The changes that must be durable before the client is greeted.
    pub(crate) promises: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

/// The table of sessions, and the limits on connections.
pub(crate) struct SessionTable {
    shared: Arc<BrokerShared>,
    by_key: Mutex<HashMap<SessionKey, Arc<Session>>>,
    /// Present if the settings limit the rate.
    connect_rate: Option<Mutex<Rate>>,
    /// Connections of each user, if the settings limit them.
    connections_of_user: Mutex<HashMap<Arc<str>, usize>>,
    /// Client ids that were assigned since the start.
    assigned: AtomicU64,
    /// Wills and ends of sessions whose commit is not known.
    unsettled: UnsettledEffects,
    /// Wills that wait for memory.
    held_wills: HeldWills,
}

impl SessionTable {
    pub(crate) fn new(shared: Arc<BrokerShared>) -> Self {
        Self {
            by_key: Mutex::default(),
            connect_rate: Rate::new(shared.settings.connects_per_second_max).map(Mutex::new),
            connections_of_user: Mutex::default(),
            assigned: AtomicU64::new(0),
            unsettled: UnsettledEffects::default(),
            held_wills: HeldWills::default(),
            shared,
        }
    }

    pub(crate) const fn shared(&self) -> &Arc<BrokerShared> {
        &self.shared
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.by_key.lock().values().cloned().collect()
    }

    /// The session of this client id that belongs to no user.
    pub(crate) fn find(&self, client_id: &str) -> Option<Arc<Session>> {
        let key = SessionKey::new(None, client_id.into());
        self.by_key.lock().get(&key).cloned()
    }

    /// Adds a session that an earlier run of the server stored; returns the one that it replaces.
    pub(crate) fn restore(&self, session: Arc<Session>) -> Option<Arc<Session>> {
        self.by_key.lock().insert(SessionKey::of(&session), session)
    }

    /// Connects a client to its session: a new one, or the one that waits for it.
    pub(crate) fn connect(
        &self,
        options: ConnectOptions,
        greet: impl FnOnce(Welcome<'_>, &mut BytesMut),
    ) -> Result<Attached, ConnectError> {
        let name = options.client_id.as_deref().unwrap_or_default();
        self.check_limits(name, options.user.as_deref())?;
        let is_out_of_memory = self.shared.limits.is_out_of_memory();
        let (client_id, was_assigned) = match &options.client_id {
            Some(client_id) => (Arc::from(client_id.as_str()), false),
            None => (self.assign_client_id(), true),
        };
        let mut all_effects = Vec::new();
        let mut sessions = self.by_key.lock();
        let key = SessionKey::new(options.user.clone(), client_id.clone());
        let mut found = waiting_session(&mut sessions, &key);
        if let Some(earlier) = found.take_if(|earlier| self.is_over(earlier, options.clean_start)) {
            sessions.remove(&key);
            all_effects.push(self.end_session(&earlier)); // [MQTT-3.1.2-4]
        }
        let reached = self.reached_limit(found.as_ref(), sessions.len(), is_out_of_memory);
        if let Some((limit, error)) = reached {
            drop(sessions);
            self.shared.reached(limit, &client_id);
            let _ = self.settle(all_effects);
            return Err(error);
        }
        let session_present = found.is_some();
        let session = found.unwrap_or_else(|| {
            let session = Arc::new(Session::new(client_id.clone(), options.kind.into()));
            sessions.insert(key, session.clone());
            session
        });
        let epoch = {
            let mut state = session.lock();
            all_effects.extend(self.take_over(&session, &mut state));
            let epoch = self.attach(&session, &mut state, options);
            let welcome = Welcome {
                session_present,
                client_id: &session.client_id,
                was_assigned,
            };
            session.greet(&mut state, |out| greet(welcome, out), self.shared.view());
            epoch
        };
        drop(sessions);
        let settled = self.settle_for_client(&session.client_id, all_effects);
        // After the earlier connection's will: a crash in between must not lose that.
        let stored = self.store_row(&session, epoch);
        if session_present {
            // Routes know the session by its earlier connection.
            self.shared.index.touch_everything();
        }
        Ok(Attached {
            session,
            epoch,
            session_present,
            promises: stored.into_iter().chain(settled).collect(),
        })
    }

    /// Whether a session ends when its client connects again.
    fn is_over(&self, earlier: &Session, clean_start: bool) -> bool {
        let state = earlier.lock();
        // A session without expiry ends with its connection, which ends here.
        clean_start || state.expiry.is_zero() || state.has_expired(self.shared.clock.now())
    }

    /// The limit that prevents a client from using the session that was found, or a new one.
    fn reached_limit(
        &self,
        found: Option<&Arc<Session>>,
        sessions: usize,
        is_out_of_memory: bool,
    ) -> Option<(Limit, ConnectError)> {
        match found {
            // A client that fetches messages waiting in memory frees some of it.
            Some(found) if !found.is_on_disk() => None,
            Some(_) => Some((Limit::Memory, ConnectError::OutOfMemory)),
            None if is_out_of_memory => Some((Limit::Memory, ConnectError::OutOfMemory)),
            None if sessions >= self.shared.settings.sessions_max => {
                Some((Limit::Sessions, ConnectError::TooManySessions))
            }
            None => None,
        }
    }

    /// The bounds on connections, other than that on sessions.
    fn check_limits(&self, client: &str, user: Option<&str>) -> Result<(), ConnectError> {
        if let Some(rate) = &self.connect_rate
            && !rate.lock().take(self.shared.clock.now())
        {
            self.shared.reached(Limit::ConnectRate, client);
            return Err(ConnectError::TooFast);
        }
        let of_user_max = self.shared.settings.connections_per_user_max;
        if of_user_max > 0
            && let Some(user) = user
            && self.connections_of_user.lock().get(user).copied() >= Some(of_user_max)
        {
            self.shared.reached(Limit::ConnectionsOfUser, client);
            return Err(ConnectError::TooManyOfUser);
        }
        Ok(())
    }

    /// Counts a session's connection in or out, for its user too.
    fn count_connection(&self, user: Option<&Arc<str>>, is_new: bool) {
        let connected = &self.shared.counters.connected;
        if is_new {
            connected.fetch_add(1, Ordering::Relaxed);
            Counters::add(&self.shared.counters.connections, 1);
        } else {
            connected.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(user) = user.filter(|_| self.shared.settings.connections_per_user_max > 0) else {
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

    /// Takes the session over from its present connection, if it has one. Due effects of an earlier
    /// one remain due.
    fn take_over(
        &self,
        session: &Arc<Session>,
        state: &mut SessionState,
    ) -> Option<DeferredEffects> {
        if state.link.is_none() {
            return session.due_will(state, self.shared.clock.now());
        }
        session.epoch.fetch_add(1, Ordering::AcqRel);
        session.end_locked(state, DisconnectCause::TakenOver);
        state.was_cut_cleanly = session.detach(state, self.shared.view());
        self.count_connection(state.user.as_ref(), false);
        // The client has reconnected before any delay could pass; only a will without delay is due.
        state.will.as_ref().filter(|will| will.delay.is_zero())?;
        let mut effects = DeferredEffects::of(session);
        effects.will = state.take_will(&mut effects.changes);
        Some(effects)
    }

    /// Gives the session its new connection, and returns the epoch of that. The caller must then
    /// write the session's own row.
    fn attach(&self, session: &Session, state: &mut SessionState, options: ConnectOptions) -> u64 {
        let in_flight_max = options
            .receive_max
            .min(self.shared.settings.inflight_max)
            .max(1);
        let link = LiveLink {
            socket: options.socket,
            format: options.format,
            frame_bytes_max: options
                .frame_bytes_max
                .map_or(usize::MAX, |bytes| bytes as usize),
            in_flight_max: usize::from(in_flight_max),
            aliases: (options.alias_max > 0).then(|| Box::new(Aliases::new(options.alias_max))),
            peer: options.peer,
            since: self.shared.clock.time_of_day(),
        };
        state.will = options.will.map(Box::new);
        if options.user.is_some() {
            state.user = options.user;
        }
        state.set_authorization(options.authorization);
        state.policy = self
            .shared
            .policy(state.user.as_deref(), options.slow_subscriber);
        state.expiry = options
            .expiry
            .min(self.shared.settings.session_expiry_max.duration());
        let now = self.shared.clock.now_seconds();
        session.heard_seconds.store(now, Ordering::Relaxed);
        let silence_max = options
            .silence_max
            .map_or(0, |silence| silence.as_secs() as u32);
        session
            .silence_max_seconds
            .store(silence_max, Ordering::Relaxed);
        session.attach(state, link);
        let is_persistent = state.is_persistent() || !state.expiry.is_zero();
        if is_persistent && self.shared.store.is_some() {
            state.make_persistent(MessageId::next().number());
            state.store_will();
        }
        self.count_connection(state.user.as_ref(), true);
        session.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Writes the row of a session that must survive the server, unless another connection has
    /// taken the session and writes it.
    fn store_row(&self, session: &Session, epoch: u64) -> Option<Result<Ticket, StoreError>> {
        let store = self.shared.store.as_ref()?;
        let mut state = session.lock();
        let is_current = session.epoch.load(Ordering::Acquire) == epoch && !state.has_ended;
        is_current
            .then(|| session.store_row(&mut state, store, self.shared.clock.now()))
            .flatten()
    }

    /// Ends the connection of this epoch.
    pub(crate) fn close(&self, session: &Arc<Session>, epoch: u64, close: &Close) {
        let mut effects = DeferredEffects::of(session);
        {
            let mut sessions = self.by_key.lock();
            let mut state = session.lock();
            if session.epoch.load(Ordering::Acquire) != epoch || state.link.is_none() {
                return; // Another connection has the session.
            }
            session.detach(&mut state, self.shared.view());
            self.count_connection(state.user.as_ref(), false);
            if let Some(expiry) = close.expiry {
                state.expiry = expiry.min(self.shared.settings.session_expiry_max.duration());
            }
            if !close.with_will {
                state.take_will(&mut effects.changes); // [MQTT-3.14.4-3]
            }
            if state.expiry.is_zero() {
                drop(state);
                sessions.remove(&SessionKey::of(session));
                let ended = self.end_session(session);
                effects.will = ended.will;
                effects.changes.extend(ended.changes);
                effects.follows_failed = ended.follows_failed;
            } else {
                state.begin_absence(&mut effects, self.shared.clock.now());
                drop(state);
                // Routes may omit the session, or must use frames of its own.
                if !session.filters.lock().is_empty() {
                    self.shared.index.touch_everything();
                }
            }
        }
        // No client waits for a will's durability: its sender is gone.
        let _ = self.settle(vec![effects]);
        // After its will: a crash in between must not lose that.
        let _ = self.store_row(session, epoch);
    }

    /// Ends a session that the caller has taken out of the table: its subscriptions, its queue, its
    /// connection. The returned effects must be settled when no lock is held.
    pub(crate) fn end_session(&self, session: &Arc<Session>) -> DeferredEffects {
        self.end_session_for(session, DisconnectCause::TakenOver)
    }

    /// The same, for this reason.
    fn end_session_for(&self, session: &Arc<Session>, cause: DisconnectCause) -> DeferredEffects {
        let mut effects = DeferredEffects::of(session);
        {
            let mut state = session.lock();
            state.has_ended = true;
            if state.link.is_some() {
                session.epoch.fetch_add(1, Ordering::AcqRel);
                session.end_locked(&mut state, cause);
                state.was_cut_cleanly = session.detach(&mut state, self.shared.view());
                self.count_connection(state.user.as_ref(), false);
            }
            // [MQTT-3.1.3-9]: at the latest when the session ends.
            effects.will = state.take_will(&mut effects.changes);
            let queue = state.acknowledged.take();
            if let Some(mut persistent) = queue.and_then(|mut queue| queue.end()) {
                effects.follows_failed = persistent.unmet_prerequisite().is_some();
                effects.changes.extend(persistent.changes);
            }
        }
        let filters = std::mem::take(&mut *session.filters.lock());
        for text in filters {
            self.shared.index.remove_session(session, &text);
        }
        effects
    }

    /// The sessions of this client id: those of this user, if one is given.
    pub(crate) fn all_of(&self, client_id: &str, user: Option<&str>) -> Vec<Arc<Session>> {
        let sessions = self.by_key.lock();
        let is_it = |key: &SessionKey| {
            let of_user = user.is_none_or(|user| user == key.user.as_deref().unwrap_or_default());
            of_user && &*key.client_id == client_id
        };
        let found = sessions.iter().filter(|(key, _)| is_it(key));
        found.map(|(_, session)| session.clone()).collect()
    }

    /// Ends the sessions of this client id, connected or not, at an operator's request: those of
    /// this user, if one is given. Returns their number, and the effects that make their end
    /// durable.
    pub(crate) fn end_all_of(
        &self,
        client_id: &str,
        user: Option<&str>,
    ) -> (usize, Option<Result<Ticket, StoreError>>) {
        let mut removed = Vec::new();
        self.by_key.lock().retain(|key, session| {
            let is_of_user =
                user.is_none_or(|user| user == key.user.as_deref().unwrap_or_default());
            let is_it = is_of_user && &*key.client_id == client_id;
            if is_it {
                removed.push(session.clone());
            }
            !is_it
        });
        let cause = DisconnectCause::Administrative;
        let end = |session| self.end_session_for(session, cause);
        let all_effects = removed.iter().map(end).collect();
        (removed.len(), self.settle(all_effects))
    }

    /// Ends an expired session, unless its client has reconnected.
    pub(crate) fn end_expired(
        &self,
        session: &Arc<Session>,
        now: Instant,
    ) -> Option<DeferredEffects> {
        let mut table = self.by_key.lock();
        if !session.lock().has_expired(now) {
            return None;
        }
        table.remove(&SessionKey::of(session));
        Some(self.end_session(session))
    }
}
