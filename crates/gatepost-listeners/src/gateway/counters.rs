//! What came in by each listener and what became of it, since the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gatepost_message::{Action, Listener};

/// Sums that need not agree with each other to the message.
#[derive(Debug, Default)]
pub struct Counters {
    verdicts: [[AtomicU64; Action::ALL.len()]; Listener::ALL.len()],
}

/// One listener's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerCounts {
    /// The door.
    pub listener: Listener,
    /// Messages by what became of them, in the order of [`Action::ALL`].
    pub verdicts: [u64; Action::ALL.len()],
}

impl ListenerCounts {
    /// All messages.
    pub fn messages(&self) -> u64 {
        self.verdicts.iter().sum()
    }
}

impl Counters {
    /// Counts one message.
    pub fn count(&self, listener: Listener, action: Action) {
        self.verdicts[listener as usize][action as usize].fetch_add(1, Relaxed);
    }

    /// The sums of every listener.
    pub fn by_listener(&self) -> [ListenerCounts; Listener::ALL.len()] {
        Listener::ALL.map(|listener| ListenerCounts {
            listener,
            verdicts: Action::ALL
                .map(|action| self.verdicts[listener as usize][action as usize].load(Relaxed)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_and_action_counts_for_itself() {
        let counters = Counters::default();
        counters.count(Listener::Smtp, Action::Reject);
        counters.count(Listener::Smtp, Action::Accept);
        counters.count(Listener::Call, Action::Defer);
        for counts in counters.by_listener() {
            let expected = match counts.listener {
                Listener::Smtp => 2,
                Listener::Call => 1,
                _ => 0,
            };
            assert_eq!(counts.messages(), expected, "{}", counts.listener);
        }
    }
}
