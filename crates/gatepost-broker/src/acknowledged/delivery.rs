//! One delivery and its packet identifier.

use std::num::NonZeroU16;
use std::sync::Arc;

use gatepost_message::{Publication, Qos};
use gatepost_store::DeliveryRow;
use smallvec::SmallVec;

use crate::persistence::{BatchCommit, CommitStatus, StoredMessage};
use crate::weight::queued_bytes;

/// The number of sequences after which packet identifiers repeat.
pub(super) const PACKET_IDS: u64 = u16::MAX as u64;
/// A QoS 1 or 2 delivery.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) publication: Arc<Publication>,
    /// The row of the publication in the store, for a session that outlives its connection.
    pub(crate) stored: Option<Arc<StoredMessage>>,
    /// The batch of the publication, for a session that ends with its connection: at QoS 2 the
    /// delivery waits for that batch's commit.
    pub(crate) commit: Option<Arc<BatchCommit>>,
    /// The delivery's place in the session's order; set by `AcknowledgedDeliveries::push`.
    pub(crate) sequence: u64,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// Whether it may have been sent before.
    pub(crate) dup: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
}

impl Delivery {
    /// A delivery that an earlier run of the server stored.
    pub(crate) fn found(
        row: &DeliveryRow,
        publication: Arc<Publication>,
        stored: Arc<StoredMessage>,
    ) -> Self {
        Self {
            publication,
            stored: Some(stored),
            commit: None,
            sequence: row.sequence,
            qos: row.qos,
            retain: row.retain,
            dup: false,
            identifiers: row.identifiers.iter().copied().collect(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        queued_bytes(&self.publication, &self.identifiers)
    }

    pub(crate) fn packet_id(&self) -> NonZeroU16 {
        identifier_of(self.sequence)
    }

    pub(crate) fn commit_status(&self) -> CommitStatus {
        match (&self.stored, &self.commit) {
            (Some(stored), _) => stored.commit_status(),
            (None, Some(commit)) => commit.status(),
            (None, None) => CommitStatus::Committed,
        }
    }
}

/// The packet identifier of the delivery with this sequence.
pub(crate) fn identifier_of(sequence: u64) -> NonZeroU16 {
    let number = sequence.wrapping_sub(1) % PACKET_IDS + 1;
    u16::try_from(number)
        .ok()
        .and_then(NonZeroU16::new)
        .unwrap_or(NonZeroU16::MIN)
}

/// The progress of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryPhase {
    /// Sent; PUBACK or PUBREC is awaited.
    Sent,
    /// Released; PUBCOMP is awaited.
    Released,
}

/// A delivery that was sent and is not yet complete.
pub(crate) struct InFlightDelivery {
    pub(crate) packet_id: NonZeroU16,
    pub(crate) delivery: Delivery,
    pub(crate) phase: DeliveryPhase,
}
