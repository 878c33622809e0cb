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
//! - What a node was chosen for in an epoch is served by that node in this epoch, or, if another
//!   node adopts the epoch, passed on by that node. The entry of the adoption is the boundary: the
//!   members of the epoch do not count after it.

mod choice;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use gatepost_broker::GroupMembers;
use gatepost_message::{MessageId, TopicFilter};

use super::group_entry::GroupEntry;
use crate::node_epoch::NodeStreamId;

/// The part of one node in a shared subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeShare {
    /// The members that it has, at least one.
    pub(crate) members: GroupMembers,
    /// The epoch in which the node appended them.
    pub(crate) epoch: u64,
    /// Whether the node is not running, or not part of the cluster.
    pub(crate) is_gone: bool,
}

impl NodeShare {
    /// The share of a node that runs; `None` without members.
    pub(crate) fn of(members: GroupMembers, epoch: u64) -> Option<Self> {
        (members.all > 0).then_some(Self {
            members,
            epoch,
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
    /// Another node has adopted the sessions of a node in this epoch.
    Adopted(NodeStreamId),
    /// All shares end.
    Cleared,
}

/// The division at one position of one partition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupDivision {
    groups: HashMap<TopicFilter, BTreeMap<u8, NodeShare>>,
    /// The last epoch of each node that another node has adopted. Shares of these epochs no longer
    /// count.
    adopted: BTreeMap<u8, u64>,
}

impl GroupDivision {
    /// Applies an entry of this node, and returns what has changed.
    pub(crate) fn apply(&mut self, node: u8, entry: &GroupEntry) -> Vec<DivisionChange> {
        match entry {
            GroupEntry::Members { epoch, members } => {
                let mut changes = Vec::new();
                for (group, members) in members {
                    if self.is_outdated(group, node, *epoch) {
                        continue;
                    }
                    let (group, share) = (group.clone(), NodeShare::of(*members, *epoch));
                    let change = DivisionChange::Share { group, node, share };
                    self.change(&change);
                    changes.push(change);
                }
                changes
            }
            GroupEntry::Gone(nodes) => {
                let changes = self.gone(nodes);
                for change in &changes {
                    self.change(change);
                }
                changes
            }
            GroupEntry::Adopted(adopted) => {
                let changes = self.adopted(*adopted);
                for change in &changes {
                    self.change(change);
                }
                changes
            }
            GroupEntry::Restart => {
                let change = DivisionChange::Cleared;
                self.change(&change);
                vec![change]
            }
        }
    }

    /// Whether members that a node appends in an epoch do not count any more. A node that does not
    /// know yet that its sessions were adopted may still append some.
    fn is_outdated(&self, group: &TopicFilter, node: u8, epoch: u64) -> bool {
        let is_adopted = self.is_adopted(NodeStreamId { node, epoch });
        is_adopted
            || self
                .share(group, node)
                .is_some_and(|share| share.epoch > epoch)
    }

    /// Whether the sessions of a node in this epoch were adopted before the position.
    pub(crate) fn is_adopted(&self, stream: NodeStreamId) -> bool {
        let adopted = self.adopted.get(&stream.node);
        adopted.is_some_and(|adopted| *adopted >= stream.epoch)
    }

    fn adopted(&self, adopted: NodeStreamId) -> Vec<DivisionChange> {
        if self.is_adopted(adopted) {
            return Vec::new();
        }
        let NodeStreamId { node, epoch } = adopted;
        let ended = self.groups.iter().filter(|(_, shares)| {
            let share = shares.get(&node);
            share.is_some_and(|share| share.epoch <= epoch)
        });
        let ended = ended.map(|(group, _)| DivisionChange::Share {
            group: group.clone(),
            node,
            share: None,
        });
        ended.chain([DivisionChange::Adopted(adopted)]).collect()
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
            DivisionChange::Adopted(NodeStreamId { node, epoch }) => {
                self.adopted.insert(*node, *epoch);
            }
            DivisionChange::Cleared => *self = Self::default(),
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

    /// The epochs that were adopted.
    pub(crate) fn adoptions(&self) -> impl Iterator<Item = NodeStreamId> {
        let adopted = self.adopted.iter();
        adopted.map(|(&node, &epoch)| NodeStreamId { node, epoch })
    }

    /// Whether a node other than this one has members.
    pub(crate) fn has_other(&self, group: &TopicFilter, node: u8) -> bool {
        let shares = self.groups.get(group);
        shares.is_some_and(|shares| shares.keys().any(|other| *other != node))
    }

    /// Whether this node serves a publication in its present epoch. What it was to serve in an
    /// earlier one is served by the node that adopts it.
    pub(crate) fn is_served_by(
        &self,
        by: NodeStreamId,
        group: &TopicFilter,
        id: MessageId,
        passed_on_by: Option<u8>,
    ) -> bool {
        let chosen = self.choose_share(group, id, passed_on_by);
        chosen.is_some_and(|(node, share)| node == by.node && share.epoch >= by.epoch)
    }

    /// The node that serves a publication of this id; `None` if none has members. The node
    /// `passed_on_by`, which had no members left, is chosen only if there is no other.
    pub(crate) fn choose(
        &self,
        group: &TopicFilter,
        id: MessageId,
        passed_on_by: Option<u8>,
    ) -> Option<u8> {
        let chosen = self.choose_share(group, id, passed_on_by);
        chosen.map(|(node, _)| node)
    }

    /// The node that [`GroupDivision::choose`] chooses, with its share.
    pub(crate) fn choose_share(
        &self,
        group: &TopicFilter,
        id: MessageId,
        passed_on_by: Option<u8>,
    ) -> Option<(u8, NodeShare)> {
        let shares = self.groups.get(group)?;
        let others = shares.iter().map(|(node, share)| (*node, *share));
        let others: choice::NodeCandidates = others
            .filter(|(node, _)| Some(*node) != passed_on_by)
            .collect();
        let chosen = choice::choose(&others, group, id).or(passed_on_by)?;
        Some((chosen, *shares.get(&chosen)?))
    }
}
