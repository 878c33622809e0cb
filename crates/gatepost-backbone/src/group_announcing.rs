//! Entries of this node about shared subscriptions: its own members, and nodes that are gone.
//!
//! An entry has the present numbers of members, so a later one replaces an earlier one. Changes
//! that come while an entry is being stored share the next one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use gatepost_broker::{Broker, GroupMembers};
use gatepost_message::TopicFilter;

use crate::encoding::BundleOrigin;
use crate::error::BackboneError;
use crate::log::Partition;
use crate::log::division::NodeShare;
use crate::log::group_entry::GroupEntry;
use crate::log::partition_groups::AppendedMembers;
use crate::shared::Shared;

/// The time for an acknowledgement.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);
/// The shared subscriptions in one entry, and the bytes up to which it accepts further ones.
const GROUPS_MAX: usize = 500;
const ENTRY_BYTES_MAX: usize = 32 * 1024;
/// The time in which changes after an entry are gathered for the next one.
const GATHER_FOR: Duration = Duration::from_millis(20);
/// The interval at which nodes are looked for that are gone, and failed entries are tried again.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The time for which a node must be gone; each further node that may say so waits for longer.
const GONE_FOR: Duration = Duration::from_secs(1);

/// Appends entries for as long as the connection lasts.
pub(crate) async fn run(
    shared: Arc<Shared>,
    broker: Broker,
    mut context: Context,
) -> BackboneError {
    context.set_timeout(ACKNOWLEDGED_WITHIN);
    for partition in &shared.log.partitions {
        partition.groups.appended.lock().clear();
    }
    let mut announcer = GroupAnnouncer {
        shared: shared.clone(),
        broker,
        context,
        failing_since: None,
        gone_since: HashMap::new(),
    };
    shared.groups.follow();
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    loop {
        tokio::select! {
            () = shared.groups.changed() => {}
            _ = ticks.tick() => announcer.report_gone().await,
        }
        announcer.announce().await;
        tokio::time::sleep(GATHER_FOR).await;
    }
}

struct GroupAnnouncer {
    shared: Arc<Shared>,
    broker: Broker,
    context: Context,
    failing_since: Option<Instant>,
    /// Nodes that are not alive, by number.
    gone_since: HashMap<u8, Instant>,
}

impl GroupAnnouncer {
    /// Appends what has changed.
    async fn announce(&mut self) {
        self.shared.groups.end_moves();
        let changed = self.shared.groups.take();
        let mut failed = HashSet::new();
        for partition in &self.shared.log.partitions {
            let of_partition = changed.groups.iter();
            let of_partition: Vec<&TopicFilter> = of_partition
                .filter(|group| self.shared.log.may_have(partition, group))
                .collect();
            if of_partition.is_empty() {
                continue;
            }
            if !partition.groups.division.read().is_complete {
                failed.extend(of_partition.into_iter().cloned());
                continue;
            }
            let members = self.changes(partition, &of_partition);
            for some in in_entries(members) {
                let groups: Vec<TopicFilter> = some.iter().map(|(one, _)| one.clone()).collect();
                if !self.append_members(partition, some).await {
                    failed.extend(groups);
                }
            }
        }
        let wait_max = self.shared.settings.append_wait_max.duration();
        let is_overdue = |since: Instant| since.elapsed() >= wait_max;
        if failed.is_empty() {
            self.failing_since = None;
        } else {
            self.failing_since.get_or_insert_with(Instant::now);
            self.shared.groups.put_back(failed);
        }
        if self.failing_since.is_none_or(is_overdue) {
            self.shared.groups.confirm(changed.number);
        }
    }

    /// The members of those shared subscriptions of which the log has others.
    fn changes(
        &self,
        partition: &Partition,
        groups: &[&TopicFilter],
    ) -> Vec<(TopicFilter, GroupMembers)> {
        let present = groups.iter().map(|group| {
            let members = self.members(partition, group);
            (*group, members)
        });
        let is_changed = |(group, members): &(&TopicFilter, GroupMembers)| {
            let appended = partition.groups.appended.lock().get(*group).copied();
            if let Some(appended) = appended {
                return appended.members != *members;
            }
            let known = partition.groups.division.read();
            let (node, epoch) = (self.shared.node, self.shared.epoch());
            known.division.share(group, node) != NodeShare::of(*members, epoch)
        };
        let changed = present.filter(is_changed);
        changed
            .map(|(group, members)| (group.clone(), members))
            .collect()
    }

