//! Writing of one partition of the log: this node's entries, in order, with several unacknowledged
//! at once.
//!
//! After a failure, and at the beginning of a connection, the next entry is sent alone until it is
//! acknowledged. Otherwise the engine could elect a leader between two entries that are sent again,
//! and store the later one only.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use futures_util::future::join_all;
use gatepost_store::Ticket;

use crate::error::BackboneError;
use crate::log::append_queue::{LogEntry, NextEntry};
use crate::log::{Partition, kept};
use crate::shared::Shared;

/// Entries that are sent before the first is acknowledged. While so many are, publications wait and
/// share the next entry.
const UNACKNOWLEDGED_MAX: usize = 16;
/// The time for an acknowledgement. It is shorter than an election, since an entry that was stored
/// may be sent again.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);
/// The pause after an entry that was not stored: an election of the engine takes seconds.
const RETRY_EVERY: Duration = Duration::from_millis(200);

type Acknowledgement = Pin<Box<dyn Future<Output = Result<PublishAck, PublishError>> + Send>>;

/// Sends the entries for as long as the connection lasts.
pub(crate) async fn write(
    shared: Arc<Shared>,
    mut context: Context,
    partition: Arc<Partition>,
) -> BackboneError {
    context.set_timeout(ACKNOWLEDGED_WITHIN);
    let subject = shared.subjects.partition(partition.number);
    let mut writer = PartitionWriter {
        shared,
        context,
        partition,
        subject,
        sent: VecDeque::new(),
        is_trying: true,
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
    /// The acknowledgements of the queue's first entries.
    sent: VecDeque<Acknowledgement>,
    /// Whether it is not known that the engine stores entries now.
    is_trying: bool,
}

impl PartitionWriter {
    const fn unacknowledged_max(&self) -> usize {
        if self.is_trying {
            1
        } else {
            UNACKNOWLEDGED_MAX
        }
    }

    /// Sends what there is, and waits for the next event.
    async fn step(&mut self) -> Result<(), BackboneError> {
        let uncommitted = self.send().await?;
        let has_room = self.sent.len() < self.unacknowledged_max();
        let partition = self.partition.clone();
        let first = self.sent.front_mut();
        let acknowledged = tokio::select! {
            outcome = async { match first {
                Some(first) => first.as_mut().await,
                None => std::future::pending().await,
            } } => outcome,
            () = partition.queue.changed(), if has_room => return Ok(()),
            () = committed(uncommitted), if has_room => return Ok(()),
        };
        self.sent.pop_front();
        match acknowledged {
            Ok(_) => {
                self.is_trying = false;
                self.partition.queue.settle(&[true]);
                Ok(())
            }
            Err(error) => {
                self.recover(&error).await;
                Ok(())
            }
        }
    }

    /// Sends entries until enough are unacknowledged. Returns the commit that the next one waits
    /// for.
    async fn send(&mut self) -> Result<Option<Ticket>, BackboneError> {
        while self.sent.len() < self.unacknowledged_max() {
            let sent = self.sent.len();
            match self
                .partition
                .queue
                .next(sent, || self.shared.next_origin())
            {
                NextEntry::Send(entry) => self.send_entry(&entry).await?,
                NextEntry::Await(ticket) => return Ok(Some(ticket)),
                NextEntry::Nothing => break,
            }
        }
        Ok(None)
    }

    async fn send_entry(&mut self, entry: &Arc<LogEntry>) -> Result<(), BackboneError> {
        let bytes_max = self.context.client().server_info().max_payload;
        if entry.bytes.len() > bytes_max {
            self.refuse(entry);
            return Ok(());
        }
        let message = PublishMessage::build()
            .payload(entry.bytes.clone())
            .message_id(&entry.id);
        let sent = self.context.send_publish(self.subject.clone(), message);
        let acknowledgement = sent
            .await
            .map_err(|error| BackboneError::request("appending to the log", error))?;
        self.sent.push_back(acknowledgement.into_future());
        Ok(())
    }

    /// An entry is larger than the NATS servers take.
    fn refuse(&self, entry: &LogEntry) {
        tracing::warn!(target: "backbone", bytes = entry.bytes.len(),
            "a publication is larger than the NATS servers take: raise their max_payload");
        let cause = "it is larger than the NATS servers' max_payload";
        self.partition.queue.refuse(self.sent.len(), cause);
        if let Some(id) = entry.kept {
            // If this fails, it is refused again after the next start.
            let _ = self.shared.log.store.submit_deferred([kept::remove(id)]);
        }
    }

    /// The first entry was not stored, or its acknowledgement did not arrive. The outcome of the
    /// others is waited for, so that the order of what is sent again can be decided.
    async fn recover(&mut self, error: &PublishError) {
        tracing::warn!(target: "backbone", partition = self.partition.number, %error,
            "the log does not store this node's publications; they are tried again");
        let others = join_all(self.sent.drain(..)).await;
        let outcomes = others.iter().map(Result::is_ok);
        let outcomes: Vec<bool> = std::iter::once(false).chain(outcomes).collect();
        self.partition.queue.settle(&outcomes);
        self.is_trying = true;
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

async fn committed(ticket: Option<Ticket>) {
    match ticket {
        // The queue handles the outcome.
        Some(ticket) => drop(ticket.committed().await),
        None => std::future::pending().await,
    }
}
