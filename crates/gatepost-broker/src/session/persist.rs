//! The stored part of a session (see `persistence.rs`).

use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime};

use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{
    SessionChange, SessionRow, Store, StoreChange, StoreError, SubscriptionRow, Ticket, WillRow,
};

use super::{BrokerView, Session, SessionState};
use crate::acknowledged::{AcknowledgedDeliveries, Receipt};
use crate::authorization::Authorization;
use crate::filter::SubscribeOptions;
use crate::persistence::{ChangeBatch, PersistentSession, StoredMessage};

/// Work that remains after the end of a session or its connection, done when no lock is held: a
/// will to publish, and the related changes.
#[derive(Clone)]
pub(crate) struct DeferredEffects {
    pub(crate) session: Arc<Session>,
    pub(crate) will: Option<Publication>,
    /// Whether the will has the id under which it is published.
    has_will_id: bool,
    pub(crate) changes: Vec<StoreChange>,
    /// Whether earlier effects of the session could not be stored: they must be stored first.
    pub(crate) follows_failed: bool,
    /// The session that keeps the will, if it cannot be published yet.
    pub(crate) held_will: Option<Arc<Session>>,
}

impl DeferredEffects {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        Self {
            session: session.clone(),
            will: None,
            has_will_id: false,
            changes: Vec::new(),
            follows_failed: false,
            held_will: None,
        }
    }

    /// Records that the effects were submitted to the store, with this outcome. The session's own
    /// row no longer refers to the will, so it may only be stored after them; the same applies to
    /// the end of a kept will.
    pub(crate) fn were_submitted(&self, ticket: &Result<Ticket, StoreError>) {
        let has_will = self.will.is_some() || self.held_will.is_some();
        let session = has_will.then_some(&self.session);
        self.require(session, Some(ticket));
    }

    /// Records that the effects are given up.
    pub(crate) fn were_given_up(&self) {
        self.require(Some(&self.session), None);
    }

    fn require(
        &self,
        session: Option<&Arc<Session>>,
        prerequisite: Option<&Result<Ticket, StoreError>>,
    ) {
        for session in session.into_iter().chain(&self.held_will) {
            if let Some(persistent) = session.lock().persistent_mut() {
                persistent.prerequisite = prerequisite.cloned();
            }
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.will.is_none() && self.changes.is_empty()
    }

    /// Whether the effects change rows, as those of a persistent session do.
    pub(crate) const fn has_rows(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether the effects end the session on disk.
    pub(crate) fn ends_session(&self) -> bool {
        let is_end = |change: &StoreChange| {
            matches!(change, StoreChange::Session(SessionChange::End { .. }))
        };
        self.changes.iter().any(is_end)
    }

    /// Whether the effects are only tried again when the store is ready: subscribers receive a will
    /// at each attempt, and messages are refused until then. What follows other effects waits with
    /// them.
    pub(crate) fn need_ready_store(&self) -> bool {
        let has_message = self.changes.iter().any(StoreChange::stores_message);
        self.will.is_some() || self.follows_failed || has_message
    }

    /// The will, with the id under which it is published now. Until then it has the id of its
    /// CONNECT, but its expiry begins at its publication (MQTT 5, section 3.1.3.2.4), and nodes
    /// ignore a retained message that is older than the last one of its topic.
    ///
    /// A repeated attempt has the same id: the log of the cluster must not get the will under two
    /// if the store has kept what it reported as failed.
    pub(crate) fn will_to_publish(&mut self) -> Option<Publication> {
        let will = self.will.as_mut()?;
        if !std::mem::replace(&mut self.has_will_id, true) {
            will.id = MessageId::next();
        }
        Some(will.clone())
    }
}

impl Session {
    /// Writes the session's own row, and the collected changes; returns the ticket for both, if the
    /// session is persistent.
    pub(crate) fn store_row(
        &self,
        state: &mut SessionState,
        store: &Store,
        now: Instant,
    ) -> Option<Result<Ticket, StoreError>> {
        self.collect_row(state, store, now);
        let submitted = state.submit(store)?;
        if let Err(error) = &submitted {
            // The store logs the cause, once a second.
            tracing::debug!(target: "broker", client = self.client_id(), %error,
                "a session could not be stored");
        }
        Some(submitted)
    }

    /// Adds the session's own row to the collected changes, if the session is persistent.
    pub(crate) fn collect_row(&self, state: &mut SessionState, store: &Store, now: Instant) {
        let is_connected = state.link.is_some();
        let (expiry, will) = (state.expiry, state.will.as_deref());
        let ended = (!is_connected).then(|| state.connection_ended(now, store.time_to_store()));
        let delay = will.map(|will| will.delay);
        let user = state.user.as_deref().map(str::to_owned);
        let Some(queue) = &mut state.acknowledged else {
            return;
        };
        let sent = queue.last_sent();
        let Some(persistent) = &mut queue.persistent else {
            return;
        };
        let will = persistent.will.as_ref().zip(delay);
        let row = SessionRow {
            number: persistent.number,
            client: self.client_id.to_string(),
            user,
            kind: self.kind.to_string(),
            expiry,
            ended,
            sent: (!is_connected).then_some(sent),
            will: will.map(|(stored, delay)| WillRow {
                message: stored.number,
                delay,
            }),
        };
        persistent.push_row(row);
    }

    /// The will of a disconnected client's session whose delay has passed.
    pub(crate) fn due_will(
        self: &Arc<Self>,
        state: &mut SessionState,
        now: Instant,
    ) -> Option<DeferredEffects> {
        if state.link.is_some() || state.will_due.is_none_or(|due| due > now) {
            return None;
        }
        // The session's row may refer to the will for a while longer: its message is deleted after
        // that.
        let mut effects = DeferredEffects::of(self);
        effects.will = state.take_will(&mut effects.changes);
        Some(effects)
    }

    /// Whether this is the persistent session of this number.
    pub(crate) fn is_number(&self, number: Option<u64>) -> bool {
        let mut state = self.state.lock();
        let own = state.persistent_mut().map(|persistent| persistent.number);
        own.is_some() && own == number
    }

    /// Submits the collected changes to the store. `None` if there are none.
    pub(crate) fn submit(&self, store: &Store) -> Option<Result<Ticket, StoreError>> {
        self.state.lock().submit(store)
    }

    /// Continues after a publisher has submitted its changes: sends its publications, except those
    /// that wait for the commit.
    pub(crate) fn continue_after_submit(&self, broker: BrokerView<'_>, store: Option<&Store>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.pump(state, broker);
        if let Some(store) = store
            && let Some(persistent) = state.persistent_mut()
            && !persistent.changes.is_empty()
        {
            // Refused changes are submitted again with the session's next changes.
            let _ = persistent.submit(store);
        }
        state.dirty |= !state.outbox.is_empty();
        self.flush_locked(state, broker);
    }

    /// Sends deliveries that were held back until their commit.
    pub(super) fn poll_awaited(
        &self,
        state: &mut SessionState,
        context: &mut Context<'_>,
        broker: BrokerView<'_>,
    ) {
        while let Some(queue) = &mut state.acknowledged
            && let Some(awaited) = &mut queue.awaited_commit
        {
            if awaited.as_mut().poll(context).is_pending() {
                return;
            }
            queue.awaited_commit = None;
            self.pump(state, broker);
            state.dirty |= !state.outbox.is_empty();
            self.flush_locked(state, broker);
        }
    }

    pub(crate) fn store_subscription(&self, filter: &TopicFilter, options: SubscribeOptions) {
        if let Some(persistent) = self.state.lock().persistent_mut() {
            let row = SubscriptionRow {
                session: persistent.number,
                filter: filter.clone(),
                qos: options.qos,
                no_local: options.no_local,
                retain_as_published: options.retain_as_published,
                identifier: options.identifier.map(std::num::NonZeroU32::get),
            };
            persistent.push(SessionChange::Subscribe(Box::new(row)));
        }
    }

    pub(crate) fn forget_subscription(&self, filter: &TopicFilter) {
        if let Some(persistent) = self.state.lock().persistent_mut() {
            let session = persistent.number;
            let filter = filter.clone();
            persistent.push(SessionChange::Unsubscribe { session, filter });
        }
    }

    /// Records that an exactly-once publication was received; its row is part of the same commit as
    /// the publication's.
    pub(crate) fn receive(&self, packet_id: NonZeroU16, batch: &mut ChangeBatch) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.publish(packet_id, batch.commit());
        if let Some(persistent) = &queue.persistent {
            batch.ends_sending = true;
            batch
                .changes
                .push(StoreChange::Session(SessionChange::Receive {
                    session: persistent.number,
                    packet: packet_id.get(),
                }));
        }
    }

    /// Records that an exactly-once publication waits for a verdict.
    pub(crate) fn begin_judging(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.begin_judging(packet_id);
    }

    /// Restores an identifier that an earlier run of the server stored.
    pub(crate) fn restore_received(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.insert(packet_id);
    }

    /// The state of a publication with this identifier.
    pub(crate) fn receipt(&self, packet_id: NonZeroU16) -> Receipt {
        let mut state = self.state.lock();
        let queue = state.acknowledged.as_mut();
        queue.map_or(Receipt::Unknown, |queue| queue.received.receipt(packet_id))
    }

    /// Records that a judged publication was received, and writes its row.
    pub(crate) fn store_received(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.insert(packet_id);
        if let Some(persistent) = &mut queue.persistent {
            let (session, packet) = (persistent.number, packet_id.get());
            persistent.push(SessionChange::Receive { session, packet });
        }
    }

    /// Frees an identifier that the client released; returns whether it was in use.
    pub(crate) fn unreceive(&self, packet_id: NonZeroU16) -> bool {
        let mut state = self.state.lock();
        let Some(queue) = &mut state.acknowledged else {
            return false;
        };
        let was_known = queue.received.release(packet_id);
        if was_known && let Some(persistent) = &mut queue.persistent {
            let (session, packet) = (persistent.number, packet_id.get());
            persistent.push(SessionChange::Unreceive { session, packet });
        }
        was_known
    }
}

