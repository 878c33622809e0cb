//! Exactly-once publications that the client sent and has not released (MQTT 5 section 4.3.3).
//!
//! The packet identifier of such a publication identifies its repetition, but only if the
//! publication itself is durable: if its commit failed, the repetition counts as a new publication,
//! since it would otherwise be acknowledged and lost.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use gatepost_store::Ticket;

use crate::persistence::{BatchCommit, CommitStatus};

/// The known state of a publication with this packet identifier.
#[derive(Debug, Clone)]
pub enum Receipt {
    /// The publication is new.
    Unknown,
    /// The publication is being judged or submitted; [`crate::Attachment::poll_ended`] wakes the
    /// task when that has changed.
    Undecided,
    /// The publication was submitted to the store, and is received when this is committed.
    Submitted(Ticket),
    /// The publication was received \[MQTT-4.3.3-10\].
    Received,
}

enum ReceptionState {
    /// A procedure has yet to judge it.
    Judged,
    /// The publication belongs to this batch.
    Published(Arc<BatchCommit>),
    Stored,
}

/// The packet identifiers in use by the client's own publications.
#[derive(Default)]
pub(crate) struct ReceivedIds(HashMap<NonZeroU16, ReceptionState>);

impl ReceivedIds {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NonZeroU16> {
        self.0.keys().copied()
    }

    /// The known state of this identifier. An identifier whose commit failed is removed.
    pub(crate) fn receipt(&mut self, packet_id: NonZeroU16) -> Receipt {
        let status = match self.0.get(&packet_id) {
            None => return Receipt::Unknown,
            Some(ReceptionState::Stored) => return Receipt::Received,
            Some(ReceptionState::Judged) => return Receipt::Undecided,
            Some(ReceptionState::Published(commit)) => commit.status(),
        };
        match status {
            CommitStatus::Collected => Receipt::Undecided,
            CommitStatus::Submitted(ticket) => Receipt::Submitted(ticket),
            CommitStatus::Committed => {
                self.0.insert(packet_id, ReceptionState::Stored);
                Receipt::Received
            }
            CommitStatus::Failed => {
                self.0.remove(&packet_id);
                Receipt::Unknown
            }
        }
    }

    /// The identifiers, if it is known of each that its publication was received.
    pub(crate) fn settled(&mut self) -> Option<Vec<u16>> {
        let ids: Vec<NonZeroU16> = self.0.keys().copied().collect();
        let mut settled = Vec::new();
        for id in ids {
            match self.receipt(id) {
                Receipt::Received => settled.push(id.get()),
                Receipt::Unknown => {}
                Receipt::Undecided | Receipt::Submitted(_) => return None,
            }
        }
        settled.sort_unstable();
        Some(settled)
    }

    pub(crate) fn begin_judging(&mut self, packet_id: NonZeroU16) {
        self.0.insert(packet_id, ReceptionState::Judged);
    }

    pub(crate) fn publish(&mut self, packet_id: NonZeroU16, commit: Arc<BatchCommit>) {
        self.0.insert(packet_id, ReceptionState::Published(commit));
    }

    pub(crate) fn insert(&mut self, packet_id: NonZeroU16) {
        self.0.insert(packet_id, ReceptionState::Stored);
    }

    /// Frees the identifier; returns whether it was in use.
    pub(crate) fn release(&mut self, packet_id: NonZeroU16) -> bool {
        self.0.remove(&packet_id).is_some()
    }
}
