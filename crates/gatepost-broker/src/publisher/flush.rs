//! The end of a batch: what must be durable goes to the store, what is due to the sockets.

use std::sync::Arc;
use std::task::{Context, Poll};

use gatepost_store::{StoreError, Ticket};

use super::Publisher;
use crate::counters::Counters;
use crate::session::Session;

impl Publisher {
    /// Writes what was gathered to the sockets, once each. The ticket, where there is one, is
    /// for what must be durable before it is acknowledged.
    pub fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let began = self.begin_pace();
        let ticket = self.submit_changes();
        self.close_run(true);
        self.let_held_go_on();
        for session in self.dirty.drain(..) {
            session.flush(self.core.around());
        }
        for reader in self.due.drain(..) {
            reader.flush();
        }
        let messages = std::mem::take(&mut self.messages);
        let bytes = std::mem::take(&mut self.bytes);
        self.end_pace(began, messages, bytes);
        let counters = &self.core.counters;
        Counters::add(&counters.messages_in, messages);
        Counters::add(&counters.bytes_in, bytes);
        Counters::add(&counters.deliveries, std::mem::take(&mut self.deliveries));
        Counters::add(&counters.bytes_out, std::mem::take(&mut self.bytes_out));
        ticket
    }

    fn submit_changes(&mut self) -> Option<Result<Ticket, StoreError>> {
        let changes = &mut self.gathering.changes;
        let Some(store) = &self.core.store else {
            changes.clear();
            return None;
        };
        if changes.is_empty() {
            return None;
        }
        let ticket = store.submit_all(changes);
        if ticket.is_err() {
            // Nobody is told of success, so nothing of it is owed.
            changes.clear();
        }
        self.gathering.was_submitted(&ticket);
        Some(ticket)
    }

    /// Sends what sessions held back until its rows were submitted.
    fn let_held_go_on(&mut self) {
        let address = |session: &Arc<Session>| Arc::as_ptr(session).cast::<()>() as usize;
        self.held.sort_unstable_by_key(address);
        self.held.dedup_by_key(|session| address(session));
        for session in self.held.drain(..) {
            session.go_on(self.core.around(), &mut self.gathering.changes);
        }
        if let Some(store) = &self.core.store
            && !self.gathering.changes.is_empty()
        {
            // Removals only: refused, they are made at the next flush.
            let _ = store.submit_all(&mut self.gathering.changes);
        }
    }

    /// Whether subscribers asked to be waited for, since the last [`Publisher::poll_relief`].
    pub fn is_congested(&self) -> bool {
        !self.congested.is_empty()
    }

    /// Waits until the subscribers that were too full have room again, or are given up.
    pub fn poll_relief(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let core = &self.core;
        self.congested
            .retain(|session| session.await_room(context.waker(), core.around()));
        if self.congested.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // What was published is published, even if the connection ends between the two calls.
        let _ = self.flush();
    }
}
