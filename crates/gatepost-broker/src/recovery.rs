//! Recovery of the sessions of an earlier run of the server.
//!
//! The rows read are those that were committed, at any moment at which that run may have ended.
//! Rows that contradict each other can only result from damage, and are logged. Queues that do not
//! fit into the memory stay [on disk](crate::sessions_on_disk).

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_message::Publication;
use gatepost_store::{
    DeliveryRow, SessionChange, SessionRow, Store, StoreChange, StoreError, SubscriptionRow,
};

use crate::acknowledged::Delivery;
use crate::authorization::OwnerRights;
use crate::filter::{RequestedFilter, RetainHandling, SubscribeOptions};
use crate::persistence::StoredMessage;
use crate::session::{Session, SessionWill};
use crate::session_table::SessionTable;
use crate::sessions_on_disk::{SessionOnDisk, memory_bytes};
use crate::shared::BrokerShared;
use crate::subscription::{GroupMember, Subscription};
use crate::weight::content_bytes;

/// Changes that are submitted together while a start cleans up.
const CHANGES_MAX: usize = 10_000;
/// Bytes of the history that a start reads between two checks of the memory in use.
const RECENT_STEP_BYTES: usize = 1 << 20;

struct StoredPublication {
    publication: Arc<Publication>,
    stored: Arc<StoredMessage>,
}

struct SessionRecovery<'a> {
    table: &'a SessionTable,
    rights: Option<&'a dyn OwnerRights>,
    store: &'a Store,
    now: SystemTime,
    messages: BTreeMap<u64, StoredPublication>,
    sessions: BTreeMap<u64, (Arc<Session>, SessionRow)>,
    changes: Vec<StoreChange>,
    /// Sessions that expired while the server was down, or whose end was not stored.
    over: Vec<Arc<Session>>,
    deliveries: usize,
    /// Deliveries whose message or session is missing.
    incomplete: usize,
    /// Whether all queues fit into the memory.
    fits: bool,
}

/// Fills the table of sessions and the index from the store.
pub(crate) fn restore_sessions(
    table: &SessionTable,
    rights: Option<&dyn OwnerRights>,
) -> Result<(), StoreError> {
    let Some(store) = &table.shared().store else {
        return Ok(());
    };
    let mut recovery = SessionRecovery {
        table,
        rights,
        store,
        now: store.time_for_ages(),
        messages: BTreeMap::new(),
        sessions: BTreeMap::new(),
        changes: Vec::new(),
        over: Vec::new(),
        deliveries: 0,
        incomplete: 0,
        fits: true,
    };
    recovery.read()?;
    recovery.finish();
    Ok(())
}

