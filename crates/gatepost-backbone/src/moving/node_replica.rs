//! The content of a failed node's stream, which is fenced first.

use std::time::SystemTime;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use super::MoveContext;
use crate::encoding::{EncodingError, Input};
use crate::error::BackboneError;
use crate::node_epoch::NodeStreamId;
use crate::node_stream::change;
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::node_stream::replica::Replica;
use crate::node_streams;

/// Attempts to append the fence, between which the node has appended something.
const FENCE_ATTEMPTS: usize = 5;

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request("reading a failed node's stream", error)
}

/// Ends a node's stream, so that the node can append nothing more. Returns the sequence of the
/// fence.
pub(super) async fn fence(
    context: &MoveContext,
    stream: &Stream,
    id: NodeStreamId,
) -> Result<u64, BackboneError> {
    let shared = &context.shared;
    let subject = shared.subjects.node_stream(id);
    for _ in 0..FENCE_ATTEMPTS {
        let alive = shared.known_nodes.alive();
        if alive.iter().any(|record| record.writes(id)) {
            return Err(failed("the node is there again"));
        }
        // First, so that a later message makes the fence fail. It is not the sequence of the last
        // message if that was removed.
        let expected = stream.get_info().await.map_err(failed)?.state.last_sequence;
        let last = node_streams::last_message(stream, &subject).await?;
        if let Some((sequence, last)) = &last
            && last.kind == MessageKind::Fence
        {
            return Ok(*sequence);
        }
        let origin = shared.next_origin();
        let fence = StreamMessage {
            kind: MessageKind::Fence,
            run: origin.run,
            number: origin.number,
            body: Bytes::copy_from_slice(&[shared.node]),
        };
        let message = PublishMessage::build()
            .payload(fence.bytes())
            .expected_last_sequence(expected);
        let sent = context.engine.send_publish(subject.clone(), message).await;
        // If the acknowledgement is lost, the fence is found in the next round.
        if let Ok(acknowledgement) = sent.map_err(failed)?.await {
            return Ok(acknowledgement.sequence);
        }
    }
    Err(failed("the node still writes its stream"))
}

/// Reads a stream up to its fence. Returns the time of that too, by the clock of the engine.
pub(super) async fn read(
    stream: &Stream,
    fence: u64,
) -> Result<(Replica, SystemTime), BackboneError> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::All,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(failed)?;
    let mut messages = consumer.messages().await.map_err(failed)?;
    let mut reader = ReplicaReader::default();
    while let Some(message) = messages.next().await {
        let message = message.map_err(failed)?;
        let info = message.info().map_err(failed)?;
        let (sequence, time) = (info.stream_sequence, info.published);
        let read = StreamMessage::read(message.payload.clone());
        let read = read.and_then(|read| reader.take(read));
        read.map_err(node_streams::unreadable)?;
        if sequence >= fence {
            return Ok((reader.replica, time.into()));
        }
    }
    Err(failed("it ended"))
}

/// The messages of a stream, as far as they were read.
#[derive(Default)]
struct ReplicaReader {
    /// The last complete snapshot, with the changes after it.
    replica: Replica,
    /// The content of a snapshot that is not complete.
    snapshot: Option<Replica>,
    /// The first parts of changes that are not complete.
    parts: BytesMut,
}

impl ReplicaReader {
    fn take(&mut self, message: StreamMessage) -> Result<(), EncodingError> {
        match message.kind {
            MessageKind::Begin => {
                self.snapshot = Some(Replica::default());
                self.parts.clear();
            }
            MessageKind::Part => self.parts.extend_from_slice(&message.body),
            MessageKind::Changes => {
                let bytes = if self.parts.is_empty() {
                    message.body
                } else {
                    self.parts.extend_from_slice(&message.body);
                    self.parts.split().freeze()
                };
                let replica = self.snapshot.as_mut().unwrap_or(&mut self.replica);
                let mut input = Input::new(bytes);
                // Nothing is applied of changes that cannot be read.
                let mut changes = Vec::new();
                while !input.is_empty() {
                    changes.push(change::read(&mut input)?);
                }
                for one in changes {
                    replica.apply(one);
                }
            }
            MessageKind::SnapshotEnd => {
                if let Some(snapshot) = self.snapshot.take() {
                    self.replica = snapshot;
                }
            }
            MessageKind::Fence => {}
        }
        Ok(())
    }
}