    /// The members of a shared subscription here. One that has moved to another node counts until
    /// that node has appended it.
    fn members(&self, partition: &Partition, group: &TopicFilter) -> GroupMembers {
        let members = self.broker.group_members(group);
        let is_moving = members.all == 0 && self.shared.groups.is_moving(group);
        let stays = is_moving && {
            let known = partition.groups.division.read();
            !known.division.has_other(group, self.shared.node)
        };
        if stays {
            return GroupMembers {
                connected: 0,
                all: 1,
            };
        }
        members
    }

    async fn append_members(
        &self,
        partition: &Partition,
        members: Vec<(TopicFilter, GroupMembers)>,
    ) -> bool {
        let origin = self.shared.next_origin();
        let number = origin.number;
        // First, since the entry may be read back before its acknowledgement.
        let appended = members.iter().map(|(group, members)| {
            let members = *members;
            (group.clone(), AppendedMembers { members, number })
        });
        partition.groups.appended.lock().extend(appended);
        let epoch = self.shared.epoch();
        let entry = GroupEntry::Members { epoch, members };
        let is_stored = self.append(partition, &entry, origin).await;
        if !is_stored {
            let mut appended = partition.groups.appended.lock();
            appended.retain(|_, one| one.number != number);
        }
        is_stored
    }

    /// Appends an entry; returns whether the log has it.
    async fn append(
        &self,
        partition: &Partition,
        entry: &GroupEntry,
        origin: BundleOrigin,
    ) -> bool {
        let subject = self.shared.subjects.partition(partition.number);
        let sent = self.context.publish(subject, entry.bytes(origin)).await;
        let stored = match sent {
            Ok(acknowledged) => acknowledged.await.map(|_| ()),
            Err(error) => Err(error),
        };
        match stored {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "backbone", partition = partition.number, %error,
                    "the log does not store the members of shared subscriptions; this is tried \
                     again");
                false
            }
        }
    }

    /// Appends which nodes are gone, if they have members and no other node has said so.
    async fn report_gone(&mut self) {
        let alive = self.shared.known_nodes.alive();
        let mut alive: BTreeSet<u8> = alive.into_iter().map(|record| record.node).collect();
        alive.insert(self.shared.node);
        let rank = alive.iter().position(|node| *node == self.shared.node);
        let gone_for = GONE_FOR * (1 + rank.unwrap_or_default() as u32);
        let mut gone_since = HashMap::new();
        for partition in &self.shared.log.partitions {
            let gone = missing(partition, &alive);
            for node in &gone {
                let since = self.gone_since.get(node).copied();
                gone_since.insert(*node, since.unwrap_or_else(Instant::now));
            }
            let due = gone.into_iter().filter(|node| {
                let since = gone_since.get(node);
                since.is_some_and(|since| since.elapsed() >= gone_for)
            });
            let due: Vec<u8> = due.collect();
            if !due.is_empty() {
                let origin = self.shared.next_origin();
                self.append(partition, &GroupEntry::Gone(due), origin).await;
            }
        }
        self.gone_since = gone_since;
    }
}

/// The content of entries that the engine takes.
fn in_entries(members: Vec<(TopicFilter, GroupMembers)>) -> Vec<Vec<(TopicFilter, GroupMembers)>> {
    let mut entries = Vec::new();
    let (mut some, mut bytes) = (Vec::new(), 0);
    for one in members {
        bytes += one.0.as_str().len();
        some.push(one);
        if some.len() >= GROUPS_MAX || bytes >= ENTRY_BYTES_MAX {
            entries.push(std::mem::take(&mut some));
            bytes = 0;
        }
    }
    entries.push(some);
    entries.retain(|some| !some.is_empty());
    entries
}

/// The nodes with members that are not alive, and of which the log does not say so.
fn missing(partition: &Partition, alive: &BTreeSet<u8>) -> BTreeSet<u8> {
    let known = partition.groups.division.read();
    let shares = known.division.shares().filter(|_| known.is_complete);
    let missing = shares.filter(|(_, node, share)| !share.is_gone && !alive.contains(node));
    missing.map(|(_, node, _)| node).collect()
}