impl SessionRecovery<'_> {
    fn read(&mut self) -> Result<(), StoreError> {
        let store = self.store;
        let needed = memory_bytes(&store.queues_size()?);
        self.fits = needed <= self.table.shared().memory.free_bytes();
        if self.fits {
            store.each_message(|found| self.message(found))?;
        } else {
            store.each_will_message(|found| self.message(found))?;
        }
        store.each_session(|row| self.session(row))?;
        store.each_subscription(|row| self.subscription(&row))?;
        store.each_received(|(session, packet)| self.received(session, packet))?;
        if self.fits {
            return store.each_delivery(|row| self.delivery(&row));
        }
        self.leave_on_disk()
    }

    fn message(&mut self, (number, publication): (u64, Publication)) {
        let message = StoredPublication {
            publication: Arc::new(publication),
            stored: StoredMessage::found(number),
        };
        self.messages.insert(number, message);
    }

    /// Leaves all queues on disk, then loads as many as fit.
    fn leave_on_disk(&mut self) -> Result<(), StoreError> {
        let mut left = Vec::new();
        for (number, size) in self.store.queue_sizes()? {
            if let Some((session, row)) = self.sessions.remove(&number) {
                left.push(SessionOnDisk {
                    session,
                    row,
                    memory_bytes: memory_bytes(&size),
                });
            }
        }
        let shared = self.table.shared();
        let now = shared.clock.now();
        shared.on_disk.leave(left);
        while shared
            .on_disk
            .load_next(self.store, shared.memory.free_bytes(), now)?
        {}
        shared.on_disk.report_waiting(shared.memory.max_bytes());
        Ok(())
    }

    fn change(&mut self, change: SessionChange) {
        self.changes.push(StoreChange::Session(change));
        if self.changes.len() >= CHANGES_MAX {
            self.submit();
        }
    }

    fn submit(&mut self) {
        // Changes that cannot be written now are found again at the next start.
        let _ = self.store.submit_all(&mut self.changes);
        self.changes.clear();
    }

    fn session(&mut self, row: SessionRow) {
        let ended = row.ended.unwrap_or(self.now);
        let age = self.now.duration_since(ended).unwrap_or_default();
        let session = Arc::new(self.restored(&row, age));
        if age >= row.expiry {
            self.over.push(session);
            return;
        }
        // Sorted by number: of two sessions of the same client the later one counts, since the end
        // of the earlier one was not stored.
        if let Some(earlier) = self.table.restore(session.clone()) {
            let number = earlier
                .lock()
                .persistent_mut()
                .map(|persistent| persistent.number);
            self.sessions.retain(|found, _| Some(*found) != number);
            self.over.push(earlier);
        }
        self.sessions.insert(row.number, (session, row));
    }

    /// The session of this row, whose connection ended this long ago.
    fn restored(&self, row: &SessionRow, age: Duration) -> Session {
        let session = Session::new(Arc::from(row.client.as_str()), row.kind.clone().into());
        let clock = &self.table.shared().clock;
        let mut state = session.lock();
        state.user = row.user.as_deref().map(Arc::from);
        state.policy = self.table.shared().policy(row.user.as_deref(), None);
        state.expiry = row.expiry;
        state.expires = clock.now().checked_add(row.expiry.saturating_sub(age));
        let queue = state.make_persistent(row.number);
        if let Some(will) = row.will
            && let Some(message) = self.messages.get(&will.message)
        {
            message.stored.add_reference();
            if let Some(persistent) = &mut queue.persistent {
                persistent.will = Some(message.stored.clone());
            }
            // The client's login is no longer known.
            let rights = self.rights;
            state.authorization =
                rights.map(|rights| rights.of_owner(row.user.as_deref(), &row.client));
            let publication = Publication::clone(&message.publication);
            let delay = will.delay;
            state.will = Some(Box::new(SessionWill { publication, delay }));
            let due = delay.min(row.expiry).saturating_sub(age);
            state.will_due = Some(clock.now() + due.min(Duration::from_secs(u32::MAX.into())));
        }
        drop(state);
        session
    }

    fn subscription(&mut self, row: &SubscriptionRow) {
        let Some((session, _)) = self.sessions.get(&row.session) else {
            return;
        };
        let Ok(requested) = RequestedFilter::new(row.filter.as_str()) else {
            return;
        };
        let options = SubscribeOptions {
            qos: row.qos,
            no_local: row.no_local,
            retain_as_published: row.retain_as_published,
            retain_handling: RetainHandling::DoNotSend,
            identifier: row.identifier.and_then(NonZeroU32::new),
        };
        // Acknowledged subscriptions are kept, even if the limits are lower by now.
        let mut filters = session.filters.lock();
        filters.insert(&requested.text, usize::MAX, usize::MAX);
        drop(filters);
        let member = GroupMember::new(session.clone(), options);
        let index = &self.table.shared().index;
        match &requested.share {
            Some(share) => {
                index.join(&share.filter, &share.name, member);
            }
            None => index.insert(&requested.text, Subscription::Session(member)),
        }
    }

    fn delivery(&mut self, row: &DeliveryRow) {
        let session = self.sessions.get(&row.session);
        let message = self.messages.get(&row.message);
        let (Some((session, session_row)), Some(message)) = (session, message) else {
            self.incomplete += usize::from(session.is_some());
            let (session, sequence) = (row.session, row.sequence);
            self.change(SessionChange::Dequeue { session, sequence });
            return;
        };
        message.stored.add_reference();
        let (publication, stored) = (message.publication.clone(), message.stored.clone());
        let delivery = Delivery::found(row, publication, stored);
        let sent = session_row.sent.unwrap_or(u64::MAX);
        let mut state = session.lock();
        let queue = state.acknowledged.get_or_insert_default();
        queue.take_back(delivery, row.released, sent);
        self.deliveries += 1;
    }

    fn received(&mut self, session: u64, packet: u16) {
        if let Some((session, _)) = self.sessions.get(&session)
            && let Some(packet_id) = NonZeroU16::new(packet)
        {
            session.restore_received(packet_id);
        }
    }

    fn finish(mut self) {
        let now = self.table.shared().clock.now();
        // First, so that the message of a will is removed together with its publication: a crash in
        // between must neither lose it nor publish it twice. Where queues stay on disk, these are
        // messages of wills only, which no delivery refers to.
        for message in std::mem::take(&mut self.messages).into_values() {
            message.stored.release_reference(&mut self.changes);
            if self.changes.len() >= CHANGES_MAX {
                self.submit();
            }
        }
        self.submit();
        let ended = self
            .over
            .iter()
            .map(|session| self.table.end_session(session));
        let mut all_effects: Vec<_> = ended.collect();
        // This happens before a client reconnects: a will without delay is due in any case, even if
        // the session's queue is on disk.
        let mut restored = self.table.all();
        restored.sort_unstable_by_key(|session| session.ordinal);
        for session in restored {
            all_effects.extend(session.due_will(&mut session.lock(), now));
        }
        let _ = self.table.settle(all_effects);
        for (session, row) in self.sessions.values() {
            if row.ended.is_none() {
                // Its connection ended with the server: from now on it waits for its client.
                // No client waits for this commit.
                let _ = session.store_row(&mut session.lock(), self.store, now);
            }
        }
        if self.incomplete > 0 {
            tracing::warn!(target: "broker", deliveries = self.incomplete,
                "deliveries whose message is damaged were dropped");
        }
        if !self.sessions.is_empty() {
            tracing::info!(target: "broker", sessions = self.sessions.len(),
                deliveries = self.deliveries, "stored sessions are restored");
        }
    }
}

/// Restores the latest messages of topics, as far as they fit into the memory. Runs after the
/// sessions are restored, since their clients wait for the queues.
pub(crate) fn restore_recent(shared: &BrokerShared, store: &Store) -> Result<(), StoreError> {
    let per_topic = shared.topic_rules.history_messages_max();
    let per_topic = per_topic.max(shared.settings.recent_per_topic);
    let total = per_topic.saturating_mul(shared.settings.recent_topics_max);
    let mut left_out = 0_u64;
    let mut fits = shared.has_room_for_recent();
    let mut unchecked = 0;
    store.each_of_history(per_topic, total.min(100_000), |position, publication| {
        unchecked += content_bytes(&publication);
        if unchecked > RECENT_STEP_BYTES {
            unchecked = 0;
            fits = fits && shared.has_room_for_recent();
        }
        if fits {
            shared.recent.restore(position, publication);
        } else {
            left_out += 1;
        }
    })?;
    if left_out > 0 {
        tracing::warn!(target: "broker", messages = left_out,
            "there is no memory (broker.memory_max) for some of the latest messages of topics: \
             they are in the history only");
    }
    Ok(())
}
