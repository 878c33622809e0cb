//! Publications that a failed node kept in its database until the log has them.
//!
//! Some of them may be in the log already: as entries that the failed node had not read back, or as
//! entries that are stored only now. This node keeps them, looks through the log, and appends those
//! that are not there under the same message ids.

use std::collections::{HashMap, HashSet};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt as _;
use gatepost_broker::LoggedPublication;
use gatepost_message::MessageId;
use gatepost_store::StoreError;

use super::MoveContext;
use crate::error::BackboneError;
use crate::log::append_queue::{Append, PendingAppend};
use crate::log::position::LogPosition;
use crate::log::{Partition, entry, kept};

/// The publications of one partition.
type OfPartition = HashMap<MessageId, LoggedPublication>;

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request("reading the log", error)
}

/// Brings publications into the log that a node kept which had read it up to `positions`.
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
        of_partition.insert(one.publication.id, one);
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
    partition.queue.adopt(publications.keys().copied());
    let own = partition.progress.delivered();
    // The entries of a stream that was replaced are gone.
    let from = from.filter(|from| own.is_none_or(|own| own.stream == from.stream));
    let first = from.map_or(1, |from| from.next_sequence());
    let found = kept_entries(stream, first, &publications).await?;
    let mut removals = Vec::new();
    for id in found {
        publications.remove(&id);
        partition.queue.found_in_log(id);
        removals.push(kept::remove(id));
    }
    if !removals.is_empty() {
        store(context.shared.log.store.submit(removals)).await?;
    }
    let mut rest: Vec<LoggedPublication> = publications.into_values().collect();
    rest.sort_by_key(|one| one.publication.id);
    for one in rest {
        if !partition.queue.is_adopted(one.publication.id) {
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

/// The ids that the log has from an entry on.
async fn kept_entries(
    stream: &Stream,
    first: u64,
    wanted: &OfPartition,
) -> Result<HashSet<MessageId>, BackboneError> {
    let mut found = HashSet::new();
    let state = stream.get_info().await.map_err(failed)?.state;
    let (first, last) = (first.max(state.first_sequence), state.last_sequence);
    if first > last || state.messages == 0 {
        return Ok(found);
    }
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: first,
        },
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(failed)?;
    let mut messages = consumer.messages().await.map_err(failed)?;
    while let Some(message) = messages.next().await {
        let message = message.map_err(failed)?;
        let sequence = message.info().map_err(failed)?.stream_sequence;
        // What this version cannot read, it has not written.
        let content = entry::read(message.payload.clone());
        let publications = content.map_or_else(|_| Vec::new(), |(_, one)| one.publications());
        let kept = publications.iter().filter(|one| one.is_kept);
        let ids = kept.map(|one| one.logged.publication.id);
        found.extend(ids.filter(|id| wanted.contains_key(id)));
        if sequence >= last {
            return Ok(found);
        }
    }
    Err(BackboneError::Lost("the log ended".to_owned()))
}
