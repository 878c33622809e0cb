//! Publications that this node brings into the log for a failed one: those that the failed node
//! kept in its database, and those that it was to serve to shared subscriptions.
//!
//! Some of them may be in the log already: as entries that the failed node had not read back, as
//! entries of another node that began to adopt it, or as entries that are stored only now. This
//! node looks through the log, keeps those that are not there, and appends them under the same
//! message ids.
//!
//! Nothing is kept that this node may have read already: it would find the publication in the log
//! never again, keep it without end, and it would be appended a second time at the next start, or
//! by the node that adopts this one. So what this node looks through ends with an entry of its
//! own. The engine's answer for the end of the log may be that of a leader that was cut off.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use async_nats::jetstream::stream::Stream;
use gatepost_broker::LoggedPublication;

use super::{MoveContext, log_range};
use crate::error::BackboneError;
use crate::log::append_queue::Append;
use crate::log::entry::EntryContent;
use crate::log::identity::LogIdentity;
use crate::log::position::LogPosition;
use crate::log::{Partition, kept};
use crate::log_end;

/// The publications of one partition.
type OfPartition = HashMap<LogIdentity, LoggedPublication>;

/// Brings publications of a node into the log that had read it up to `positions`.
pub(super) async fn log_kept(
    context: &MoveContext,
    positions: &[LogPosition],
    publications: Vec<LoggedPublication>,
) -> Result<(), BackboneError> {
    if publications.is_empty() {
        return Ok(());
    }
    let log = &context.shared.log;
    let mut by_partition: HashMap<u16, OfPartition> = HashMap::new();
    for one in publications {
        let number = log.partition_of(&one.publication.topic).number;
        let of_partition = by_partition.entry(number).or_default();
        of_partition.insert(LogIdentity::of(&one), one);
    }
    for (number, of_partition) in by_partition {
        let index = usize::from(number) - 1;
        let (partition, stream) = (&log.partitions[index], &context.log[index]);
        let from = positions.get(index).copied();
        log_partition(context, partition, stream, from, of_partition).await?;
    }
    Ok(())
}

async fn log_partition(
    context: &MoveContext,
    partition: &Partition,
    stream: &Stream,
    from: Option<LogPosition>,
    publications: OfPartition,
) -> Result<(), BackboneError> {
    let own = partition.progress.delivered();
    // The entries of a stream that was replaced are gone.
    let from = from.filter(|from| own.is_none_or(|own| own.stream == from.stream));
    let first = from.map_or(1, |from| from.next_sequence());
    // First: the reader of the partition notices what the log gets from now on.
    let mut adoption = PublicationAdoption::begin(partition, &publications);
    let last = log_end::append(&context.shared, &context.engine, partition.number).await?;
    let found = found_in_log(stream, first, last, &publications).await?;
    // An earlier attempt of this node may have kept some of them.
    let mut changes: Vec<_> = found.iter().map(kept::remove).collect();
    for identity in &found {
        partition.queue.found_in_log(identity);
    }
    // The reader may have found others meanwhile. It removes what it finds after this. What an
    // earlier attempt has adopted is appended again: the engine knows its message id.
    let rest = publications.into_iter();
    let rest = rest.filter(|(identity, _)| partition.queue.is_adopted(identity));
    let mut rest: Vec<_> = rest.map(|(_, one)| one).collect();
    rest.sort_by_key(|one| one.publication.id);
    changes.extend(rest.iter().map(kept::put));
    if changes.is_empty() {
        return Ok(());
    }
    let failed = |error| BackboneError::request("keeping publications", error);
    let ticket = context.shared.log.store.submit(changes).map_err(failed)?;
    // From now on they may be in the database, also if the connection ends before that is known.
    adoption.is_kept = true;
    for one in rest {
        let append = Append::of_kept(one, Some(ticket.clone()));
        partition.queue.push(append);
    }
    let stored = ticket.committed().await;
    adoption.is_kept = stored.is_ok();
    stored.map_err(failed)
}

/// The adoption of publications, which is undone unless this node keeps them: then the reader of
/// the partition does not look for them any more.
struct PublicationAdoption<'a> {
    partition: &'a Partition,
    /// Publications that this node had not adopted before.
    new: HashSet<LogIdentity>,
    is_kept: bool,
}

impl<'a> PublicationAdoption<'a> {
    fn begin(partition: &'a Partition, publications: &OfPartition) -> Self {
        Self {
            partition,
            new: partition.queue.adopt(publications.keys().cloned()),
            is_kept: false,
        }
    }
}

impl Drop for PublicationAdoption<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.partition.queue.forget_adopted(&self.new);
        }
    }
}

/// The publications that the log has from an entry on, up to another one.
async fn found_in_log(
    stream: &Stream,
    first: u64,
    last: u64,
    wanted: &OfPartition,
) -> Result<HashSet<LogIdentity>, BackboneError> {
    let mut found = HashSet::new();
    let visit = |_, _, content: EntryContent| {
        let publications = content.publications().into_iter();
        let kept = publications.filter(|one| one.is_kept);
        let identities = kept.map(|one| LogIdentity::of(&one.logged));
        found.extend(identities.filter(|identity| wanted.contains_key(identity)));
        ControlFlow::Continue(())
    };
    log_range::read(stream, first, last, visit).await?;
    Ok(found)
}
