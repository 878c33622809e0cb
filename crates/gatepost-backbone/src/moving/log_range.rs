//! Reads a part of a partition of the log that this node has read already, or need not deliver.

use std::ops::ControlFlow;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::{State, Stream};
use futures_util::StreamExt as _;

use crate::encoding::{BundleOrigin, EncodingError};
use crate::error::BackboneError;
use crate::log::entry::{self, EntryContent};

/// Questions for the state of the log until a leader has all entries that are wanted.
const ATTEMPTS: usize = 20;
/// The pause between them.
const RETRY_EVERY: Duration = Duration::from_millis(100);

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request("reading the log", error)
}

/// The state of the log, from a leader that has its entries up to `last`. One that has just been
/// elected, or that was cut off, may lack some.
async fn state_with(stream: &Stream, last: u64) -> Result<State, BackboneError> {
    let mut attempts = 0;
    loop {
        let state = stream.get_info().await.map_err(failed)?.state;
        if state.last_sequence >= last {
            return Ok(state);
        }
        attempts += 1;
        if attempts == ATTEMPTS {
            let text = format!(
                "its leader has entries up to {}, not {last}",
                state.last_sequence
            );
            return Err(failed(text));
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// The outcome of reading.
pub(super) struct LogRangeEnd {
    /// The first entry that the log still had.
    pub(super) first: u64,
    /// The entry after the last one that was visited.
    pub(super) next: u64,
}

/// Visits the entries from `first` up to `last`, which the log must have. An entry is passed over
/// if no version can read it, as all nodes do.
pub(super) async fn read(
    stream: &Stream,
    first: u64,
    last: u64,
    mut visit: impl FnMut(u64, BundleOrigin, EntryContent) -> ControlFlow<()>,
) -> Result<LogRangeEnd, BackboneError> {
    let state = state_with(stream, last).await?;
    let mut end = LogRangeEnd {
        first: state.first_sequence,
        next: first,
    };
    // Of a part that has nothing, no message would come.
    if state.first_sequence > last || first > last {
        end.first = end.first.max(last + 1);
        end.next = last + 1;
        return Ok(end);
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
        if sequence < end.next {
            // The client's consumer has begun again.
            continue;
        }
        if sequence <= last {
            end.next = sequence + 1;
            let is_over = match entry::read(message.payload.clone()) {
                Ok((origin, content)) => visit(sequence, origin, content).is_break(),
                Err(error @ EncodingError::Version(_)) => {
                    return Err(BackboneError::unreadable("the log", error));
                }
                Err(_) => false,
            };
            if is_over {
                return Ok(end);
            }
        }
        if sequence >= last {
            end.next = last + 1;
            return Ok(end);
        }
    }
    Err(BackboneError::Lost("the log ended".to_owned()))
}
