//! Reads a part of a partition of the log that this node has read already, or need not deliver.

use std::ops::ControlFlow;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt as _;

use crate::encoding::{BundleOrigin, EncodingError};
use crate::error::BackboneError;
use crate::log::entry::{self, EntryContent};

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request("reading the log", error)
}

/// The outcome of reading.
pub(super) struct LogRangeEnd {
    /// The first entry that the log still had.
    pub(super) first: u64,
    /// The entry after the last one that was visited.
    pub(super) next: u64,
}

/// Visits the entries from `first` up to `last`, or up to the present end of the log. An entry is
/// passed over if no version can read it, as all nodes do.
pub(super) async fn read(
    stream: &Stream,
    first: u64,
    last: Option<u64>,
    mut visit: impl FnMut(u64, BundleOrigin, EntryContent) -> ControlFlow<()>,
) -> Result<LogRangeEnd, BackboneError> {
    let state = stream.get_info().await.map_err(failed)?.state;
    let last = last.unwrap_or(state.last_sequence);
    let mut end = LogRangeEnd {
        first: state.first_sequence,
        next: first,
    };
    // Of a part that has nothing, no message would come.
    if state.messages == 0 || state.first_sequence > last || first > last {
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
