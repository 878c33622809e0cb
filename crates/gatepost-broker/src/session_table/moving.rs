//! Sessions that leave for another server, and sessions that come from one.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gatepost_message::TopicFilter;
use gatepost_store::{
    DeliveryRow, SessionChange, StoreChange, StoreError, SubscriptionRow, Ticket,
};

use super::SessionTable;
use crate::acknowledged::{AcknowledgedDeliveries, Delivery, DeliveryPhase};
use crate::counters::DropCause;
use crate::filter::{RequestedFilter, RetainHandling, SubscribeOptions};
use crate::missed::MissedPublications;
use crate::moved_session::{
    MovedDelivery, MovedSession, SessionAbsence, SessionAdoption, SessionRelease,
};
use crate::persistence::{Audience, ChangeBatch, CommitStatus};
use crate::session::{DeferredEffects, Session, SessionState};
use crate::session_name::SessionName;
use crate::subscription::{GroupMember, Subscription};

impl SessionTable {
    /// Whether a persistent session of this name is here and has not expired.
    pub(crate) fn has_persistent(&self, name: &SessionName) -> bool {
        let found = self.by_key.lock().get(name).cloned();
        found.is_some_and(|session| {
            let state = session.lock();
            state.is_persistent() && !state.has_expired(self.shared.clock.now())
        })
    }

    /// See [`Broker::release_session`](crate::Broker::release_session).
    pub(crate) fn release(
        &self,
        name: &SessionName,
        keep: impl FnOnce(&MovedSession) -> Vec<StoreChange>,
    ) -> SessionRelease {
        let mut sessions = self.by_key.lock();
        let Some(session) = sessions.get(name).cloned() else {
            return SessionRelease::Absent;
        };
        let mut all_effects = Vec::new();
        all_effects.extend(self.end_connection(&session, &mut session.lock()));
        // A task of an earlier connection may still be storing what its client has sent.
        let content = if session.is_on_disk() || session.attachments.load(Ordering::Acquire) > 0 {
            Content::Busy
        } else {
            let subscriptions = self.subscription_rows(&session);
            self.content(&session, &mut session.lock(), subscriptions)
        };
        let moved = match content {
            Content::Busy => {
                drop(sessions);
                let _ = self.settle(all_effects);
                return SessionRelease::Busy;
            }
            Content::None => None,
            Content::Some(moved) => Some(moved),
        };
        sessions.remove(name);
        let mut effects = DeferredEffects::of(&session);
        if moved.is_some() {
            // Its client has connected again, so a delayed will is not published.
            session.lock().take_will(&mut effects.changes);
        }
        let mut ended = self.end_session(&session);
        effects.changes.append(&mut ended.changes);
        effects.will = ended.will;
        effects.follows_failed = ended.follows_failed;
        if let Some(moved) = &moved {
            effects.changes.extend(keep(moved));
        }
        all_effects.push(effects);
        drop(sessions);
        let settled = self.settle(all_effects);
        match (moved, settled) {
            (Some(_), Some(ticket)) => SessionRelease::Released(ticket),
            _ => SessionRelease::Absent,
        }
    }

    /// Ends the present connection of a session, whose client has connected to another server.
    fn end_connection(
        &self,
        session: &Arc<Session>,
        state: &mut SessionState,
    ) -> Option<DeferredEffects> {
        state.link.as_ref()?;
        let effects = self.take_over(session, state);
        state.expires = self.shared.clock.now().checked_add(state.expiry);
        effects
    }

    /// The content of a session without a connection.
    fn content(
        &self,
        session: &Session,
        state: &mut SessionState,
        mut subscriptions: Vec<SubscriptionRow>,
    ) -> Content {
        if !state.is_persistent()
            || state.expiry.is_zero()
            || state.has_expired(self.shared.clock.now())
        {
            return Content::None;
        }
        let (name, expiry) = (session.name_of(state), state.expiry);
        let Some(queue) = &mut state.acknowledged else {
            return Content::None;
        };
        let Some(received) = queue.received.settled() else {
            return Content::Busy;
        };
        let Some(number) = queue
            .persistent
            .as_ref()
            .map(|persistent| persistent.number)
        else {
            return Content::None;
        };
        for row in &mut subscriptions {
            row.session = number;
        }
        Content::Some(MovedSession {
            number,
            name,
            kind: session.kind.to_string(),
            expiry,
            sent: queue.last_sent(),
            subscriptions,
            received,
            deliveries: deliveries(queue, number),
        })
    }

