//! Publications that this node brings into the log for a failed one: those that the failed node
//! kept in its database, and those that it was to serve to shared subscriptions.
//!
//! Some of them may be in the log already: as entries that the failed node had not read back, as
//! entries of another node that began to adopt it, or as entries that are stored only now. This
//! node keeps them, looks through the log, and appends those that are not there under the same
//! message ids.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use async_nats::jetstream::stream::Stream;
use gatepost_broker::LoggedPublication;
use gatepost_store::StoreError;

use super::{MoveContext, log_range};
use crate::error::BackboneError;
use crate::log::append_queue::{Append, PendingAppend};
use crate::log::entry::EntryContent;
use crate::log::identity::LogIdentity;
use crate::log::position::LogPosition;
use crate::log::{Partition, kept};

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
    let changes: Vec<_> = publications.iter().map(kept::put).collect();
    let stored = store(log.store.submit(changes)).await;
    stored?;
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

async fn store(submitted: Result<gatepost_store::Ticket, StoreError>) -> Result<(), BackboneError> {
    let failed = |error| BackboneError::request("keeping publications", error);
    submitted.map_err(failed)?.committed().await.map_err(failed)
}

async fn log_partition(
    context: &MoveContext,
    partition: &Partition,
    stream: &Stream,
    from: Option<LogPosition>,
    mut publications: OfPartition,
) -> Result<(), BackboneError> {
    // First: the reader of the partition notices what the log gets from now on.
    partition.queue.adopt(publications.keys().cloned());
    let own = partition.progress.delivered();
    // The entries of a stream that was replaced are gone.
    let from = from.filter(|from| own.is_none_or(|own| own.stream == from.stream));
    let first = from.map_or(1, |from| from.next_sequence());
    let found = found_in_log(stream, first, &publications).await?;
    let mut removals = Vec::new();
    for identity in found {
        publications.remove(&identity);
        partition.queue.found_in_log(&identity);
        removals.push(kept::remove(&identity));
    }
    if !removals.is_empty() {
        store(context.shared.log.store.submit(removals)).await?;
    }
    let mut rest: Vec<_> = publications.into_iter().collect();
    rest.sort_by_key(|(_, one)| one.publication.id);
    for (identity, one) in rest {
        if !partition.queue.is_adopted(&identity) {
            continue; // The reader has found it meanwhile.
        }
        let (pending, _) = PendingAppend::new(1);
        partition.queue.push(Append {
            publications: vec![one],
            stored: None,
            earlier: None,
            pending,
            deadline: None,
        });
    }
    Ok(())
}

/// The publications that the log has from an entry on.
async fn found_in_log(
    stream: &Stream,
    first: u64,
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
    log_range::read(stream, first, None, visit).await?;
    Ok(found)
}
