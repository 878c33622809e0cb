//! Lists that do not answer.
//!
//! A DNS list that drops packets delays every message until its deadline. After several consecutive
//! questions without an answer the list counts as silent, and its questions end immediately without
//! an answer. From time to time one question is sent nevertheless: an answer to it ends the
//! silence.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The condition under which a list counts as silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceLimits {
    /// The number of consecutive questions without an answer after which a list is not queried for
    /// a while; 0 disables this.
    pub unanswered_max: u32,
    /// The time for which it is not queried.
    pub pause: Duration,
}

impl Default for SilenceLimits {
    fn default() -> Self {
        Self {
            unanswered_max: 10,
            pause: Duration::from_mins(1),
        }
    }
}

/// A list that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentList {
    /// Its zone.
    pub list: String,
    /// Number of questions that were not sent since it became silent.
    pub skipped: u64,
}

/// The state of the lists that were queried. Bounded by the number of lists, which rule files
/// define.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    limits: SilenceLimits,
    lists: Mutex<HashMap<String, ListState>>,
}

#[derive(Debug, Default)]
struct ListState {
    unanswered: u32,
    /// The list is not queried before this time.
    paused_until: Option<Instant>,
    skipped: u64,
}

impl Silence {
    pub(crate) fn new(limits: SilenceLimits) -> Self {
        Self {
            limits,
            lists: Mutex::default(),
        }
    }

    /// Whether a list may be queried now. One question is permitted after each pause.
    pub(crate) fn permits(&self, list: &str, now: Instant) -> bool {
        let mut lists = self.lists.lock();
        let Some(state) = lists.get_mut(list) else {
            return true;
        };
        let Some(until) = state.paused_until else {
            return true;
        };
        if now < until {
            state.skipped += 1;
            return false;
        }
        state.paused_until = Some(now + self.limits.pause);
        true
    }

    pub(crate) fn answered(&self, list: &str) {
        self.lists.lock().remove(list);
    }

    pub(crate) fn unanswered(&self, list: &str, now: Instant) {
        if self.limits.unanswered_max == 0 {
            return;
        }
        let mut lists = self.lists.lock();
        let state = match lists.get_mut(list) {
            Some(state) => state,
            None => lists.entry(list.to_owned()).or_default(),
        };
        state.unanswered = state.unanswered.saturating_add(1);
        if state.unanswered >= self.limits.unanswered_max {
            state.paused_until = Some(now + self.limits.pause);
        }
    }

    /// The lists that are silent, sorted.
    pub(crate) fn lists(&self) -> Vec<SilentList> {
        let lists = self.lists.lock();
        let silent = lists
            .iter()
            .filter(|(_, state)| state.paused_until.is_some());
        let mut silent: Vec<SilentList> = silent
            .map(|(list, state)| SilentList {
                list: list.clone(),
                skipped: state.skipped,
            })
            .collect();
        silent.sort_by(|one, other| one.list.cmp(&other.list));
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_list_is_queried_once_after_each_pause() {
        let silence = Silence::new(SilenceLimits {
            unanswered_max: 2,
            pause: Duration::from_mins(1),
        });
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(silence.permits("a", at(0)));
        silence.unanswered("a", at(0));
        assert!(silence.permits("a", at(1)));
        assert!(silence.lists().is_empty());
        silence.unanswered("a", at(1));
        assert!(!silence.permits("a", at(2)));
        assert!(silence.permits("b", at(2)), "the others are queried");
        let expected = SilentList {
            list: "a".to_owned(),
            skipped: 1,
        };
        assert_eq!(silence.lists(), [expected]);
        assert!(silence.permits("a", at(61)), "one question tries");
        assert!(!silence.permits("a", at(62)));
        silence.answered("a");
        assert!(silence.permits("a", at(62)));
        assert!(silence.lists().is_empty());
    }

    #[test]
    fn without_a_limit_no_list_is_silent() {
        let silence = Silence::new(SilenceLimits {
            unanswered_max: 0,
            pause: Duration::from_mins(1),
        });
        let now = Instant::now();
        for _ in 0..100 {
            silence.unanswered("a", now);
        }
        assert!(silence.permits("a", now));
    }
}
