//! What of a session survives the server (see `persistence.rs`).

use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::Context;
use std::time::{Instant, SystemTime};

use gatepost_message::{Publication, TopicFilter};
use gatepost_store::{
    Change, SessionChange, SessionRow, Store, StoreError, SubscriptionRow, Ticket, WillRow,
};

use super::{BrokerView, Session, State};
use crate::acknowledged::{Acknowledged, Receipt};
use crate::authorization::Authorization;
use crate::filter::SubscribeOptions;
use crate::persistence::{ChangeBatch, PersistentSession, StoredMessage};

/// What must be done when a session or its connection ended, once no lock is held: a will to
/// publish, and changes that go with it.
#[derive(Clone, Default)]
pub(crate) struct DeferredEffects {
    /// Whose they are.
    pub(crate) client_id: Arc<str>,
    pub(crate) will: Option<Publication>,
    pub(crate) changes: Vec<Change>,
}

impl DeferredEffects {
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            client_id: session.client_id.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.will.is_none() && self.changes.is_empty()
    }
}

impl Session {
    /// Writes the session's own row, and the collected changes; returns the ticket for both, where the
    /// session is kept.
    pub(crate) fn keep_row(
        &self,
        state: &mut State,
        store: &Store,
    ) -> Option<Result<Ticket, StoreError>> {
        let is_connected = state.link.is_some();
        let (expiry, will) = (state.expiry, state.will.as_deref());
        let ended = (!is_connected).then(|| state.connection_ended());
        let delay = will.map(|will| will.delay);
        let user = state.user.as_deref().map(str::to_owned);
        let queue = state.acknowledged.as_mut()?;
        let sent = queue.last_sent();
        let kept = queue.kept.as_mut()?;
        let will = kept.will.as_ref().zip(delay);
        let row = SessionRow {
            number: kept.number,
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
        kept.push_row(row);
        let submitted = kept.submit(store)?;
        if let Err(error) = &submitted {
            // The store logs why it fails, once a second.
            tracing::debug!(target: "broker", client = self.client_id(), %error,
                "a session could not be stored");
        }
        Some(submitted)
    }

    /// Hands the collected changes to the store. `None` where there are none.
    pub(crate) fn submit(&self, store: &Store) -> Option<Result<Ticket, StoreError>> {
        self.state.lock().submit(store)
    }

    /// A publisher has submitted its changes: what it brought may be sent, as far as it need not
    /// wait for the commit.
    pub(crate) fn go_on(&self, broker: BrokerView<'_>, store: Option<&Store>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.pump(state, broker);
        if let Some(store) = store
            && let Some(kept) = state.kept_mut()
            && !kept.changes.is_empty()
        {
            // What is refused is submitted again with the session's next changes.
            let _ = kept.submit(store);
        }
        state.dirty |= !state.outbox.is_empty();
        self.flush_locked(state, broker);
    }

    /// Sends what was held back until its commit.
    pub(super) fn poll_awaited(
        &self,
        state: &mut State,
        context: &mut Context<'_>,
        broker: BrokerView<'_>,
    ) {
        while let Some(kept) = state.kept_mut()
            && let Some(awaited) = &mut kept.awaited
        {
            if awaited.as_mut().poll(context).is_pending() {
                return;
            }
            kept.awaited = None;
            self.pump(state, broker);
            state.dirty |= !state.outbox.is_empty();
            self.flush_locked(state, broker);
        }
    }

    pub(crate) fn keep_subscription(&self, filter: &TopicFilter, options: SubscribeOptions) {
        if let Some(kept) = self.state.lock().kept_mut() {
            let row = SubscriptionRow {
                session: kept.number,
                filter: filter.clone(),
                qos: options.qos,
                no_local: options.no_local,
                retain_as_published: options.retain_as_published,
                identifier: options.identifier.map(std::num::NonZeroU32::get),
            };
            kept.push(SessionChange::Subscribe(Box::new(row)));
        }
    }

    pub(crate) fn forget_subscription(&self, filter: &TopicFilter) {
        if let Some(kept) = self.state.lock().kept_mut() {
            let session = kept.number;
            let filter = filter.clone();
            kept.push(SessionChange::Unsubscribe { session, filter });
        }
    }

    /// Notes that an exactly-once publication was received; its row goes with the publication's,
    /// and so does its fate.
    pub(crate) fn receive(&self, packet_id: NonZeroU16, batch: &mut ChangeBatch) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.publish(packet_id, batch.commit());
        if let Some(kept) = &queue.kept {
            batch.changes.push(Change::Session(SessionChange::Receive {
                session: kept.number,
                packet: packet_id.get(),
            }));
        }
    }

