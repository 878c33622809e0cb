//! Changes that need not be written: most deliveries end before the group that began them is
//! committed.

use hashbrown::HashSet;

use crate::StoreChange;
use crate::session::SessionChange;

/// Rows that one group of changes both writes and removes.
#[derive(Default)]
pub struct CancelledRows {
    deliveries: HashSet<(u64, u64)>,
    messages: HashSet<u64>,
}

impl CancelledRows {
    /// Walks through the changes from the last to the first, so that a group which only writes
    /// costs no look-up.
    pub fn find(changes: &[StoreChange]) -> Self {
        let mut removed = Self::default();
        let mut both = Self::default();
        for change in changes.iter().rev() {
            let StoreChange::Session(change) = change else {
                continue;
            };
            match change {
                SessionChange::Dequeue { session, sequence } => {
                    removed.deliveries.insert((*session, *sequence));
                }
                SessionChange::ForgetMessage { number } => {
                    removed.messages.insert(*number);
                }
                SessionChange::Enqueue(row) if removed.has_delivery(row.session, row.sequence) => {
                    both.deliveries.insert((row.session, row.sequence));
                }
                SessionChange::Message { number, .. } if removed.has_message(*number) => {
                    both.messages.insert(*number);
                }
                _ => {}
            }
        }
        both
    }

    /// Whether a change need not be written.
    pub fn covers(&self, change: &StoreChange) -> bool {
        let StoreChange::Session(change) = change else {
            return false;
        };
        match change {
            SessionChange::Enqueue(row) => self.has_delivery(row.session, row.sequence),
            SessionChange::Release { session, sequence }
            | SessionChange::Dequeue { session, sequence } => {
                self.has_delivery(*session, *sequence)
            }
            SessionChange::Message { number, .. } | SessionChange::ForgetMessage { number } => {
                self.has_message(*number)
            }
            _ => false,
        }
    }

    fn has_delivery(&self, session: u64, sequence: u64) -> bool {
        !self.deliveries.is_empty() && self.deliveries.contains(&(session, sequence))
    }

    fn has_message(&self, number: u64) -> bool {
        !self.messages.is_empty() && self.messages.contains(&number)
    }
}
