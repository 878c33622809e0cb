//! Writing of this node's stream: a snapshot first, then each commit.
//!
//! One message at a time is unacknowledged, and each names the sequence that it follows. If its
//! acknowledgement is lost, the last message of the stream says whether it was stored. A message of
//! another run that this server did not write is the fence of another node: then this node has no
//! sessions any more.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use gatepost_store::{StoreChange, StoreSnapshot};
use tokio::sync::mpsc;

use crate::error::BackboneError;
use crate::message_size::piece_bytes_max;
use crate::node_stream::copy::NextCopy;
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::node_stream::snapshot;
use crate::node_streams;
use crate::shared::Shared;

/// The time for an acknowledgement.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);
/// The pause after a message whose acknowledgement was lost: an election takes seconds.
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// Attempts to append a message after which the failure is logged.
const SILENT_ATTEMPTS: u32 = 25;
/// Bytes after a snapshot that a later snapshot replaces, at least.
const REPLACED_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Chunks of a snapshot that wait to be sent.
const CHUNKS_MAX: usize = 4;
/// The key space of the record whose commit opens a snapshot.
const SNAPSHOT_SPACE: &str = "backbone.snapshot";

/// The end of the copying of a connection, after which nothing is kept for it.
struct CopyUse(Arc<Shared>);

impl Drop for CopyUse {
    fn drop(&mut self) {
        self.0.copy.pause();
    }
}

/// Writes the stream for as long as the connection lasts.
pub(crate) async fn write(
    shared: Arc<Shared>,
    mut context: Context,
    stream: Stream,
) -> BackboneError {
    context.set_timeout(ACKNOWLEDGED_WITHIN);
    let _use = CopyUse(shared.clone());
    let id = shared.stream_id();
    let mut writer = NodeStreamWriter {
        subject: shared.subjects.node_stream(id),
        run: shared.next_origin().run,
        shared,
        context,
        stream,
        last: 0,
    };
    match writer.run().await {
        Ok(()) => BackboneError::Lost("this node's stream is not written".to_owned()),
        Err(error) => error,
    }
}

struct NodeStreamWriter {
    shared: Arc<Shared>,
    context: Context,
    stream: Stream,
    subject: String,
    run: u64,
    /// The sequence of the last message.
    last: u64,
}

impl NodeStreamWriter {
    async fn run(&mut self) -> Result<(), BackboneError> {
        self.last = self.confirmed_last().await?;
        loop {
            let snapshot_bytes = self.write_snapshot().await?;
            let replaced_at = REPLACED_BYTES_MIN.max(2 * snapshot_bytes);
            let mut bytes = 0;
            while bytes < replaced_at {
                match self.shared.copy.next().await {
                    NextCopy::Changes(changes) => {
                        bytes += changes.len() as u64;
                        self.append_changes(changes).await?;
                        self.shared.copy.stored();
                    }
                    NextCopy::Overflow => break,
                }
            }
        }
    }

    /// The last sequence of the stream, if this server has written all of it.
    async fn confirmed_last(&self) -> Result<u64, BackboneError> {
        let last = node_streams::last_message(&self.stream, &self.subject).await?;
        match last {
            None => {
                let info = self.stream.get_info().await;
                let info =
                    info.map_err(|error| BackboneError::request("reading a node's stream", error))?;
                Ok(info.state.last_sequence)
            }
            Some((_, message)) if message.kind == MessageKind::Fence => Err(BackboneError::Adopted),
            Some((sequence, _)) => Ok(sequence),
        }
    }

