//! Connecting: a client gets its session, within the limits on connections and sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use gatepost_message::MessageId;
use gatepost_store::{StoreError, Ticket};

use super::{AttachedSession, SessionTable};
use crate::connect::{ConnectError, ConnectOptions, ConnectionGreeting};
use crate::counters::Counters;
use crate::limits::Limit;
use crate::session::{
    DeferredEffects, DisconnectCause, LiveLink, Session, SessionState, TopicAliases,
};
use crate::session_name::SessionName;

/// The session that waits for a client. A session from before there were users is
/// assigned to the first user who logs in.
fn waiting_session(
    sessions: &mut HashMap<SessionName, Arc<Session>>,
    key: &SessionName,
) -> Option<Arc<Session>> {
    if let Some(session) = sessions.get(key) {
        return Some(session.clone());
    }
    key.user.as_ref()?;
    let session = sessions.remove(&SessionName::new(None, key.client_id.clone()))?;
    sessions.insert(key.clone(), session.clone());
    Some(session)
}

impl SessionTable {
    /// Connects a client to its session: a new one, or the one that waits for it.
    pub(crate) fn connect(
        &self,
        options: ConnectOptions,
        greet: impl FnOnce(ConnectionGreeting<'_>, &mut BytesMut),
    ) -> Result<AttachedSession, ConnectError> {
        self.check_rate(options.client_id.as_deref().unwrap_or_default())?;
        let is_out_of_memory = self.shared.limits.is_out_of_memory();
        let (client_id, was_assigned) = match &options.client_id {
            Some(client_id) => (Arc::from(client_id.as_str()), false),
            None => (self.assign_client_id(), true),
        };
        let mut all_effects = Vec::new();
        let mut sessions = self.by_key.lock();
        let key = SessionName::new(options.user.clone(), client_id.clone());
        let mut found = waiting_session(&mut sessions, &key);
        if !self.has_room_for(options.user.as_deref(), found.as_ref()) {
            drop(sessions);
            self.shared.reached(Limit::ConnectionsOfUser, &client_id);
            return Err(ConnectError::TooManyOfUser);
        }
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
        if !session_present && !self.may_begin(&key, &options, was_assigned) {
            drop(sessions);
            let _ = self.settle(all_effects);
            return Err(ConnectError::Superseded);
        }
        let session = found.unwrap_or_else(|| {
            let session = Arc::new(Session::new(client_id.clone(), options.kind.into()));
            sessions.insert(key, session.clone());
            session
        });
        let epoch = {
            let mut state = session.lock();
            all_effects.extend(self.take_over(&session, &mut state));
            let epoch = self.attach(&session, &mut state, options);
            let welcome = ConnectionGreeting {
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
            self.shared.index.invalidate_all();
            self.shared.index.note_connection(&session.filters.lock());
        }
        Ok(AttachedSession {
            session,
            epoch,
            session_present,
            tickets: stored.into_iter().chain(settled).collect(),
        })
    }

    /// Whether a session ends when its client connects again.
    fn is_over(&self, earlier: &Session, clean_start: bool) -> bool {
        let state = earlier.lock();
        // A session without expiry ends with its connection, which ends here.
        clean_start || state.expiry.is_zero() || state.has_expired(self.shared.clock.now())
    }

    /// Whether a session may begin here: a persistent one needs a claim, which another node may
    /// have replaced by a later one.
    fn may_begin(&self, name: &SessionName, options: &ConnectOptions, was_assigned: bool) -> bool {
        let Some(nodes) = self.shared.nodes_for(name) else {
            return true;
        };
        let expiry_max = self.shared.settings.session_expiry_max.duration();
        if options.expiry.min(expiry_max).is_zero() {
            return true;
        }
        if was_assigned {
            nodes.session_began(name);
        }
        was_assigned || nodes.owns_session(name)
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

    /// The bound on connections in a second.
    fn check_rate(&self, client: &str) -> Result<(), ConnectError> {
        if let Some(rate) = &self.connect_rate
            && !rate.lock().take(self.shared.clock.now())
        {
            self.shared.reached(Limit::ConnectRate, client);
            return Err(ConnectError::TooFast);
        }
        Ok(())
    }

    /// Whether the user may have this connection too, which ends the present one of the session
    /// that was found.
    fn has_room_for(&self, user: Option<&str>, found: Option<&Arc<Session>>) -> bool {
        let of_user_max = self.shared.settings.connections_per_user_max;
        let Some(user) = user.filter(|_| of_user_max > 0) else {
            return true;
        };
        let of_user = self.connections_of_user.lock();
        let count = of_user.get(user).copied().unwrap_or(0);
        let ends_one = found.is_some_and(|found| found.is_connected());
        count < of_user_max + usize::from(ends_one)
    }

    /// Counts a session's connection in or out, for its user too.
    pub(super) fn count_connection(&self, user: Option<&Arc<str>>, is_new: bool) {
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
    pub(super) fn take_over(
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
            aliases: (options.alias_max > 0)
                .then(|| Box::new(TopicAliases::new(options.alias_max))),
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
        // Rounded up, so that it is never shorter than one and a half times the keep alive.
        let silence_max = options
            .silence_max
            .map_or(0, |silence| silence.as_millis().div_ceil(1_000) as u32);
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
    pub(super) fn store_row(
        &self,
        session: &Session,
        epoch: u64,
    ) -> Option<Result<Ticket, StoreError>> {
        let store = self.shared.store.as_ref()?;
        let mut state = session.lock();
        let is_current = session.epoch.load(Ordering::Acquire) == epoch && !state.has_ended;
        is_current
            .then(|| session.store_row(&mut state, store, self.shared.clock.now()))
            .flatten()
    }
}
