//! Reading of one partition of the log: delivery of its entries to the sessions of this node.
//!
//! A batch of entries is delivered, and then stored together with the position after it. Several
//! batches may wait for their commit. If one fails, the broker undoes its deliveries, and reading
//! begins again after the last position that was stored.
//!
//! Wherever a reader waits, all that it has delivered is flushed, and its progress says so. Other
//! tasks of the thread rely on this: what a session has received is what the progress says.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::State;
use gatepost_broker::{Broker, OutOfMemory, PassedOn, Publisher};
use gatepost_message::Publication;
use gatepost_store::{StoreChange, StoreError};

use crate::encoding::{BundleOrigin, EncodingError};
use crate::error::BackboneError;
use crate::group_reading::GroupReader;
use crate::log::entry::{self, EntryContent, EntryPublication};
use crate::log::identity::LogIdentity;
use crate::log::position::LogPosition;
use crate::log::{Partition, kept};
use crate::log_end;
use crate::receiving::follow_clock;
use crate::retained::RetainDecision;
use crate::shared::Shared;
use crate::stream_creation::NumberedStream;
use crate::stream_reading::{ReceivedMessage, StreamReader};
use crate::unreadable::READ_AGAIN_EVERY;

/// Entries that are delivered before they are stored.
const BATCH_MAX: usize = 128;
/// The bytes of these entries, beyond which none is added.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The interval at which a position is stored after entries that change nothing here.
const POSITION_EVERY: Duration = Duration::from_secs(1);
/// Connections at which a stream may end before what was read of it.
const EARLY_ENDS_MAX: u32 = 10;
/// The pause while memory is short or the database fails.
const RETRY_EVERY: Duration = Duration::from_millis(500);

const READING: &str = "reading the log";

/// The reason why reading ended.
enum ReadEnd {
    /// The connection or the engine.
    Engine(BackboneError),
    /// The database of this node, which may work again.
    Store(StoreError),
}

