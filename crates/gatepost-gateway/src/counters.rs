//! Messages by listener and verdict, and rules by hits, since the start.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gatepost_message::{Action, Listener, RuleHit};
use parking_lot::Mutex;

use crate::judge_times::JudgeTimes;

/// Rules that are counted by name. A rule folder has a few thousand.
const RULES_MAX: usize = 20_000;

/// Totals that are not updated together: two of them may differ by messages that are being
/// processed.
#[derive(Debug, Default)]
pub struct GatewayCounters {
    verdicts: [[AtomicU64; Action::ALL.len()]; Listener::ALL.len()],
    rules: Mutex<HashMap<String, RuleHits>>,
    judge_times: JudgeTimes,
}

/// The number of hits of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RuleHits {
    /// Number of messages that it hit.
    pub messages: u64,
    /// The sum of the scores that it added.
    pub score: f64,
}

/// The totals of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerCounts {
    /// The listener that received the messages.
    pub listener: Listener,
    /// Messages by verdict, in the order of [`Action::ALL`].
    pub verdicts: [u64; Action::ALL.len()],
}

impl ListenerCounts {
    /// All messages.
    pub fn messages(&self) -> u64 {
        self.verdicts.iter().sum()
    }
}

impl GatewayCounters {
    /// Counts one message.
    pub fn count(&self, listener: Listener, action: Action) {
        self.verdicts[listener as usize][action as usize].fetch_add(1, Relaxed);
    }

    /// The durations of judging.
    pub fn judge_times(&self) -> &JudgeTimes {
        &self.judge_times
    }

    /// Counts the rules that hit one message.
    pub(crate) fn count_hits(&self, hits: &[RuleHit]) {
        if hits.is_empty() {
            return;
        }
        let mut rules = self.rules.lock();
        for hit in hits {
            let is_full = rules.len() >= RULES_MAX;
            let counted = match rules.get_mut(hit.name.as_ref()) {
                Some(counted) => counted,
                None if is_full => continue,
                None => rules.entry(hit.name.to_string()).or_default(),
            };
            counted.messages += 1;
            counted.score += hit.score;
        }
    }

    /// The rules with the most hits, the most frequent first.
    pub fn most_hit(&self, count: usize) -> Vec<(String, RuleHits)> {
        let rules = self.rules.lock();
        let mut all: Vec<_> = rules.iter().collect();
        all.sort_unstable_by(|(one, a), (other, b)| {
            b.messages.cmp(&a.messages).then_with(|| one.cmp(other))
        });
        let most = all.into_iter().take(count);
        most.map(|(name, hits)| (name.clone(), *hits)).collect()
    }

    /// The totals of every listener.
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
        let counters = GatewayCounters::default();
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
