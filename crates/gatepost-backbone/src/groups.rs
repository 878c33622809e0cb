//! The shared subscriptions that have members on this server, and which changes of them the other
//! nodes know.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use gatepost_broker::{GroupChange, InterestBarrier};
use gatepost_message::TopicFilter;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::confirmed_changes::ConfirmedChanges;

/// The time for which this node stays in a shared subscription whose last member has moved to
/// another node, unless that node joins earlier.
const MOVE_TIME_MAX: Duration = Duration::from_mins(1);

/// The shared subscriptions of this node.
pub(crate) struct OwnGroups {
    state: Mutex<GroupsState>,
    changed: Notify,
    /// The number of joins that the other nodes know.
    known: ConfirmedChanges,
}

#[derive(Default)]
struct GroupsState {
    /// The shared subscriptions with members.
    present: HashSet<TopicFilter>,
    /// The shared subscriptions that may have changed since they were last taken.
    changed: HashSet<TopicFilter>,
    /// The shared subscriptions of which a member has moved to another node, and when.
    moved: HashMap<TopicFilter, Instant>,
    /// All joins so far.
    number: u64,
    /// Whether there is a connection that appends the changes.
    is_followed: bool,
}

/// Shared subscriptions that may have changed.
pub(crate) struct ChangedGroups {
    pub(crate) groups: HashSet<TopicFilter>,
    /// The number of joins so far, these included.
    pub(crate) number: u64,
}

impl OwnGroups {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            known: ConfirmedChanges::new(),
        }
    }

    /// The broker reports a change.
    pub(crate) fn note(&self, group: &TopicFilter, change: GroupChange) {
        let mut state = self.state.lock();
        match change {
            GroupChange::Joined => {
                state.present.insert(group.clone());
                state.number += 1;
            }
            GroupChange::Varied => {}
            GroupChange::Emptied => {
                state.present.remove(group);
            }
        }
        if state.is_followed {
            state.changed.insert(group.clone());
            self.changed.notify_one();
        }
    }

    /// These are to be compared with the log again.
    pub(crate) fn renew<'a>(&self, groups: impl IntoIterator<Item = &'a TopicFilter>) {
        let mut state = self.state.lock();
        if state.is_followed {
            state.changed.extend(groups.into_iter().cloned());
            self.changed.notify_one();
        }
    }

    /// These could not be appended; they are tried again later.
    pub(crate) fn put_back(&self, groups: HashSet<TopicFilter>) {
        self.state.lock().changed.extend(groups);
    }

    /// All with members are to be compared with the log again.
    pub(crate) fn renew_all(&self) {
        let mut state = self.state.lock();
        if state.is_followed {
            let GroupsState {
                present, changed, ..
            } = &mut *state;
            changed.extend(present.iter().cloned());
            self.changed.notify_one();
        }
    }

    pub(crate) fn has_members(&self, group: &TopicFilter) -> bool {
        self.state.lock().present.contains(group)
    }

    /// A member is about to move to another node.
    pub(crate) fn note_moved(&self, group: TopicFilter) {
        self.state.lock().moved.insert(group, Instant::now());
    }

    /// Whether a member has moved to another node lately.
    pub(crate) fn is_moving(&self, group: &TopicFilter) -> bool {
        let state = self.state.lock();
        let moved = state.moved.get(group);
        moved.is_some_and(|since| since.elapsed() < MOVE_TIME_MAX)
    }

    /// Forgets the moves that are long over.
    pub(crate) fn end_moves(&self) {
        let mut state = self.state.lock();
        let is_over = |_: &TopicFilter, since: &mut Instant| since.elapsed() >= MOVE_TIME_MAX;
        let over: Vec<TopicFilter> = state
            .moved
            .extract_if(is_over)
            .map(|(one, _)| one)
            .collect();
        if !over.is_empty() && state.is_followed {
            state.changed.extend(over);
            self.changed.notify_one();
        }
    }

    /// The wait until all joins so far are in the log; `None` where nothing is to be waited for.
    pub(crate) fn barrier(&self) -> Option<InterestBarrier> {
        let state = self.state.lock();
        self.known.barrier(state.number, state.is_followed)
    }

    /// A connection begins: everything is to be compared with the log.
    pub(crate) fn follow(&self) {
        self.state.lock().is_followed = true;
        self.renew_all();
    }

    /// Takes the changes so far.
    pub(crate) fn take(&self) -> ChangedGroups {
        let mut state = self.state.lock();
        ChangedGroups {
            groups: std::mem::take(&mut state.changed),
            number: state.number,
        }
    }

    /// Waits until there may be changes.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The log has so many joins.
    pub(crate) fn confirm(&self, number: u64) {
        self.known.confirm(number);
    }

    /// The connection is over: no subscription waits for it.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_followed = false;
        state.changed.clear();
        self.known.confirm(state.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> TopicFilter {
        TopicFilter::new(text).expect("a filter")
    }

    #[test]
    fn a_join_is_waited_for_until_the_log_has_it() {
        let groups = OwnGroups::new();
        let one = group("$share/g/a");
        groups.note(&one, GroupChange::Joined);
        assert!(groups.barrier().is_none(), "no connection");
        groups.follow();
        let barrier = groups.barrier().expect("not in the log");
        let taken = groups.take();
        assert_eq!(taken.groups, HashSet::from([one.clone()]));
        groups.confirm(taken.number);
        assert!(barrier.is_reached() && groups.barrier().is_none());
        groups.note(&one, GroupChange::Varied);
        assert!(groups.barrier().is_none(), "it is a member already");
        assert_eq!(groups.take().groups.len(), 1);
        groups.note(&one, GroupChange::Joined);
        let barrier = groups.barrier().expect("not in the log");
        groups.abandon();
        assert!(barrier.is_reached());
    }

    #[test]
    fn a_group_is_present_until_its_last_member_leaves() {
        let groups = OwnGroups::new();
        let one = group("$share/g/a");
        groups.note(&one, GroupChange::Joined);
        groups.note(&one, GroupChange::Varied);
        assert!(groups.has_members(&one) && !groups.is_moving(&one));
        groups.note_moved(one.clone());
        groups.note(&one, GroupChange::Emptied);
        assert!(!groups.has_members(&one) && groups.is_moving(&one));
    }
}
