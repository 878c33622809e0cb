//! The messages that wait, and the changes of them whose commits are not known yet.
//!
//! Invariants: memory changes when a change is submitted, and is as before once the change could
//! not be stored. Each change may only be stored after the earlier ones, so that those that fail
//! are the last ones.

use std::collections::VecDeque;

use gatepost_message::Publication;
use gatepost_store::{Store, StoreChange, StoreError, Ticket};

use super::DelayedSettings;
use super::stored;
use super::waiting::{DuePosition, WaitingMessage, WaitingMessages};

/// A change that was submitted.
struct PendingChange {
    ticket: Ticket,
    added: Option<DuePosition>,
    removed: Option<(DuePosition, WaitingMessage)>,
}

pub(super) struct DelayedState {
    pub(super) waiting: WaitingMessages,
    /// The changes whose commits were not known at the last call of [`DelayedState::settle`], in
    /// the order of their submission. The store bounds them (`store.waiting_max`).
    pending: VecDeque<PendingChange>,
}

impl DelayedState {
    pub(super) const fn new(waiting: WaitingMessages) -> Self {
        Self {
            waiting,
            pending: VecDeque::new(),
        }
    }

    /// Undoes the changes that could not be stored.
    pub(super) fn settle(&mut self, store: &Store) {
        while let Some(outcome) = self
            .pending
            .front()
            .and_then(|first| first.ticket.outcome())
        {
            if outcome.is_ok() {
                self.pending.pop_front();
                continue;
            }
            // Those that follow fail with it. The last one is undone first.
            while let Some(failed) = self.pending.pop_back() {
                if let Some(place) = failed.added {
                    self.waiting.remove(place);
                }
                if let Some((place, message)) = failed.removed {
                    self.put_back(store, place, message);
                }
            }
        }
    }

    /// Whether the limits permit this message, in place of the one that it replaces.
    pub(super) fn has_room(&self, message: &WaitingMessage, settings: &DelayedSettings) -> bool {
        let waiting = &self.waiting;
        let replaced = waiting.place_of(&message.topic, &message.name);
        let replaced = replaced.and_then(|place| waiting.get(place));
        let count = waiting.count() - usize::from(replaced.is_some());
        let bytes = waiting.bytes() - replaced.map_or(0, |replaced| replaced.bytes);
        count < settings.messages_max && bytes + message.bytes <= settings.bytes_max.as_usize()
    }

    /// Submits a message, in place of the one of the same name, and keeps it in memory.
    pub(super) fn keep(
        &mut self,
        store: &Store,
        place: DuePosition,
        message: WaitingMessage,
        publication: &Publication,
    ) -> Result<Ticket, StoreError> {
        let replaced = self.waiting.place_of(&message.topic, &message.name);
        let removal = replaced.map(stored::removal);
        let changes = removal
            .into_iter()
            .chain([stored::change(place, publication)]);
        let ticket = self.submit(store, changes.collect(), Some(place), replaced)?;
        self.waiting.insert(place, message);
        Ok(ticket)
    }

    /// Submits the removal of a message, and removes it from memory; `None` if there is none.
    pub(super) fn forget(
        &mut self,
        store: &Store,
        topic: &str,
        name: &str,
    ) -> Option<Result<Ticket, StoreError>> {
        let place = self.waiting.place_of(topic, name)?;
        Some(self.submit(store, vec![stored::removal(place)], None, Some(place)))
    }

    /// Submits changes; if they are accepted, a message leaves the memory.
    fn submit(
        &mut self,
        store: &Store,
        mut changes: Vec<StoreChange>,
        added: Option<DuePosition>,
        removed: Option<DuePosition>,
    ) -> Result<Ticket, StoreError> {
        let earlier = self.pending.back().map(|last| &last.ticket);
        let ticket = store.submit_after(&mut changes, earlier)?;
        let removed = removed.and_then(|place| Some((place, self.waiting.remove(place)?)));
        self.pending.push_back(PendingChange {
            ticket: ticket.clone(),
            added,
            removed,
        });
        Ok(ticket)
    }

    /// Returns a message to the memory. If another one of its name has arrived since, that one has
    /// replaced it.
    pub(super) fn put_back(&mut self, store: &Store, place: DuePosition, message: WaitingMessage) {
        let newer = self.waiting.place_of(&message.topic, &message.name);
        if newer.is_none() {
            self.waiting.insert(place, message);
        } else if let Err(error) = store.submit_deferred([stored::removal(place)]) {
            tracing::warn!(target: "gateway", topic = message.topic, %error,
                "a delayed message that was replaced is delivered after the next start");
        }
    }
}