/// Delivers the entries for as long as the connection lasts.
pub(crate) async fn read(
    shared: Arc<Shared>,
    broker: Broker,
    context: Context,
    stream: NumberedStream,
    partition: Arc<Partition>,
) -> BackboneError {
    loop {
        let partition = partition.clone();
        let groups = GroupReader::open(
            shared.clone(),
            broker.clone(),
            context.clone(),
            partition.clone(),
        );
        let mut reader = PartitionReader {
            publisher: broker.node_publisher(),
            groups,
            context: context.clone(),
            shared: shared.clone(),
            partition: partition.clone(),
            reached: None,
            bytes: 0,
            position_stored: Instant::now(),
            submitted_earlier: Vec::new(),
            is_readable: false,
        };
        match reader.run(&stream).await {
            ReadEnd::Engine(error @ BackboneError::Later { .. }) => {
                shared.unreadable.note(&partition.description(), &error);
                partition.note_unreadable();
                tokio::time::sleep(READ_AGAIN_EVERY).await;
            }
            ReadEnd::Engine(error) => return error,
            ReadEnd::Store(error) => {
                tracing::warn!(target: "backbone", partition = partition.number, %error,
                    "messages of the cluster could not be stored; they are read again");
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}

struct PartitionReader {
    publisher: Publisher,
    shared: Arc<Shared>,
    partition: Arc<Partition>,
    groups: GroupReader,
    context: Context,
    /// The position after what was delivered and not flushed.
    reached: Option<LogPosition>,
    /// The bytes of the entries before it that were not flushed.
    bytes: usize,
    position_stored: Instant,
    /// Publications of this run that were delivered and not flushed: earlier commits have their
    /// history. If one of these fails, so do those that wait, and the reader comes back.
    submitted_earlier: Vec<Arc<Publication>>,
    /// Whether an entry was read.
    is_readable: bool,
}

fn failed(error: impl ToString) -> ReadEnd {
    ReadEnd::Engine(BackboneError::request(READING, error))
}

impl PartitionReader {
    async fn run(&mut self, stream: &NumberedStream) -> ReadEnd {
        let Err(end) = self.try_run(stream).await;
        match end {
            // What was delivered is stored with its position, as at any end of a batch.
            ReadEnd::Engine(error) => match self.flush(false) {
                Ok(()) => ReadEnd::Engine(error),
                Err(end) => end,
            },
            end @ ReadEnd::Store(_) => end,
        }
    }

    async fn try_run(&mut self, log: &NumberedStream) -> Result<Infallible, ReadEnd> {
        let (stream, number) = (&log.stream, log.number);
        self.partition.note_begun();
        self.settle_all().await?;
        self.groups.load(number).map_err(ReadEnd::Store)?;
        let info = stream.get_info().await.map_err(failed)?;
        let position = self.begin(number, &info.state).await?;
        let completing = self.groups.complete(position).await;
        self.store(completing.map_err(ReadEnd::Engine)?).await?;
        let after = position.next_sequence() - 1;
        let messages = StreamReader::after(stream, after, Vec::new(), READING).await;
        let mut messages = messages.map_err(ReadEnd::Engine)?;
        let last = if self.partition.queue.has_earlier() {
            let end = log_end::append(&self.shared, &self.context, self.partition.number).await;
            end.map_err(ReadEnd::Engine)?
        } else {
            info.state.last_sequence
        };
        let mut is_read = position.next_sequence() > last;
        if is_read {
            self.note_readable();
            self.partition.note_read();
        }
        loop {
            let next = tokio::time::timeout(POSITION_EVERY, messages.next()).await;
            let Ok(next) = next else {
                self.flush(true)?;
                continue;
            };
            self.shared.log.pause.is_over().await;
            let next = next.map_err(ReadEnd::Engine)?;
            self.take(number, &next).await?;
            for _ in 1..BATCH_MAX {
                if self.bytes > BATCH_BYTES_MAX {
                    break;
                }
                let Some(next) = messages.try_next() else {
                    break;
                };
                let next = next.map_err(ReadEnd::Engine)?;
                self.take(number, &next).await?;
            }
            self.flush(false)?;
            self.relieve().await?;
            let reached = self.partition.progress.delivered();
            if !is_read && reached.is_some_and(|reached| reached.next_sequence() > last) {
                is_read = true;
                self.partition.note_read();
            }
            // Other tasks of this thread have their turn.
            tokio::task::yield_now().await;
        }
    }

    /// Finds the position at which reading begins.
    async fn begin(&self, stream: u64, state: &State) -> Result<LogPosition, ReadEnd> {
        let number = self.partition.number;
        let known = self.partition.progress.delivered();
        let position = match known {
            Some(known) if known.stream == stream => {
                let first = state.first_sequence;
                if known.next_sequence() > state.last_sequence + 1 {
                    return self.begin_before(known, state).await;
                }
                if known.next_sequence() >= first {
                    return Ok(known);
                }
                self.note_missed(first - known.next_sequence());
                self.store(self.groups.miss()).await?;
                LogPosition::after(stream, first - 1)
            }
            Some(_) => {
                tracing::error!(target: "backbone", partition = number,
                    "the stream of the log is another one than before; this node reads it from its \
                     beginning");
                self.store(self.groups.begin_again()).await?;
                LogPosition::after(stream, state.first_sequence.max(1) - 1)
            }
            // No session of this node is older than its membership.
            None => LogPosition::after(stream, state.last_sequence),
        };
        self.set_position(position).await
    }

    /// The stream ends before the position: its leader has just been elected, and does not know all
    /// entries yet, or the servers have lost entries.
    async fn begin_before(
        &self,
        known: LogPosition,
        state: &State,
    ) -> Result<LogPosition, ReadEnd> {
        let (number, last) = (self.partition.number, state.last_sequence);
        if self.partition.progress.count_early_end() < EARLY_ENDS_MAX {
            let text = format!("partition {number} ends at {last}, before what was read of it");
            return Err(failed(text));
        }
        tracing::error!(target: "backbone", partition = number, read = known.sequence, last,
            "the NATS servers have lost messages that they had stored \
             (jetstream.sync_interval is not \"always\"?)");
        self.set_position(LogPosition::after(known.stream, last))
            .await
    }

    async fn set_position(&self, position: LogPosition) -> Result<LogPosition, ReadEnd> {
        self.store(vec![position.put(self.partition.number)])
            .await?;
        self.partition.progress.set(position);
        Ok(position)
    }

    async fn store(&self, changes: Vec<StoreChange>) -> Result<(), ReadEnd> {
        if changes.is_empty() {
            return Ok(());
        }
        let store = &self.shared.log.store;
        let ticket = store.submit(changes).map_err(ReadEnd::Store)?;
        ticket.committed().await.map_err(ReadEnd::Store)
    }

    /// Delivers an entry. While memory is short, the rest of it waits.
    async fn take(&mut self, stream: u64, next: &ReceivedMessage) -> Result<(), ReadEnd> {
        let sequence = next.sequence;
        self.partition.set_unread(next.pending);
        let reached = self.reached.or_else(|| self.partition.progress.delivered());
        let expected = reached.map_or(sequence, |reached| reached.next_sequence());
        if sequence < expected {
            // The client's ordered consumer begins at the first entry again if it is replaced
            // before it has received one.
            return Ok(());
        }
        if sequence > expected {
            self.pass_over(expected, sequence).await?;
        }
        self.bytes += next.message.payload.len();
        let end = LogPosition::after(stream, sequence);
        let (origin, content) = match entry::read(next.message.payload.clone()) {
            Ok(read) => read,
            // A later version understands it: nothing is passed over.
            Err(error @ EncodingError::Version(_)) => {
                let part = format!("entry {sequence} of {}", self.partition.description());
                return Err(ReadEnd::Engine(BackboneError::unreadable(&part, error)));
            }
            Err(error) => {
                self.shared.note_malformed(error);
                self.reached = Some(end);
                return Ok(());
            }
        };
        self.note_readable();
        let publications = match content {
            EntryContent::Publications(publications) => publications,
            EntryContent::Groups(entry) => {
                self.groups
                    .apply(stream, origin, &entry, &mut self.publisher);
                Vec::new()
            }
        };
        let delivered = reached.map_or(0, |reached| reached.delivered_of(sequence));
        for (index, one) in publications.into_iter().enumerate().skip(delivered) {
            while self.deliver(origin, &one).is_err() {
                if index > 0 {
                    self.reached = Some(LogPosition {
                        stream,
                        sequence,
                        delivered: u32::try_from(index).unwrap_or(u32::MAX),
                    });
                }
                self.flush(false)?;
                self.relieve().await?;
                tokio::time::sleep(RETRY_EVERY).await;
                self.shared.log.pause.is_over().await;
            }
        }
        self.groups.reached(stream, sequence, &mut self.publisher);
        self.reached = Some(end);
        Ok(())
    }

    fn note_readable(&mut self) {
        if !std::mem::replace(&mut self.is_readable, true) {
            self.shared.unreadable.clear(&self.partition.description());
        }
    }

    /// Entries are missing before the one that was received: the stream has removed them, or they
    /// were lost on the way. Reading begins again at them; if they are missing then too, they are
    /// passed over.
    async fn pass_over(&mut self, expected: u64, sequence: u64) -> Result<(), ReadEnd> {
        self.flush(false)?;
        let number = self.partition.number;
        if self.partition.progress.is_first_gap(expected) {
            return Err(failed(format!("partition {number} lacks entry {expected}")));
        }
        self.note_missed(sequence - expected);
        let position = self.partition.progress.delivered();
        self.store(self.groups.miss()).await?;
        // Reading begins again with questions for the division.
        let stream = position.map_or(0, |position| position.stream);
        self.set_position(LogPosition::after(stream, sequence - 1))
            .await?;
        let text = format!("partition {number} has lost entries up to {sequence}");
        Err(failed(text))
    }

    fn note_missed(&self, entries: u64) {
        self.shared.log.note_missed(entries);
        tracing::error!(target: "backbone", partition = self.partition.number, entries,
            "the log removed messages before this node read them (backbone.log_age_max, \
             backbone.log_bytes_max)");
    }

    fn deliver(&mut self, origin: BundleOrigin, one: &EntryPublication) -> Result<(), OutOfMemory> {
        let publication = &one.logged.publication;
        if publication.topic.is_internal() {
            return Ok(());
        }
        if let Some(PassedOn { group, .. }) = &one.logged.passed_on {
            self.groups
                .deliver(origin, &one.logged, group, &mut self.publisher)?;
            self.note_kept(origin, one);
            return Ok(());
        }
        if origin.node == self.shared.node {
            self.publisher.deliver_logged(&one.logged)?;
            if self.shared.is_of_this_run(origin) {
                self.submitted_earlier.push(publication.clone());
            } else {
                self.publisher.restore_history(publication);
            }
            self.note_kept(origin, one);
            self.groups.pass_on(&one.logged, &mut self.publisher);
            return Ok(());
        }
        self.note_kept(origin, one);
        follow_clock(publication.id);
        let retained = &self.shared.retained;
        let is_retained = |publication: &Publication| {
            publication.retain
                && retained.decide_live(publication, origin.node) == RetainDecision::Publish
        };
        self.publisher
            .publish_logged(publication.clone(), is_retained)?;
        self.shared.count_received();
        self.groups.pass_on(&one.logged, &mut self.publisher);
        Ok(())
    }

    /// The log has a publication that this node may keep in the database.
    fn note_kept(&mut self, origin: BundleOrigin, one: &EntryPublication) {
        if !one.is_kept {
            return;
        }
        let identity = LogIdentity::of(&one.logged);
        let is_own = origin.node == self.shared.node || self.partition.queue.keeps_adopted();
        if is_own {
            self.publisher.add_changes([kept::remove(&identity)]);
            self.partition.queue.found_in_log(&identity);
        }
    }

    /// Submits what was delivered, with the position after it. A position after entries that
    /// changed nothing is stored now and then; `is_idle` stores it if that is due.
    fn flush(&mut self, is_idle: bool) -> Result<(), ReadEnd> {
        let number = self.partition.number;
        let log = &self.shared.log;
        if let Some(position) = self.reached.take() {
            let has_changes = !self.submitted_earlier.is_empty() || self.publisher.has_changes();
            for publication in self.submitted_earlier.drain(..) {
                if log.store.has_lost_changes() {
                    self.publisher.restore_history(&publication);
                }
            }
            if has_changes {
                self.publisher.add_changes([position.put(number)]);
                self.position_stored = Instant::now();
            }
            let ticket = self.publisher.flush().filter(|_| has_changes);
            self.groups.submitted(ticket.as_ref());
            let bytes = std::mem::take(&mut self.bytes);
            let noted = self.partition.progress.note(position, bytes, ticket);
            noted.map_err(ReadEnd::Store)?;
        }
        if is_idle {
            self.groups.submitted(None);
        }
        self.partition.progress.settle().map_err(ReadEnd::Store)?;
        let is_due = is_idle || self.position_stored.elapsed() >= POSITION_EVERY;
        if is_due && let Some(position) = self.partition.progress.take_unsubmitted() {
            self.position_stored = Instant::now();
            // If this fails, some entries that change nothing are read again after a restart.
            let _ = log.store.submit_deferred([position.put(number)]);
        }
        Ok(())
    }

    /// Waits while too many batches are not stored, and while subscribers cannot keep up.
    async fn relieve(&mut self) -> Result<(), ReadEnd> {
        while let Some(ticket) = self.partition.progress.overdue() {
            let _ = ticket.committed().await;
            self.partition.progress.settle().map_err(ReadEnd::Store)?;
        }
        if self.publisher.is_congested() {
            std::future::poll_fn(|context| self.publisher.poll_relief(context)).await;
        }
        Ok(())
    }

    /// Waits for the commits that an earlier connection left.
    async fn settle_all(&self) -> Result<(), ReadEnd> {
        while let Some(ticket) = self.partition.progress.first_uncommitted() {
            let _ = ticket.committed().await;
            self.partition.progress.settle().map_err(ReadEnd::Store)?;
        }
        Ok(())
    }
}
