//! All sessions by client id: their start, their takeover by another connection, and their end.

mod connecting;
mod moving;
mod settling;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gatepost_store::{StoreError, Ticket};
use parking_lot::{Mutex, ReentrantMutex};
use smallvec::SmallVec;

use crate::connect::ConnectionClose;
use crate::counters::DropCause;
use crate::held_wills::HeldWills;
use crate::limits::TokenBucket;
use crate::session::{DeferredEffects, DisconnectCause, Session};
use crate::session_name::SessionName;
use crate::shared::BrokerShared;
use crate::uncommitted::UncommittedEffects;

/// A session with its new connection.
pub(crate) struct AttachedSession {
    pub(crate) session: Arc<Session>,
    /// The connection's number within the session.
    pub(crate) epoch: u64,
    pub(crate) session_present: bool,
    /// The changes that must be durable before the client is greeted.
    pub(crate) tickets: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

/// The table of sessions, and the limits on connections.
pub(crate) struct SessionTable {
    shared: Arc<BrokerShared>,
    by_key: Mutex<HashMap<SessionName, Arc<Session>>>,
    /// Present if the settings limit the rate.
    connect_rate: Option<Mutex<TokenBucket>>,
    /// Connections of each user, if the settings limit them.
    connections_of_user: Mutex<HashMap<Arc<str>, usize>>,
    /// Client ids that were assigned since the start.
    assigned: AtomicU64,
    /// Wills and ends of sessions whose commit is not known.
    uncommitted: UncommittedEffects,
    /// Held while ends that could not be stored are submitted again, and while a session comes from
    /// another server: it may have ended here before, and has the same number.
    repeating: ReentrantMutex<()>,
    /// Wills that wait for memory, or for room in the log.
    held_wills: HeldWills,
}

impl SessionTable {
    pub(crate) fn new(shared: Arc<BrokerShared>) -> Self {
        Self {
            by_key: Mutex::default(),
            connect_rate: TokenBucket::new(shared.settings.connects_per_second_max).map(Mutex::new),
            connections_of_user: Mutex::default(),
            assigned: AtomicU64::new(0),
            uncommitted: UncommittedEffects::default(),
            repeating: ReentrantMutex::default(),
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
        let key = SessionName::new(None, client_id.into());
        self.by_key.lock().get(&key).cloned()
    }

    /// Adds a session that an earlier run of the server stored; returns the one that it replaces.
    pub(crate) fn restore(&self, session: Arc<Session>) -> Option<Arc<Session>> {
        self.by_key.lock().insert(session.name(), session)
    }

    /// Ends the connection of this epoch.
    pub(crate) fn close(&self, session: &Arc<Session>, epoch: u64, close: &ConnectionClose) {
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
                sessions.remove(&session.name());
                let ended = self.end_session(session);
                effects.will = ended.will;
                effects.changes.extend(ended.changes);
                effects.follows_failed = ended.follows_failed;
            } else {
                state.begin_absence(&mut effects, self.shared.clock.now());
                drop(state);
                // Routes may omit the session, or must use frames of its own.
                let filters = session.filters.lock();
                if !filters.is_empty() {
                    self.shared.index.invalidate_all();
                    self.shared.index.note_connection(&filters);
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
        let mut ended_name = None;
        {
            let mut state = session.lock();
            state.has_ended = true;
            if let Some(retained) = state.retained.take() {
                let (left, cause) = (retained.len() as u64, DropCause::ConnectionLost);
                session.count_drop(self.shared.view(), cause, left);
            }
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
                ended_name = Some(session.name_of(&state));
            }
        }
        if let Some(name) = &ended_name
            && let Some(nodes) = self.shared.nodes_for(name)
        {
            nodes.session_ended(name);
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
        let is_it = |key: &SessionName| {
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
        let removed = self.take_all(|key| {
            let is_of_user =
                user.is_none_or(|user| user == key.user.as_deref().unwrap_or_default());
            is_of_user && &*key.client_id == client_id
        });
        let cause = DisconnectCause::Administrative;
        let end = |session| self.end_session_for(session, cause);
        let all_effects = removed.iter().map(end).collect();
        (removed.len(), self.settle(all_effects))
    }

    /// Ends the sessions of removed users, with their queues. Their wills are discarded, since
    /// no right to publish them is left. Returns the same.
    pub(crate) fn end_all_of_users(
        &self,
        is_removed: impl Fn(&str) -> bool,
    ) -> (usize, Option<Result<Ticket, StoreError>>) {
        let removed = self.take_all(|key| key.user.as_deref().is_some_and(&is_removed));
        let end = |session| {
            let mut ended = self.end_session_for(session, DisconnectCause::UserRemoved);
            ended.will = None;
            ended
        };
        let all_effects = removed.iter().map(end).collect();
        (removed.len(), self.settle(all_effects))
    }

    /// Takes the sessions with such a name out of the table.
    fn take_all(&self, is_one: impl Fn(&SessionName) -> bool) -> Vec<Arc<Session>> {
        let mut sessions = self.by_key.lock();
        let taken = sessions.extract_if(|name, _| is_one(name));
        taken.map(|(_, session)| session).collect()
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
        table.remove(&session.name());
        Some(self.end_session(session))
    }
}