    /// The subscriptions of a session, without its number.
    fn subscription_rows(&self, session: &Arc<Session>) -> Vec<SubscriptionRow> {
        let filters: Vec<TopicFilter> = session.filters.lock().iter().cloned().collect();
        let row = |filter: TopicFilter| {
            let member = self.shared.index.subscription_of(session, &filter)?;
            Some(SubscriptionRow {
                session: 0,
                filter,
                qos: member.qos,
                no_local: member.no_local,
                retain_as_published: member.retain_as_published,
                identifier: member.identifier.map(NonZeroU32::get),
            })
        };
        filters.into_iter().filter_map(row).collect()
    }

    /// See [`Broker::adopt_session`](crate::Broker::adopt_session).
    pub(crate) fn adopt(&self, adoption: SessionAdoption) -> Result<Ticket, StoreError> {
        let Some(store) = &self.shared.store else {
            return Err(StoreError::Closed);
        };
        let SessionAdoption {
            session: moved,
            missed,
            changes,
            absence,
        } = adoption;
        let _repeating = self.repeating.lock();
        // If the session ended here before, its end is stored first.
        let ended_before = self.settle_for_client(&moved.name.client_id, Vec::new());
        let ended_before = ended_before.transpose()?;
        let session = Arc::new(self.adopted(&moved));
        let mut batch = ChangeBatch::default();
        batch.changes = changes;
        batch.audience = Audience::Persistent;
        fill(&session, &moved, &mut batch);
        if let Some(absence) = absence {
            self.await_client(&session, absence, &mut batch);
        }
        let requested = requested_filters(&moved);
        self.deliver_missed(&session, missed, &mut batch);
        let earlier = self.by_key.lock().insert(moved.name, session.clone());
        let mut ended = Vec::new();
        // Not persistent, or this server would have had no reason to claim the session.
        ended.extend(earlier.map(|earlier| self.end_session(&earlier)));
        let _ = self.settle(ended);
        self.subscribe_adopted(&session, &requested);
        let now = self.shared.clock.now();
        let mut state = session.lock();
        session.collect_row(&mut state, store, now);
        let Some(persistent) = state.persistent_mut() else {
            return Err(StoreError::Closed);
        };
        let mut all = std::mem::take(&mut persistent.changes);
        all.append(&mut batch.changes);
        let ticket = store.submit_after(&mut all, ended_before.as_ref());
        batch.was_submitted(Some(&ticket), Some(&ticket));
        // Messages that nothing refers to, as their deliveries were dropped.
        persistent.changes.append(&mut batch.changes);
        ticket
    }

    /// See [`Broker::missed_by`](crate::Broker::missed_by).
    pub(crate) fn missed_by(&self, moved: &MovedSession) -> MissedPublications {
        let policy = self.shared.policy(moved.name.user.as_deref(), None);
        let requested = requested_filters(moved);
        MissedPublications::new(requested, moved.number, policy, &self.shared.settings)
    }

    fn deliver_missed(
        &self,
        session: &Session,
        missed: MissedPublications,
        batch: &mut ChangeBatch,
    ) {
        let view = self.shared.view();
        for one in &missed.kept {
            let retain = one.publication.retain && one.options.retain_as_published;
            session.deliver(&one.publication, &one.options, retain, batch, view);
        }
        session.count_drop(view, DropCause::QueueFull, missed.dropped);
        session.count_drop(view, DropCause::Superseded, missed.superseded);
    }

    /// The session without its queue, which waits for its client.
    fn adopted(&self, moved: &MovedSession) -> Session {
        let session = Session::new(moved.name.client_id.clone(), moved.kind.clone().into());
        let mut state = session.lock();
        state.policy = self.shared.policy(moved.name.user.as_deref(), None);
        state.user.clone_from(&moved.name.user);
        state.expiry = moved.expiry;
        state.expires = self.shared.clock.now().checked_add(moved.expiry);
        state.make_persistent(moved.number);
        drop(state);
        session
    }

    /// Lets the session wait for its client, from the end of the client's connection on.
    fn await_client(&self, session: &Session, absence: SessionAbsence, batch: &mut ChangeBatch) {
        let now = self.shared.clock.now();
        let age = absence.ended.and_then(|ended| {
            let time = self.shared.store.as_ref()?.time_for_ages();
            time.duration_since(ended).ok()
        });
        let age = age.unwrap_or_default();
        let mut state = session.lock();
        state.expires = now.checked_add(state.expiry.saturating_sub(age));
        state.authorization = Some(absence.authorization);
        let Some(will) = absence.will else {
            return;
        };
        let stored = batch.stored(&Arc::new(will.publication.clone()));
        stored.add_reference();
        let due = will.delay.min(state.expiry).saturating_sub(age);
        state.will_due = Some(now + due.min(Duration::from_secs(u32::MAX.into())));
        state.will = Some(Box::new(will));
        if let Some(persistent) = state.persistent_mut() {
            persistent.will = Some(stored);
        }
    }

