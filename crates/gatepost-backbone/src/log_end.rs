//! The end of a partition of the log, as a majority of the engine's servers has it.
//!
//! A server that led a stream and was cut off may answer questions about the stream from what it
//! had then, until it learns of its successor. A server that has just been elected may not know
//! all entries yet. What is stored, however, a majority has stored after everything before it. So
//! a node that has to know whether the log lacks an entry appends one without publications, and
//! reads up to that.

use async_nats::jetstream::Context;

use crate::encoding;
use crate::error::BackboneError;
use crate::shared::Shared;

/// Appends an entry without publications; returns its sequence.
pub(crate) async fn append(
    shared: &Shared,
    context: &Context,
    partition: u16,
) -> Result<u64, BackboneError> {
    let failed = |error| BackboneError::request("appending to the log", error);
    let entry = encoding::begin(shared.next_origin()).freeze();
    let sent = context.publish(shared.subjects.partition(partition), entry);
    let acknowledgement = sent.await.map_err(failed)?.await.map_err(failed)?;
    Ok(acknowledgement.sequence)
}
