//! The end of a batch: durable changes are submitted to the store, and frames are written to the
//! sockets.

use std::sync::Arc;
use std::task::{Context, Poll};

use gatepost_store::{StoreError, Ticket};

use super::Publisher;
use crate::session::Session;
use crate::stream_queue::StreamQueue;

/// The subscribers that received a part of the batch, and must be served at its end.
#[derive(Default)]
pub(super) struct PendingFlush {
    /// Sessions with bytes to write.
    pub(super) sessions: Vec<Arc<Session>>,
    /// Sessions that hold back deliveries until the changes are submitted.
    pub(super) held: Vec<Arc<Session>>,
    /// Readers that must be notified of publications.
    pub(super) readers: Vec<Arc<StreamQueue>>,
}

impl Publisher {
    /// Writes the collected frames, with one write per socket. The ticket, if any, is for changes
    /// that must be durable before they are acknowledged.
    pub fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let began = self.pace.begin(&self.traffic);
        let ticket = self.submit_changes();
        self.close_run(true);
        self.send_held();
        for session in self.pending_flush.sessions.drain(..) {
            session.flush(self.shared.view());
        }
        for reader in self.pending_flush.readers.drain(..) {
            reader.flush();
        }
        let traffic = std::mem::take(&mut self.traffic);
        self.pace
            .end(began, &traffic, self.shared.settings.gather_max.duration());
        traffic.add_to(&self.shared.counters);
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
        let held = &mut self.pending_flush.held;
        held.sort_unstable_by_key(|session| session.ordinal);
        held.dedup_by_key(|session| session.ordinal);
        let store = self.shared.store.as_ref();
        for session in held.drain(..) {
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