    fn subscribe_adopted(
        &self,
        session: &Arc<Session>,
        requested: &[(RequestedFilter, SubscribeOptions)],
    ) {
        for (requested, options) in requested {
            // Acknowledged subscriptions are kept, even if this server's limits are lower.
            let mut filters = session.filters.lock();
            filters.insert(&requested.text, usize::MAX, usize::MAX);
            drop(filters);
            let member = GroupMember::new(session.clone(), *options);
            let index = &self.shared.index;
            match &requested.share {
                Some(share) => {
                    index.join(&share.filter, &share.name, member);
                }
                None => index.insert(&requested.text, Subscription::Session(member)),
            }
        }
    }

    /// See [`Broker::replace_session`](crate::Broker::replace_session).
    pub(crate) fn replace(&self, name: &SessionName) {
        let removed = self.by_key.lock().remove(name);
        let ended = removed.map(|session| self.end_session(&session));
        let _ = self.settle(ended.into_iter().collect());
    }

    /// Ends an adopted session that could not be stored.
    pub(crate) fn disown(&self, name: &SessionName) {
        let removed = self.by_key.lock().remove(name);
        let ended = removed.map(|session| {
            let mut ended = self.end_session(&session);
            ended.will = None;
            ended
        });
        let _ = self.settle(ended.into_iter().collect());
    }
}

/// The content that a session has to transfer.
enum Content {
    /// Nothing: it ends.
    None,
    Busy,
    Some(MovedSession),
}

/// The deliveries of a queue, in their order, except those whose publication was not stored: their
/// publishers repeat them.
fn deliveries(queue: &AcknowledgedDeliveries, session: u64) -> Vec<MovedDelivery> {
    let in_flight = queue.in_flight.iter();
    let in_flight =
        in_flight.map(|flight| (&flight.delivery, flight.phase == DeliveryPhase::Released));
    let waiting = queue.waiting.iter().map(|delivery| (delivery, false));
    let mut all: Vec<MovedDelivery> = in_flight
        .chain(waiting)
        .filter(|(delivery, _)| !matches!(delivery.commit_status(), CommitStatus::Failed))
        .map(|(delivery, released)| MovedDelivery {
            row: DeliveryRow {
                session,
                sequence: delivery.sequence,
                message: delivery.publication.id.number(),
                qos: delivery.qos,
                retain: delivery.retain,
                released,
                identifiers: delivery.identifiers.to_vec(),
            },
            publication: delivery.publication.clone(),
        })
        .collect();
    all.sort_by_key(|delivery| delivery.row.sequence);
    all
}

/// Fills an adopted session, and adds the rows of its content.
fn fill(session: &Session, moved: &MovedSession, batch: &mut ChangeBatch) {
    let mut rows = Vec::new();
    for row in &moved.subscriptions {
        rows.push(SessionChange::Subscribe(Box::new(row.clone())));
    }
    for &packet in &moved.received {
        let session = moved.number;
        rows.push(SessionChange::Receive { session, packet });
    }
    batch
        .changes
        .extend(rows.into_iter().map(StoreChange::Session));
    let mut state = session.lock();
    let queue = state.acknowledged.get_or_insert_default();
    for packet_id in moved.received.iter().copied().filter_map(NonZeroU16::new) {
        queue.received.insert(packet_id);
    }
    for delivery in &moved.deliveries {
        let stored = batch.stored(&delivery.publication);
        stored.add_reference();
        let row = DeliveryRow {
            message: stored.number,
            ..delivery.row.clone()
        };
        let restored = Delivery::found(&row, delivery.publication.clone(), stored);
        queue.take_back(restored, row.released, moved.sent);
        let change = SessionChange::Enqueue(Box::new(row));
        batch.changes.push(StoreChange::Session(change));
    }
}

fn requested_filters(moved: &MovedSession) -> Vec<(RequestedFilter, SubscribeOptions)> {
    let options = |row: &SubscriptionRow| SubscribeOptions {
        qos: row.qos,
        no_local: row.no_local,
        retain_as_published: row.retain_as_published,
        retain_handling: RetainHandling::DoNotSend,
        identifier: row.identifier.and_then(NonZeroU32::new),
    };
    let requested = moved.subscriptions.iter();
    requested
        .filter_map(|row| {
            let requested = RequestedFilter::new(row.filter.as_str()).ok()?;
            Some((requested, options(row)))
        })
        .collect()
}