    /// Notes that an exactly-once publication waits for a verdict.
    pub(crate) fn begin_judging(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.begin_judging(packet_id);
    }

    /// Takes back an identifier that an earlier run of the server stored.
    pub(crate) fn restore_received(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.insert(packet_id);
    }

    /// What is known of a publication of this identifier.
    pub(crate) fn receipt(&self, packet_id: NonZeroU16) -> Receipt {
        let mut state = self.state.lock();
        let queue = state.acknowledged.as_mut();
        queue.map_or(Receipt::Unknown, |queue| queue.received.receipt(packet_id))
    }

    /// Notes that a judged publication was received, and writes its row.
    pub(crate) fn keep_received(&self, packet_id: NonZeroU16) {
        let mut state = self.state.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.received.insert(packet_id);
        if let Some(kept) = &mut queue.kept {
            let (session, packet) = (kept.number, packet_id.get());
            kept.push(SessionChange::Receive { session, packet });
        }
    }

    /// The client released the identifier; returns whether it was in use.
    pub(crate) fn unreceive(&self, packet_id: NonZeroU16) -> bool {
        let mut state = self.state.lock();
        let Some(queue) = &mut state.acknowledged else {
            return false;
        };
        let was_known = queue.received.release(packet_id);
        if was_known && let Some(kept) = &mut queue.kept {
            let (session, packet) = (kept.number, packet_id.get());
            kept.push(SessionChange::Unreceive { session, packet });
        }
        was_known
    }
}

impl State {
    pub(crate) fn kept_mut(&mut self) -> Option<&mut PersistentSession> {
        self.acknowledged.as_mut()?.kept.as_deref_mut()
    }

    pub(crate) fn is_kept(&self) -> bool {
        let queue = self.acknowledged.as_ref();
        queue.is_some_and(|queue| queue.kept.is_some())
    }

    /// When the session began to wait for its client.
    fn connection_ended(&self) -> SystemTime {
        let now = SystemTime::now();
        let left = |expires: Instant| expires.saturating_duration_since(Instant::now());
        let age = |expires| self.expiry.saturating_sub(left(expires));
        let ended = self
            .expires
            .and_then(|expires| now.checked_sub(age(expires)));
        ended.unwrap_or(now)
    }

    /// Makes the session one that is stored.
    pub(crate) fn begin_keeping(&mut self, number: u64) -> &mut Acknowledged {
        let queue = self.acknowledged.get_or_insert_default();
        queue
            .kept
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
    pub(crate) fn keep_will(&mut self) {
        let publication = self
            .will
            .as_deref()
            .map(|will| Arc::new(will.publication.clone()));
        let Some(kept) = self.kept_mut() else {
            return;
        };
        if let Some(earlier) = kept.will.take() {
            earlier.let_go(&mut kept.changes);
        }
        if let Some(publication) = publication {
            kept.will = Some(StoredMessage::new(&publication, &mut kept.changes));
        }
    }

    /// Takes the will out, to be published or forgotten; the changes go with its publication.
    pub(crate) fn take_will(&mut self, changes: &mut Vec<Change>) -> Option<Publication> {
        let will = self.will.take()?;
        self.will_due = None;
        if let Some(kept) = self.kept_mut()
            && let Some(stored) = kept.will.take()
        {
            stored.let_go(changes);
        }
        let publication = will.publication;
        let may_publish = self.authorization.as_ref().is_none_or(|authorization| {
            authorization.may_publish(publication.topic.as_str(), publication.retain)
        });
        if !may_publish {
            tracing::info!(target: "broker", topic = publication.topic.as_str(),
                "a will is not published: its client is no longer allowed to");
        }
        may_publish.then_some(publication)
    }

    pub(crate) fn submit(&mut self, store: &Store) -> Option<Result<Ticket, StoreError>> {
        self.kept_mut()?.submit(store)
    }

    /// Submits what a retained message brought, behind the session's own changes.
    pub(crate) fn submit_with(&mut self, batch: &mut ChangeBatch, store: &Store) {
        let Some(kept) = self.kept_mut() else {
            return;
        };
        let _ = kept.submit(store);
        let ticket = store.submit_after(&mut batch.changes, kept.last_ticket());
        if ticket.is_err() {
            batch.changes.clear();
        }
        batch.was_submitted(Some(&ticket));
        kept.changes.append(&mut batch.changes);
    }
}
