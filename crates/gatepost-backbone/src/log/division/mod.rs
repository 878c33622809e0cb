//! The division of shared subscriptions among the nodes that have members.
//!
//! Each partition of the log says which nodes have members of a shared subscription: a node appends
//! an entry when that changes (`group_entry.rs`). So all nodes have the same division at the same
//! position of the partition, and compute from it which node serves a publication there, without
//! asking one another.
//!
//! - `choice.rs`: the node that serves a publication;
//! - `rows.rs`: the division in the database.
//!
//! Invariants:
//! - The division depends only on the entries of the partition up to a position.
//! - The database has the division in the same commit as the position.
//! - While a node has members, some node that has members is chosen for each publication: a node
//!   that is gone is chosen only if no other has members.

mod choice;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use gatepost_broker::GroupMembers;
use gatepost_message::{MessageId, TopicFilter};

use super::group_entry::GroupEntry;

/// The part of one node in a shared subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeShare {
    /// The members that it has, at least one.
    pub(crate) members: GroupMembers,
    /// Whether the node is not running, or not part of the cluster.
    pub(crate) is_gone: bool,
}

impl NodeShare {
    /// The share of a node that runs; `None` without members.
    pub(crate) fn of(members: GroupMembers) -> Option<Self> {
        (members.all > 0).then_some(Self {
            members,
            is_gone: false,
        })
    }
}

/// A change of the division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DivisionChange {
    /// The share of a node in a shared subscription; `None` if it has no members any more.
    Share {
        group: TopicFilter,
        node: u8,
        share: Option<NodeShare>,
    },
    /// All shares end.
    Cleared,
}

/// The division at one position of one partition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupDivision {
    groups: HashMap<TopicFilter, BTreeMap<u8, NodeShare>>,
}

impl GroupDivision {
    /// Applies an entry of this node, and returns what has changed.
    pub(crate) fn apply(&mut self, node: u8, entry: &GroupEntry) -> Vec<DivisionChange> {
        match entry {
            GroupEntry::Members(all) => {
                let shares = all.iter();
                let changes = shares.map(|(group, members)| {
                    let (group, share) = (group.clone(), NodeShare::of(*members));
                    DivisionChange::Share { group, node, share }
                });
                changes.inspect(|change| self.change(change)).collect()
            }
            GroupEntry::Gone(nodes) => {
                let changes = self.gone(nodes);
                for change in &changes {
                    self.change(change);
                }
                changes
            }
            GroupEntry::Restart => {
                self.groups.clear();
                vec![DivisionChange::Cleared]
            }
        }
    }

    fn gone(&self, nodes: &[u8]) -> Vec<DivisionChange> {
        let mut changes = Vec::new();
        for (group, shares) in &self.groups {
            for node in nodes {
                let share = shares.get(node).filter(|share| !share.is_gone);
                changes.extend(share.map(|share| DivisionChange::Share {
                    group: group.clone(),
                    node: *node,
                    share: Some(NodeShare {
                        is_gone: true,
                        ..*share
                    }),
                }));
            }
        }
        changes
    }

    /// Makes a change.
    pub(crate) fn change(&mut self, change: &DivisionChange) {
        match change {
            DivisionChange::Cleared => self.groups.clear(),
            DivisionChange::Share { group, node, share } => {
                let shares = self.groups.entry(group.clone()).or_default();
                match share {
                    Some(share) => shares.insert(*node, *share),
                    None => shares.remove(node),
                };
                if shares.is_empty() {
                    self.groups.remove(group);
                }
            }
        }
    }

    /// The share of a node.
    pub(crate) fn share(&self, group: &TopicFilter, node: u8) -> Option<NodeShare> {
        self.groups.get(group)?.get(&node).copied()
    }

    /// All shares of a node.
    pub(crate) fn groups_of(&self, node: u8) -> impl Iterator<Item = &TopicFilter> {
        let groups = self.groups.iter();
        groups.filter_map(move |(group, shares)| shares.contains_key(&node).then_some(group))
    }

    /// All shares.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (&TopicFilter, u8, NodeShare)> {
        let groups = self.groups.iter();
        groups.flat_map(|(group, shares)| {
            let shares = shares.iter();
            shares.map(move |(node, share)| (group, *node, *share))
        })
    }

    /// Whether a node other than this one has members.
    pub(crate) fn has_other(&self, group: &TopicFilter, node: u8) -> bool {
        let shares = self.groups.get(group);
        shares.is_some_and(|shares| shares.keys().any(|other| *other != node))
    }

    /// The node that serves a publication of this id; `None` if none has members. The node
    /// `passed_on_by`, which had no members left, is chosen only if there is no other.
    pub(crate) fn choose(
        &self,
        group: &TopicFilter,
        id: MessageId,
        passed_on_by: Option<u8>,
    ) -> Option<u8> {
        let shares = self.groups.get(group)?;
        let others = shares.iter().map(|(node, share)| (*node, *share));
        let others: choice::NodeCandidates = others
            .filter(|(node, _)| Some(*node) != passed_on_by)
            .collect();
        let chosen = choice::choose(&others, group, id);
        chosen.or_else(|| {
            shares
                .keys()
                .copied()
                .find(|node| Some(*node) == passed_on_by)
        })
    }
}
