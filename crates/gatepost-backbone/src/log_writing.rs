//! Writing of one partition of the log: this node's entries, in order, each when the one before it
//! is stored.
//!
//! With several unacknowledged entries, the engine could change the leader between two of them, and
//! store the later one only. Publications that wait meanwhile share the next entry. Those that are
//! kept in the database have entries of their own, which the engine stores together: all of them
//! or none. After a failure they are sent one at a time, since it refuses all of them if it has
//! stored one before.
//!
//! The engine recognizes an entry that is sent again by its message id, which it forgets after some
//! minutes. If no acknowledgement arrives for that long, the log is read to its end first.

use std::fmt::Display;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::header;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use gatepost_store::Ticket;

use crate::error::BackboneError;
use crate::log::append_queue::{ENTRY_BYTES_MAX, EntryLimits, LogEntry, NextEntries};
use crate::log::{Partition, kept};
use crate::log_end;
use crate::message_size::content_bytes_max;
use crate::shared::Shared;

/// The time for an acknowledgement. It is shorter than an election, since an entry that was stored
/// may be sent again.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);
/// Entries that the engine stores together.
const BATCH_MAX: usize = 64;
/// The pause after an entry that was not stored: an election of the engine takes seconds.
const RETRY_EVERY: Duration = Duration::from_millis(200);

/// Sends the entries for as long as the connection lasts.
pub(crate) async fn write(
    shared: Arc<Shared>,
    mut context: Context,
    stream: Stream,
    partition: Arc<Partition>,
) -> BackboneError {
    context.set_timeout(ACKNOWLEDGED_WITHIN);
    let subject = shared.subjects.partition(partition.number);
    let mut writer = PartitionWriter {
        shared,
        context,
        recognized_for: stream.cached_info().config.duplicate_window / 2,
        partition,
        subject,
        // It is not known what an earlier connection has stored.
        batch_max: 1,
    };
    loop {
        if let Err(error) = writer.step().await {
            return error;
        }
    }
}

struct PartitionWriter {
    shared: Arc<Shared>,
    context: Context,
    partition: Arc<Partition>,
    subject: String,
    /// The time within which an entry is sent again without doubt. The engine knows its message id
    /// for twice as long.
    recognized_for: Duration,
    /// Entries that are sent together: one while it is not known whether they are stored.
    batch_max: usize,
}

impl PartitionWriter {
    /// Appends the first entries, or waits for one.
    async fn step(&mut self) -> Result<(), BackboneError> {
        let partition = self.partition.clone();
        let queue = &partition.queue;
        let origin = || self.shared.next_origin();
        let limits = EntryLimits {
            entries: self.batch_max,
            entry_bytes: ENTRY_BYTES_MAX.min(self.bytes_max()),
        };
        match queue.next(limits, self.recognized_for, origin) {
            NextEntries::Send(entries) => self.append(&entries).await?,
            NextEntries::Confirm => self.confirm().await,
            NextEntries::Await(ticket) => tokio::select! {
                () = committed(ticket) => {}
                () = queue.changed() => {}
            },
            NextEntries::Nothing => {
                self.batch_max = BATCH_MAX;
                queue.changed().await;
            }
        }
        Ok(())
    }

    /// Waits until the log was read to its present end, so that the entries that it has are known.
    async fn confirm(&mut self) {
        let end = log_end::append(&self.shared, &self.context, self.partition.number).await;
        let last = match end {
            Ok(last) => last,
            Err(error) => return self.pause(&error).await,
        };
        let progress = &self.partition.progress;
        let is_read = || {
            let read = progress.delivered();
            read.is_some_and(|read| read.next_sequence() > last)
        };
        while !is_read() {
            tokio::time::sleep(RETRY_EVERY).await;
        }
        self.partition.queue.confirm_absent();
    }

    /// The longest entry that the engine takes.
    fn bytes_max(&self) -> usize {
        content_bytes_max(&self.context.client())
    }

    async fn append(&mut self, entries: &[Arc<LogEntry>]) -> Result<(), BackboneError> {
        let bytes_max = self.bytes_max();
        if entries.iter().any(|entry| entry.bytes.len() > bytes_max) {
            match entries {
                [entry] => self.refuse(entry),
                _ => self.batch_max = 1,
            }
            return Ok(());
        }
        let acknowledgement = match entries {
            [entry] => self.send(entry, HeaderMap::new()).await?,
            _ => self.send_batch(entries).await?,
        };
        let begun = Instant::now();
        let acknowledged = acknowledgement.into_future().await;
        if acknowledged.is_ok() {
            self.shared.log.note_acknowledged(begun.elapsed());
        }
        match acknowledged {
            Ok(_) if self.partition.queue.stored(entries.len()) => {}
            Ok(_) => self.batch_max = BATCH_MAX,
            // The engine refuses a batch of which it has an entry, by an earlier attempt or by
            // another node. Each entry is sent by itself, and recognized.
            Err(error) if entries.len() > 1 && error.kind() == PublishErrorKind::Other => {
                self.batch_max = 1;
            }
            Err(error) => self.pause(&error).await,
        }
        Ok(())
    }

    async fn send(
        &self,
        entry: &LogEntry,
        headers: HeaderMap,
    ) -> Result<PublishAckFuture, BackboneError> {
        let message = PublishMessage::build()
            .payload(entry.bytes.clone())
            .headers(headers)
            .message_id(&entry.id);
        let sent = self.context.send_publish(self.subject.clone(), message);
        sent.await
            .map_err(|error| BackboneError::request("appending to the log", error))
    }

    /// Sends entries of which all or none are stored. The last one is acknowledged for all.
    async fn send_batch(
        &self,
        entries: &[Arc<LogEntry>],
    ) -> Result<PublishAckFuture, BackboneError> {
        let origin = self.shared.next_origin();
        let batch = format!("{}-{:x}-{:x}", origin.node, origin.run, origin.number);
        let headers = |place: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(header::NATS_BATCH_ID, batch.as_str());
            headers.insert(header::NATS_BATCH_SEQUENCE, (place + 1).to_string());
            headers
        };
        let last = entries.len() - 1;
        for (place, entry) in entries[..last].iter().enumerate() {
            let mut headers = headers(place);
            headers.insert(header::NATS_MESSAGE_ID, entry.id.as_str());
            let client = self.context.client();
            let (subject, bytes) = (self.subject.clone(), entry.bytes.clone());
            let sent = client.publish_with_headers(subject, headers, bytes).await;
            sent.map_err(|error| BackboneError::request("appending to the log", error))?;
        }
        let mut headers = headers(last);
        headers.insert(header::NATS_BATCH_COMMIT, header::NATS_BATCH_COMMIT_FINAL);
        self.send(&entries[last], headers).await
    }

    /// An entry is larger than the NATS servers take.
    fn refuse(&self, entry: &LogEntry) {
        tracing::warn!(target: "backbone", bytes = entry.bytes.len(),
            "a publication is larger than the NATS servers take: raise their max_payload");
        let cause = "it is larger than the NATS servers' max_payload";
        self.partition.queue.refuse(cause);
        if let Some(kept) = &entry.kept {
            // If this fails, it is refused again after the next start.
            let _ = self.shared.log.store.submit_deferred([kept::remove(kept)]);
        }
    }

    /// The entries were not stored, or their acknowledgement did not arrive.
    async fn pause(&mut self, error: &impl Display) {
        self.batch_max = 1;
        tracing::warn!(target: "backbone", partition = self.partition.number, %error,
            "the log does not store this node's publications; they are tried again");
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

async fn committed(ticket: Ticket) {
    // The queue handles the outcome.
    drop(ticket.committed().await);
}
