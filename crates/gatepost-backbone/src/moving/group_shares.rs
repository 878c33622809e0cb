//! The shares of a failed node in shared subscriptions: they end, and what the node was to serve
//! and has not served goes to other members.
//!
//! The entry by which the shares end is the boundary. From the failed node's position up to it,
//! this node follows the division that the failed node had, and passes on what the failed node was
//! chosen for. After it, other members are chosen.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use async_nats::jetstream::stream::Stream;
use gatepost_broker::LoggedPublication;
use gatepost_message::TopicFilter;

use super::{MoveContext, log_kept, log_range};
use crate::encoding::BundleOrigin;
use crate::error::BackboneError;
use crate::log::division::GroupDivision;
use crate::log::entry::{EntryContent, EntryPublication};
use crate::log::group_entry::GroupEntry;
use crate::log::position::LogPosition;
use crate::node_epoch::NodeStreamId;
use crate::node_stream::replica::Replica;
use crate::passing_on::{matches, passed_on};

/// Publications that are passed on at once.
const PUBLICATIONS_MAX: usize = 10_000;
/// The interval at which the queue of the log is checked while it is long.
const QUEUE_EVERY: Duration = Duration::from_millis(10);

/// The division of a partition that a failed node had, and its position.
pub(super) struct FailedShares {
    number: u16,
    division: GroupDivision,
    position: LogPosition,
}

/// The shares of a failed node, by partition. It had read the log up to `positions`.
pub(super) fn of(
    stream_id: NodeStreamId,
    replica: &Replica,
    positions: &[LogPosition],
) -> Vec<FailedShares> {
    let mut all = Vec::new();
    for (number, &position) in (1..).zip(positions) {
        let stored = replica.division(number);
        if stored.stream != Some(position.stream) {
            tracing::warn!(target: "backbone", node = stream_id.node, partition = number,
                "a failed node did not know the members of shared subscriptions; what it was to \
                 serve is not looked for");
            continue;
        }
        all.push(FailedShares {
            number,
            division: stored.division,
            position,
        });
    }
    all
}

/// Ends the shares of a node in an epoch, and passes on what it has not served. The sessions of the
/// node must have been adopted.
pub(super) async fn pass_on(
    context: &MoveContext,
    stream_id: NodeStreamId,
    shares: Vec<FailedShares>,
    positions: &[LogPosition],
) -> Result<(), BackboneError> {
    // Members that were adopted are chosen from the boundary on.
    if let Some(barrier) = context.shared.groups.barrier() {
        barrier.reached().await;
    }
    for mut one in shares {
        let boundary = end_shares(context, stream_id, one.number).await?;
        let index = usize::from(one.number) - 1;
        let own = context.shared.log.partitions[index].progress.delivered();
        if own.is_some_and(|own| own.stream != one.position.stream) {
            continue; // The entries of a stream that was replaced are gone.
        }
        let mut next = one.position.next_sequence();
        while next <= boundary {
            let (due, reached) = one.due(context, stream_id, next, boundary).await?;
            next = reached;
            log_kept::log_kept(context, positions, due).await?;
            while context.shared.log.waiting() > PUBLICATIONS_MAX as u64 {
                tokio::time::sleep(QUEUE_EVERY).await;
            }
        }
    }
    Ok(())
}

/// Appends that the shares end; returns the sequence of the entry.
async fn end_shares(
    context: &MoveContext,
    stream_id: NodeStreamId,
    partition: u16,
) -> Result<u64, BackboneError> {
    let shared = &context.shared;
    let failed = |error| BackboneError::request("appending to the log", error);
    let entry = GroupEntry::Adopted(stream_id).bytes(shared.next_origin());
    let subject = shared.subjects.partition(partition);
    let sent = context.engine.publish(subject, entry).await;
    let acknowledgement = sent.map_err(failed)?.await.map_err(failed)?;
    Ok(acknowledgement.sequence)
}

impl FailedShares {
    /// The publications that the node was to serve from this entry on, and the next entry to read.
    async fn due(
        &mut self,
        context: &MoveContext,
        stream_id: NodeStreamId,
        first: u64,
        boundary: u64,
    ) -> Result<(Vec<LoggedPublication>, u64), BackboneError> {
        let stream: &Stream = &context.log[usize::from(self.number) - 1];
        let now = context.shared.log.store.time_for_ages();
        let has_shares = self.division.groups_of(stream_id.node).next().is_some();
        let mut due = Vec::new();
        let mut is_over = false;
        let visit = |sequence, origin: BundleOrigin, content| {
            match content {
                EntryContent::Groups(entry) => {
                    self.division.apply(origin.node, &entry);
                    // Another node may have begun this adoption.
                    is_over = self.division.is_adopted(stream_id);
                }
                EntryContent::Publications(publications) => {
                    for (index, one) in publications.iter().enumerate() {
                        if self.position.includes(sequence, index) {
                            continue;
                        }
                        let groups = served(&self.division, stream_id, origin.node, one);
                        let groups = groups.into_iter();
                        due.extend(groups.filter_map(|group| passed_on(&one.logged, group, now)));
                    }
                }
            }
            if is_over || due.len() >= PUBLICATIONS_MAX {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let end = log_range::read(stream, first, boundary, visit).await?;
        let missed = end.first.saturating_sub(first).min(boundary - first);
        if missed > 0 && has_shares {
            context.shared.log.note_missed(missed);
            tracing::warn!(target: "backbone", node = stream_id.node, entries = missed,
                "messages that a failed node was to serve were removed from the log");
        }
        let reached = if is_over { boundary + 1 } else { end.next };
        Ok((due, reached))
    }
}

/// The shared subscriptions for which the node was to serve a publication, in this epoch or an
/// earlier one.
fn served(
    division: &GroupDivision,
    stream_id: NodeStreamId,
    origin: u8,
    one: &EntryPublication,
) -> BTreeSet<TopicFilter> {
    let NodeStreamId { node, epoch } = stream_id;
    let publication = &one.logged.publication;
    if publication.topic.is_internal() {
        return BTreeSet::new();
    }
    let is_chosen = |group: &&TopicFilter, by| {
        let chosen = division.choose_share(group, publication.id, by);
        chosen.is_some_and(|(chosen, share)| chosen == node && share.epoch <= epoch)
    };
    if let Some(passed_on) = &one.logged.passed_on {
        let group = Some(&passed_on.group).filter(|group| is_chosen(group, Some(origin)));
        return group.cloned().into_iter().collect();
    }
    let groups = division.groups_of(node);
    let groups = groups.filter(|group| matches(group, publication.topic.as_str()));
    groups
        .filter(|group| is_chosen(group, None))
        .cloned()
        .collect()
}