    /// Writes the content of the database; returns its bytes.
    async fn write_snapshot(&mut self) -> Result<u64, BackboneError> {
        let failed = |error: &dyn std::fmt::Display| {
            BackboneError::request("copying the sessions", error.to_string())
        };
        let snapshot = self.open_snapshot().await;
        self.append(MessageKind::Begin, Bytes::new()).await?;
        let begin = self.last;
        let (chunks, mut waiting) = mpsc::channel(CHUNKS_MAX);
        let reading = tokio::task::spawn_blocking(move || read_snapshot(&snapshot, &chunks));
        let mut bytes = 0;
        while let Some(chunk) = waiting.recv().await {
            bytes += chunk.len() as u64;
            self.append_changes(chunk).await?;
        }
        let read = reading.await.map_err(|error| failed(&error))?;
        read.map_err(|error| failed(&error))?;
        self.append(MessageKind::SnapshotEnd, Bytes::new()).await?;
        self.shared.copy.snapshot_stored();
        let purged = self.stream.purge().sequence(begin).await;
        if let Err(error) = purged {
            // The next snapshot removes what stays.
            tracing::debug!(target: "backbone", %error, "the node's stream is not shortened");
        }
        Ok(bytes)
    }

    /// Opens a snapshot at the next commit, which is tried again while the disk refuses it.
    async fn open_snapshot(&self) -> StoreSnapshot {
        loop {
            let snapshot = self.shared.copy.request_snapshot();
            let submitted = self.shared.log.store.submit([StoreChange::PutRecord {
                space: SNAPSHOT_SPACE,
                key: Bytes::new(),
                value: Bytes::new(),
            }]);
            if let Ok(ticket) = submitted {
                // A commit that succeeds is decided after the snapshot, or with its failure.
                let opened = tokio::select! {
                    snapshot = snapshot => snapshot.ok(),
                    Err(_) = ticket.committed() => None,
                };
                if let Some(snapshot) = opened {
                    return snapshot;
                }
            }
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    async fn append_changes(&mut self, mut bytes: Bytes) -> Result<(), BackboneError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let body_max = piece_bytes_max(&self.context.client());
        while bytes.len() > body_max {
            let part = bytes.split_to(body_max);
            self.append(MessageKind::Part, part).await?;
        }
        self.append(MessageKind::Changes, bytes).await
    }

    /// Appends a message after the last one, or finds that another node has fenced the stream.
    async fn append(&mut self, kind: MessageKind, body: Bytes) -> Result<(), BackboneError> {
        let message = StreamMessage {
            kind,
            run: self.run,
            number: self.shared.next_origin().number,
            body,
        };
        let mut attempts = 0_u32;
        loop {
            let error = match self.send(message.bytes()).await {
                Ok(sequence) => {
                    self.last = sequence;
                    return Ok(());
                }
                Err(error) => error,
            };
            attempts += 1;
            if attempts.is_multiple_of(SILENT_ATTEMPTS) {
                tracing::warn!(target: "backbone", %error,
                    "the NATS servers do not store changes of sessions; clients wait for their \
                     acknowledgements");
            }
            tokio::time::sleep(RETRY_EVERY).await;
            let Ok(last) = node_streams::last_message(&self.stream, &self.subject).await else {
                continue;
            };
            match last {
                Some((sequence, last)) if last == message => {
                    self.last = sequence;
                    return Ok(());
                }
                Some((_, last)) if last.kind == MessageKind::Fence => {
                    return Err(BackboneError::Adopted);
                }
                // A message of an earlier connection was on its way.
                Some((sequence, _)) => self.last = self.last.max(sequence),
                None => {}
            }
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<u64, BackboneError> {
        let failed = |error| BackboneError::request("appending to this node's stream", error);
        let message = PublishMessage::build()
            .payload(bytes)
            .expected_last_sequence(self.last);
        let sent = self.context.send_publish(self.subject.clone(), message);
        let acknowledgement = sent.await.map_err(failed)?.into_future().await;
        Ok(acknowledgement.map_err(failed)?.sequence)
    }
}

/// Reads a snapshot into chunks, until the receiver ends.
fn read_snapshot(
    snapshot: &StoreSnapshot,
    chunks: &mpsc::Sender<Bytes>,
) -> Result<(), gatepost_store::StoreError> {
    snapshot::encode(snapshot, |chunk| chunks.blocking_send(chunk).is_ok())
}
