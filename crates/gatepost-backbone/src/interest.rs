//! The filters that have subscribers on this server, and which changes of them the other nodes
//! know.

use std::collections::{HashMap, HashSet};

use gatepost_broker::InterestBarrier;
use gatepost_message::TopicFilter;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::confirmed_changes::ConfirmedChanges;

/// The filters, and the changes that are to be announced.
pub(crate) struct Interest {
    state: Mutex<InterestState>,
    changed: Notify,
    /// The number of changes that the other nodes know.
    known: ConfirmedChanges,
}

#[derive(Default)]
struct InterestState {
    wanted: HashSet<TopicFilter>,
    /// Changes since they were last taken; the last one of each filter counts.
    changes: HashMap<TopicFilter, bool>,
    /// All changes so far.
    number: u64,
    /// Whether there is a connection that announces changes.
    is_followed: bool,
}

/// Changes to announce.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) filters: Vec<(TopicFilter, bool)>,
    /// The number of changes so far, these included.
    pub(crate) number: u64,
}

impl Interest {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            known: ConfirmedChanges::new(),
        }
    }

    /// A filter got its first subscriber or lost its last one.
    pub(crate) fn set(&self, filter: &TopicFilter, is_wanted: bool) {
        let mut state = self.state.lock();
        if is_wanted {
            state.wanted.insert(filter.clone());
        } else {
            state.wanted.remove(filter);
        }
        state.number += 1;
        if state.is_followed {
            state.changes.insert(filter.clone(), is_wanted);
            self.changed.notify_one();
        }
    }

    /// The wait until all changes so far are known; `None` where nothing is to be waited for.
    pub(crate) fn barrier(&self) -> Option<InterestBarrier> {
        let state = self.state.lock();
        self.known.barrier(state.number, state.is_followed)
    }

    /// A connection begins: everything is to be announced to it.
    pub(crate) fn follow(&self) -> Changes {
        let mut state = self.state.lock();
        state.is_followed = true;
        state.changes.clear();
        Changes {
            filters: state.wanted.iter().map(|one| (one.clone(), true)).collect(),
            number: state.number,
        }
    }

    /// The next changes.
    pub(crate) async fn next(&self) -> Changes {
        loop {
            {
                let mut state = self.state.lock();
                if !state.changes.is_empty() {
                    return Changes {
                        filters: state.changes.drain().collect(),
                        number: state.number,
                    };
                }
            }
            self.changed.notified().await;
        }
    }

    /// The other nodes know so many changes.
    pub(crate) fn confirm(&self, number: u64) {
        self.known.confirm(number);
    }

    /// The connection is over: no subscription waits for it.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_followed = false;
        state.changes.clear();
        self.known.confirm(state.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> TopicFilter {
        TopicFilter::new(text).expect("a filter")
    }

    #[tokio::test]
    async fn a_barrier_waits_for_the_changes_before_it() {
        let interest = Interest::new();
        interest.set(&filter("a"), true);
        assert!(interest.barrier().is_none(), "nothing announces it");
        let first = interest.follow();
        assert_eq!(first.filters, [(filter("a"), true)]);
        let barrier = interest.barrier().expect("not confirmed");
        interest.set(&filter("b"), true);
        interest.set(&filter("b"), false);
        interest.confirm(first.number);
        assert!(barrier.is_reached());
        let later = interest.barrier().expect("of later changes");
        let changes = interest.next().await;
        assert_eq!(changes.filters, [(filter("b"), false)]);
        assert!(!later.is_reached());
        interest.confirm(changes.number);
        assert!(later.is_reached() && interest.barrier().is_none());
    }

    #[test]
    fn without_a_connection_nothing_waits() {
        let interest = Interest::new();
        interest.follow();
        interest.set(&filter("a"), true);
        let barrier = interest.barrier().expect("not confirmed");
        interest.abandon();
        assert!(barrier.is_reached() && interest.barrier().is_none());
    }
}