impl SessionState {
    pub(crate) fn persistent_mut(&mut self) -> Option<&mut PersistentSession> {
        self.acknowledged.as_mut()?.persistent.as_deref_mut()
    }

    pub(crate) fn is_persistent(&self) -> bool {
        let queue = self.acknowledged.as_ref();
        queue.is_some_and(|queue| queue.persistent.is_some())
    }

    /// The time at which the session began to wait for its client, on the clock that shows `time`
    /// now.
    fn connection_ended(&self, now: Instant, time: SystemTime) -> SystemTime {
        let left = |expires: Instant| expires.saturating_duration_since(now);
        let age = |expires| self.expiry.saturating_sub(left(expires));
        let ended = self
            .expires
            .and_then(|expires| time.checked_sub(age(expires)));
        ended.unwrap_or(time)
    }

    /// Makes the session persistent.
    pub(crate) fn make_persistent(&mut self, number: u64) -> &mut AcknowledgedDeliveries {
        let queue = self.acknowledged.get_or_insert_default();
        queue
            .persistent
            .get_or_insert_with(|| Box::new(PersistentSession::new(number)));
        queue
    }

    pub(crate) fn set_authorization(&mut self, authorization: Option<Arc<dyn Authorization>>) {
        self.authorization = authorization;
        if let Some(queue) = &mut self.acknowledged {
            queue.recheck();
        }
    }

