//! The end of a batch: durable changes are submitted to the store, and frames are written to the
//! sockets.

use std::task::{Context, Poll};

use gatepost_store::{StoreError, Ticket};

use super::Publisher;
use crate::counters::Counters;

impl Publisher {
    /// Writes the collected frames, with one write per socket. The ticket, if any, is for changes
    /// that must be durable before they are acknowledged.
    pub fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let began = self.begin_pace();
        let ticket = self.submit_changes();
        self.close_run(true);
        self.send_held();
        for session in self.dirty.drain(..) {
            session.flush(self.shared.view());
        }
        for reader in self.due.drain(..) {
            reader.flush();
        }
        let messages = std::mem::take(&mut self.messages);
        let bytes = std::mem::take(&mut self.bytes);
        self.end_pace(began, messages, bytes);
        let counters = &self.shared.counters;
        Counters::add(&counters.messages_in, messages);
        Counters::add(&counters.bytes_in, bytes);
        Counters::add(&counters.deliveries, std::mem::take(&mut self.deliveries));
        Counters::add(&counters.bytes_out, std::mem::take(&mut self.bytes_out));
        ticket
    }

    fn submit_changes(&mut self) -> Option<Result<Ticket, StoreError>> {
        let changes = &mut self.batch.changes;
        let Some(store) = self.shared.store.as_ref().filter(|_| !changes.is_empty()) else {
            changes.clear();
            self.batch.was_submitted(None);
            return None;
        };
        let shared = &self.shared;
        let commit = self.batch.retaining.take();
        let _in_order = commit.map(|commit| {
            let guard = shared.retained.begin_submitting();
            shared.retained.put_in_order(changes, &commit);
            guard
        });
        let ticket = store.submit_after(changes, self.last_ticket.as_ref());
        if ticket.is_err() {
            // No client receives a success for these changes, so they may be lost.
            changes.clear();
        }
        self.batch.was_submitted(Some(&ticket));
        self.last_ticket = ticket.as_ref().ok().cloned();
        Some(ticket)
    }

    /// Ends the order between earlier and later publications, which have different senders.
    pub(crate) fn forget_order(&mut self) {
        self.last_ticket = None;
    }

    /// Sends the deliveries that sessions held back until their rows were submitted.
    fn send_held(&mut self) {
        self.held.sort_unstable_by_key(|session| session.ordinal);
        self.held.dedup_by_key(|session| session.ordinal);
        let store = self.shared.store.as_ref();
        for session in self.held.drain(..) {
            session.continue_after_submit(self.shared.view(), store);
        }
        if let Some(store) = store
            && !self.batch.changes.is_empty()
        {
            // Removals of unreferenced messages; if they are refused, the next start removes the
            // messages.
            let _ = store.submit_all(&mut self.batch.changes);
            self.batch.changes.clear();
        }
    }

    /// Whether a subscriber's queue became too full since the last [`Publisher::poll_relief`].
    pub fn is_congested(&self) -> bool {
        !self.congested.is_empty()
    }

    /// Waits until the queues of these subscribers have free space again, or the subscribers are
    /// disconnected.
    pub fn poll_relief(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let shared = &self.shared;
        self.congested
            .retain(|session| session.await_room(context.waker(), shared.view()));
        if self.congested.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Accepted publications are delivered even if the connection ends between the two calls.
        let _ = self.flush();
    }
}
