//! Sessions whose queue does not fit into memory and remains on disk.
//!
//! A start that would need more memory than `broker.memory_max` leaves the largest queues of
//! sessions in the store. Until its queue is loaded, such a session is inactive: its client is
//! refused (CONNACK 0x97), and so is every publication at QoS 1 or 2 for the session, so that it
//! misses no acknowledged message and keeps their order. The housekeeper loads one queue after the
//! other, the smallest first, as soon as memory is free.
//!
//! While messages are only partly loaded, references to them cannot be counted: messages from
//! before this start remain on disk until the next start, which removes those that no session
//! needs. The message of a will is referred to by that will alone, and is removed as always.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gatepost_message::Publication;
use gatepost_settings::ByteSize;
use gatepost_store::{DeliveryRow, QueueSize, SessionChange, SessionRow, Store, StoreError};
use parking_lot::Mutex;

use crate::acknowledged::Delivery;
use crate::persistence::StoredMessage;
use crate::session::Session;

/// Memory of a message and a delivery besides the topic and the payload.
const MESSAGE_BYTES: u64 = 400;
const DELIVERY_BYTES: u64 = 150;

/// The memory that a queue, or all of them, will take.
pub(crate) const fn memory_bytes(size: &QueueSize) -> u64 {
    size.bytes + size.messages * MESSAGE_BYTES + size.deliveries * DELIVERY_BYTES
}

/// One session, as it was read.
pub(crate) struct SessionOnDisk {
    pub(crate) session: Arc<Session>,
    pub(crate) row: SessionRow,
    /// The memory that its queue will take.
    pub(crate) memory_bytes: u64,
}

/// The sessions that wait for memory.
#[derive(Default)]
pub(crate) struct SessionsOnDisk {
    /// The waiting sessions, the smallest last.
    waiting: Mutex<Vec<SessionOnDisk>>,
    count: AtomicUsize,
}

impl SessionsOnDisk {
    /// Leaves these queues in the store.
    pub(crate) fn leave(&self, mut sessions: Vec<SessionOnDisk>) {
        sessions.sort_by_key(|session| std::cmp::Reverse(session.memory_bytes));
        for waiting in &sessions {
            waiting.session.set_on_disk(true);
        }
        self.count.store(sessions.len(), Ordering::Release);
        *self.waiting.lock() = sessions;
    }

    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Loads the smallest queue, if `room` bytes of memory are enough for it; returns whether it
    /// was loaded.
    pub(crate) fn load_next(
        &self,
        store: &Store,
        room: u64,
        now: Instant,
    ) -> Result<bool, StoreError> {
        let mut waiting = self.waiting.lock();
        // A session that has ended meanwhile has no queue.
        while waiting
            .pop_if(|next| next.session.lock().has_ended)
            .is_some()
        {}
        self.count.store(waiting.len(), Ordering::Release);
        let Some(next) = waiting.pop_if(|next| next.memory_bytes <= room) else {
            return Ok(false);
        };
        if let Err(error) = load(store, &next) {
            waiting.push(next);
            return Err(error);
        }
        next.session.set_on_disk(false);
        self.count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        if next.row.ended.is_none() {
            // Its connection ended with the server: from now on it waits for its client.
            let _ = next.session.store_row(&mut next.session.lock(), store, now);
        }
        tracing::info!(target: "broker", client = next.session.client_id(),
            bytes = next.memory_bytes, "a session's queue was loaded");
        Ok(true)
    }

    /// Reports the queues that still wait.
    pub(crate) fn report_waiting(&self, memory_max: usize) {
        let waiting = self.waiting.lock();
        let Some(largest) = waiting.first() else {
            return;
        };
        let all: u64 = waiting.iter().map(|session| session.memory_bytes).sum();
        tracing::error!(target: "broker", sessions = waiting.len(),
            largest = largest.session.client_id(),
            "the queues of some sessions do not fit into the memory and stay on disk: they need \
             {}, the largest {}, and broker.memory_max allows {} in all. Their clients, and \
             publications for them, are refused until there is room",
            megabytes(all), megabytes(largest.memory_bytes), megabytes(memory_max as u64));
    }
}

/// Rounded, for people.
const fn megabytes(bytes: u64) -> ByteSize {
    ByteSize::megabytes(bytes.div_ceil(1_000_000))
}

/// Reads one queue; a failure changes nothing.
fn load(store: &Store, waiting: &SessionOnDisk) -> Result<(), StoreError> {
    let number = waiting.row.number;
    let mut messages: HashMap<u64, (Arc<Publication>, Arc<StoredMessage>)> = HashMap::new();
    store.each_message_of(number, |(message, publication)| {
        let stored = StoredMessage::found(message);
        messages.insert(message, (Arc::new(publication), stored));
    })?;
    let mut rows: Vec<DeliveryRow> = Vec::new();
    store.each_delivery_of(number, |row| rows.push(row))?;
    let sent = waiting.row.sent.unwrap_or(u64::MAX);
    let mut state = waiting.session.lock();
    let queue = state.acknowledged.get_or_insert_default();
    let mut incomplete = Vec::new();
    for row in rows {
        match messages.get(&row.message) {
            Some((publication, stored)) => {
                stored.add_reference();
                let delivery = Delivery::found(&row, publication.clone(), stored.clone());
                queue.take_back(delivery, row.released, sent);
            }
            None => incomplete.push(row.sequence),
        }
    }
    let Some(persistent) = state.persistent_mut().filter(|_| !incomplete.is_empty()) else {
        return Ok(());
    };
    tracing::warn!(target: "broker", deliveries = incomplete.len(),
        "deliveries whose message is damaged were dropped");
    for sequence in incomplete {
        let session = number;
        persistent.push(SessionChange::Dequeue { session, sequence });
    }
    // This happens before a later delivery can take the same number.
    persistent
        .submit(store)
        .map_or(Ok(()), |submitted| submitted.map(drop))
}