    /// Stores the will in place of an earlier one.
    pub(crate) fn store_will(&mut self) {
        let publication = self
            .will
            .as_deref()
            .map(|will| Arc::new(will.publication.clone()));
        let Some(persistent) = self.persistent_mut() else {
            return;
        };
        if let Some(earlier) = persistent.will.take() {
            earlier.release_reference(&mut persistent.changes);
        }
        if let Some(publication) = publication {
            persistent.will = Some(StoredMessage::new(&publication, &mut persistent.changes));
        }
    }

    /// Removes the will, to be published or discarded; the changes belong to the same commit as its
    /// publication.
    pub(crate) fn take_will(&mut self, changes: &mut Vec<StoreChange>) -> Option<Publication> {
        let will = self.will.take()?;
        self.will_due = None;
        if let Some(persistent) = self.persistent_mut()
            && let Some(stored) = persistent.will.take()
        {
            stored.release_reference(changes);
        }
        let publication = will.publication;
        let may_publish = self.authorization.as_ref().is_none_or(|authorization| {
            authorization.may_publish(publication.topic.as_str(), publication.retain)
        });
        if !may_publish {
            tracing::info!(target: "broker", topic = publication.topic.as_str(),
                "a will is not published: its client no longer has the right to");
        }
        may_publish.then_some(publication)
    }

    /// Begins the time in which the session has no connection.
    pub(crate) fn begin_absence(&mut self, effects: &mut DeferredEffects, now: Instant) {
        self.expires = now.checked_add(self.expiry);
        let delay = self.will.as_ref().map(|will| will.delay);
        match delay {
            Some(Duration::ZERO) => effects.will = self.take_will(&mut effects.changes),
            Some(delay) => self.will_due = Some(now + delay.min(self.expiry)),
            None => {}
        }
    }

    pub(crate) fn submit(&mut self, store: &Store) -> Option<Result<Ticket, StoreError>> {
        self.persistent_mut()?.submit(store)
    }

    /// Submits the changes of a retained message, after the session's own changes.
    pub(crate) fn submit_with(&mut self, batch: &mut ChangeBatch, store: &Store) {
        let Some(persistent) = self.persistent_mut() else {
            batch.was_submitted(None, None); // it has no rows
            return;
        };
        let _ = persistent.submit(store);
        let ticket = store.submit_after(&mut batch.changes, persistent.last_ticket());
        if ticket.is_err() {
            batch.changes.clear();
        }
        batch.was_submitted(Some(&ticket), Some(&ticket));
        persistent.changes.append(&mut batch.changes);
    }
}
