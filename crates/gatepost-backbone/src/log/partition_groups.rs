//! Shared subscriptions in one partition: their division, and what this node has to pass on.
//!
//! This node serves a publication that the division gives it by delivering it to a member. If its
//! last member has just left, the publication is appended to the log again, for this shared
//! subscription alone, so that another node serves it.

use std::collections::{HashMap, HashSet};

use gatepost_broker::{GroupMembers, LoggedPublication};
use gatepost_message::TopicFilter;
use gatepost_store::Ticket;
use parking_lot::{Mutex, RwLock};

use super::division::GroupDivision;

/// The publications of one partition that wait for a member.
const HELD_MAX: usize = 10_000;

/// A publication that waits until another node has a member.
pub(crate) struct HeldPublication {
    pub(crate) logged: LoggedPublication,
    /// The commit in which this node keeps it.
    pub(crate) stored: Option<Ticket>,
}

/// Members that this node has appended to the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendedMembers {
    pub(crate) members: GroupMembers,
    /// The number of the entry among those of this run.
    pub(crate) number: u64,
}

#[derive(Default)]
pub(crate) struct PartitionGroups {
    pub(crate) division: RwLock<DivisionKnowledge>,
    /// Shared subscriptions that have lost their last member here, and may be in the division.
    pub(crate) emptied: Mutex<HashSet<TopicFilter>>,
    /// Entries of this node that it has not read back.
    pub(crate) appended: Mutex<HashMap<TopicFilter, AppendedMembers>>,
    held: Mutex<Vec<HeldPublication>>,
}

/// The division, as far as this node knows it.
#[derive(Default)]
pub(crate) struct DivisionKnowledge {
    pub(crate) division: GroupDivision,
    /// Whether it has no gaps. Otherwise another node is asked for it, and this node appends no
    /// members.
    pub(crate) is_complete: bool,
}

impl PartitionGroups {
    /// Lets a publication wait. Returns whether there was room.
    pub(crate) fn hold(&self, one: HeldPublication) -> bool {
        let mut held = self.held.lock();
        let has_room = held.len() < HELD_MAX;
        if has_room {
            held.push(one);
        }
        has_room
    }

    /// Takes the publications that need not wait any more.
    pub(crate) fn take_held(
        &self,
        mut waits: impl FnMut(&TopicFilter) -> bool,
    ) -> Vec<HeldPublication> {
        let mut held = self.held.lock();
        if held.is_empty() {
            return Vec::new();
        }
        let is_due = |one: &mut HeldPublication| {
            let passed_on = one.logged.passed_on.as_ref();
            passed_on.is_none_or(|one| !waits(&one.group))
        };
        held.extract_if(.., is_due).collect()
    }

    /// Forgets the publications that wait: another node has adopted them.
    pub(crate) fn abandon_held(&self) {
        self.held.lock().clear();
    }
}
