//! A publisher's publications that are not acknowledged yet.

use gatepost_mqtt::PacketId;
use hashbrown::HashMap;

use crate::clock::Nanoseconds;

/// Packet identifiers, which are used in turn: 1 to 65,535.
const IDENTIFIERS: u32 = PacketId::MAX.get() as u32;

/// When each publication was due, until it is acknowledged.
///
/// Identifiers wrap around: 65,535 unacknowledged publications of one publisher would be a fault of
/// the server, which other figures show.
#[derive(Debug, Default)]
pub(super) struct PendingAcknowledgements {
    due: HashMap<PacketId, Nanoseconds>,
    acknowledged: u32,
}

/// The identifier of a publisher's publication with this number, counted from 0.
pub(super) const fn packet_id(sequence: u32) -> PacketId {
    match PacketId::new((sequence % IDENTIFIERS) as u16 + 1) {
        Some(packet_id) => packet_id,
        None => PacketId::MIN,
    }
}

impl PendingAcknowledgements {
    /// A publication was sent.
    pub(super) fn sent(&mut self, sequence: u32, due: Nanoseconds) {
        self.due.insert(packet_id(sequence), due);
    }

    /// Returns when the acknowledged publication was due; `None` if none was pending. Without an
    /// identifier, it is the oldest one.
    pub(super) fn acknowledged(&mut self, identified: Option<PacketId>) -> Option<Nanoseconds> {
        let oldest = packet_id(self.acknowledged);
        let due = self.due.remove(&identified.unwrap_or(oldest))?;
        self.acknowledged += 1;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_publication_is_acknowledged_once() {
        let mut pending = PendingAcknowledgements::default();
        for sequence in 0..3 {
            pending.sent(sequence, 100 + u64::from(sequence));
        }
        assert_eq!(pending.acknowledged(PacketId::new(2)), Some(101));
        assert_eq!(pending.acknowledged(PacketId::new(2)), None);
        assert_eq!(pending.acknowledged(PacketId::new(1)), Some(100));
        assert_eq!(pending.acknowledged(PacketId::new(3)), Some(102));
        assert_eq!(pending.acknowledged(PacketId::new(4)), None);
    }

    #[test]
    fn without_identifiers_the_order_counts() {
        let mut pending = PendingAcknowledgements::default();
        for sequence in 0..IDENTIFIERS + 2 {
            pending.sent(sequence, u64::from(sequence));
            assert_eq!(pending.acknowledged(None), Some(u64::from(sequence)));
        }
        assert_eq!(pending.acknowledged(None), None);
    }
}
