//! Tracking of a publisher's sequence numbers at a subscriber: lost, duplicated, out of order.

use serde::{Deserialize, Serialize};

/// Counts over all numbers seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackerCounts {
    /// Messages that arrived at least once.
    pub received: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Number of repeated arrivals.
    pub duplicates: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
}

impl TrackerCounts {
    /// Adds the counts of another tracker.
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
    }
}

/// Tracks one publisher's numbers at one subscriber. Exact, and 48 bytes while nothing is missing:
/// only gaps are stored.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    /// The next expected number.
    next: u32,
    /// Numbers below `next` that have not arrived: from, to (exclusive), in order.
    gaps: Vec<(u32, u32)>,
    duplicates: u64,
    reordered: u64,
}

impl Tracker {
    /// Records an arrival; returns the increase in the number of missing messages.
    #[inline]
    pub fn record(&mut self, sequence: u32) -> i64 {
        if sequence == self.next {
            self.next += 1;
            0
        } else {
            self.record_out_of_order(sequence)
        }
    }

    fn record_out_of_order(&mut self, sequence: u32) -> i64 {
        if sequence > self.next {
            let missing = i64::from(sequence - self.next);
            self.gaps.push((self.next, sequence));
            self.next = sequence.saturating_add(1);
            return missing;
        }
        let holds = |gap: &(u32, u32)| (gap.0..gap.1).contains(&sequence);
        let Some(at) = self.gaps.iter().position(holds) else {
            self.duplicates += 1;
            return 0;
        };
        self.reordered += 1;
        let (from, to) = self.gaps.remove(at);
        let rests = [(from, sequence), (sequence + 1, to)];
        let rests = rests.into_iter().filter(|(from, to)| from < to);
        self.gaps.splice(at..at, rests.collect::<Vec<_>>());
        -1
    }

    /// The number of repeated arrivals so far.
    #[inline]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// The final counts of `sent` messages, after the last arrival.
    pub fn tally(&self, sent: u32) -> TrackerCounts {
        let in_gaps: u64 = self
            .gaps
            .iter()
            .map(|(from, to)| u64::from(to - from))
            .sum();
        let at_end = u64::from(sent.saturating_sub(self.next));
        TrackerCounts {
            received: u64::from(self.next) - in_gaps,
            lost: in_gaps + at_end,
            duplicates: self.duplicates,
            reordered: self.reordered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(sequences: &[u32], sent: u32) -> TrackerCounts {
        let mut tracker = Tracker::default();
        for &sequence in sequences {
            tracker.record(sequence);
        }
        tracker.tally(sent)
    }

    #[test]
    fn each_fault_is_distinguished() {
        let counts = |received, lost, duplicates, reordered| TrackerCounts {
            received,
            lost,
            duplicates,
            reordered,
        };
        for (sequences, sent, expected) in [
            (&[0, 1, 2][..], 3, counts(3, 0, 0, 0)),
            (&[0, 2], 3, counts(2, 1, 0, 0)),
            (&[0, 1], 5, counts(2, 3, 0, 0)),
            (&[3], 4, counts(1, 3, 0, 0)),
            (&[0, 1, 1, 2], 3, counts(3, 0, 1, 0)),
            (&[0, 2, 1, 3], 4, counts(4, 0, 0, 1)),
            (&[0, 4, 2, 2, 1], 6, counts(4, 2, 1, 2)),
            (&[], 2, counts(0, 2, 0, 0)),
        ] {
            assert_eq!(tally(sequences, sent), expected, "{sequences:?}");
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_a_set_would(sequences in proptest::collection::vec(0_u32..60, 0..200)) {
            let distinct: std::collections::BTreeSet<_> = sequences.iter().collect();
            let tally = tally(&sequences, 60);
            prop_assert_eq!(tally.received, distinct.len() as u64);
            prop_assert_eq!(tally.lost, 60 - distinct.len() as u64);
            prop_assert_eq!(tally.duplicates, (sequences.len() - distinct.len()) as u64);
        }
    }
}
