//! Changes that need not be written: most deliveries end before the group that began them is
//! committed.

use std::collections::HashSet;

use crate::StoreChange;
use crate::session::SessionChange;

/// Rows that one group of changes both writes and removes.
#[derive(Default)]
pub(crate) struct Cancelled {
    deliveries: HashSet<(u64, u64)>,
    messages: HashSet<u64>,
}

impl Cancelled {
    pub(crate) fn find(changes: &[StoreChange]) -> Self {
        let mut written = Self::default();
        let mut both = Self::default();
        for change in changes {
            let StoreChange::Session(change) = change else {
                continue;
            };
            match change {
                SessionChange::Enqueue(row) => {
                    written.deliveries.insert((row.session, row.sequence));
                }
                SessionChange::Message { number, .. } => {
                    written.messages.insert(*number);
                }
                SessionChange::Dequeue { session, sequence } => {
                    let key = (*session, *sequence);
                    if written.deliveries.contains(&key) {
                        both.deliveries.insert(key);
                    }
                }
                SessionChange::ForgetMessage { number } if written.messages.contains(number) => {
                    both.messages.insert(*number);
                }
                _ => {}
            }
        }
        both
    }

    pub(crate) fn covers(&self, change: &StoreChange) -> bool {
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
                self.messages.contains(number)
            }
            _ => false,
        }
    }

    fn has_delivery(&self, session: u64, sequence: u64) -> bool {
        !self.deliveries.is_empty() && self.deliveries.contains(&(session, sequence))
    }
}
