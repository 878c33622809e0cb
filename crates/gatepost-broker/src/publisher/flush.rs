//! The end of a batch: durable changes are submitted to the store, and frames are written to the
//! sockets.

use std::sync::Arc;
use std::task::{Context, Poll};

use gatepost_store::{StoreError, Ticket};

use super::Publisher;
use crate::prefetch::prefetched;
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

/// The commits of one batch.
struct SubmittedBatch {
    /// The commit of its changes.
    stored: Option<Result<Ticket, StoreError>>,
    /// The commit of its publications in the log, which includes the other.
    logged: Option<Result<Ticket, StoreError>>,
}

impl Publisher {
    /// Writes the collected frames, with one write per socket. The ticket, if any, is for changes
    /// that must be durable before they are acknowledged.
    pub fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let submitted = self.flush_all();
        submitted.logged.or(submitted.stored)
    }

    /// As [`Publisher::flush`], for publications without another sender, since the other changes of
    /// the batch remove what they came from: the ticket is for the changes of this server alone.
    pub fn flush_effects(&mut self) -> Option<Result<Ticket, StoreError>> {
        // A will is removed from its session by these changes, or a delayed message from those that
        // wait, so it is kept until it is logged.
        self.batch.ends_sending = true;
        self.flush_all().stored
    }

    fn flush_all(&mut self) -> SubmittedBatch {
        let began = self.pace.begin(&self.traffic);
        let submitted = self.submit();
        self.close_run(true);
        self.send_held();
        for session in prefetched(&self.pending_flush.sessions, |session| &**session) {
            session.flush(self.shared.view());
        }
        self.pending_flush.sessions.clear();
        for reader in prefetched(&self.pending_flush.readers, |reader| &**reader) {
            reader.flush();
        }
        self.pending_flush.readers.clear();
        let traffic = std::mem::take(&mut self.traffic);
        self.pace
            .end(began, &traffic, self.shared.settings.gather_max.duration());
        traffic.add_to(&self.shared.counters);
        submitted
    }

    fn submit(&mut self) -> SubmittedBatch {
        let are_kept = self.keep_logged();
        let is_in_log = !are_kept && self.log_has_changes();
        let stored = self.submit_changes(is_in_log || self.is_of_other_nodes);
        let logged = self.append_logged(stored.as_ref(), are_kept, is_in_log);
        let acknowledged = logged.as_ref().or(stored.as_ref());
        self.batch.was_submitted(stored.as_ref(), acknowledged);
        SubmittedBatch { stored, logged }
    }

    /// Submits the changes to the store. Those that could be read from the log again wait for the
    /// commit of others; deliveries at QoS 2 wait for them.
    fn submit_changes(&mut self, are_in_log: bool) -> Option<Result<Ticket, StoreError>> {
        let changes = &mut self.batch.changes;
        let Some(store) = self.shared.store.as_ref().filter(|_| !changes.is_empty()) else {
            changes.clear();
            return None;
        };
        let shared = &self.shared;
        let retaining = self.batch.retaining.take();
        let _in_order = retaining.as_ref().map(|commit| {
            let guard = shared.retained.begin_submitting();
            shared.retained.put_in_order(changes, commit);
            guard
        });
        let earlier = self.last_ticket.as_ref();
        let ticket = if are_in_log {
            store.submit_later(changes, earlier)
        } else {
            store.submit_after(changes, earlier)
        };
        if ticket.is_err() {
            // No client receives a success for these changes, so they may be lost.
            changes.clear();
        }
        if let Some(commit) = retaining {
            commit.was_submitted(Some(&ticket));
        }
        self.last_ticket = ticket.as_ref().ok().cloned();
        Some(ticket)
    }

    /// Ends the order between earlier and later publications, which have different senders.
    pub(crate) fn forget_order(&mut self) {
        self.last_ticket = None;
        self.last_logged = None;
    }

    /// Sends the deliveries that sessions held back until their rows were submitted.
    fn send_held(&mut self) {
        let held = &mut self.pending_flush.held;
        held.sort_unstable_by_key(|session| session.ordinal);
        held.dedup_by_key(|session| session.ordinal);
        let store = self.shared.store.as_ref();
        for session in prefetched(held, |session| &**session) {
            session.continue_after_submit(self.shared.view(), store);
        }
        held.clear();
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
