//! The log: publications at QoS 1 and 2 of all nodes, in partitions that every node reads.
//!
//! A partition is a stream of the engine. A topic's partition follows from its first levels, so the
//! publications of one topic are in one order. Each message of the stream is an entry: a bundle of
//! publications of one node.
//!
//! This module has the state that outlives a connection. The tasks of a connection are in
//! `log_streams.rs`, `log_writing.rs` and `log_reading.rs`.
//!
//! - `partition.rs`: the partition of a topic;
//! - `entry.rs`: entries as bytes;
//! - `append_queue/`: the publications of this node, until the log has them;
//! - `position.rs`, `progress.rs`: how far this node has delivered;
//! - `division/`, `group_entry.rs`, `partition_groups.rs`: shared subscriptions;
//! - `pause.rs`: pauses of delivery, in which a session joins;
//! - `kept.rs`: publications in the database until they were read back;
//! - `identity.rs`: the identity of a publication.
//!
//! Invariants:
//! - The position in a partition is stored together with the deliveries up to it, so after a crash
//!   no delivery is repeated or left out.
//! - An entry is sent again under the same message id, which the engine stores once. A publication
//!   that is kept in the database is sent again after a restart only when this node has read the
//!   log without finding it.

pub(crate) mod append_queue;
mod bounds;
pub(crate) mod division;
pub(crate) mod entry;
pub(crate) mod group_entry;
pub(crate) mod identity;
pub(crate) mod kept;
mod partition;
pub(crate) mod partition_groups;
mod pause;
pub(crate) mod position;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatepost_broker::{LoggedBatch, RequestedFilter};
use gatepost_message::{Topic, TopicFilter};
use gatepost_store::{Store, StoreError, Ticket};

use crate::settings::BackboneSettings;
use append_queue::{Append, AppendQueue, PendingAppend};
use bounds::{AppendBounds, AppendTimes};
use partition_groups::PartitionGroups;
use pause::DeliveryPause;
use position::LogPosition;
use progress::ReadProgress;

/// The interval at which overdue publications are failed.
const EXPIRED_EVERY: Duration = Duration::from_millis(100);

/// The log, as this node sees it.
pub(crate) struct Log {
    pub(crate) partitions: Vec<Arc<Partition>>,
    levels: usize,
    append_wait_max: Duration,
    bounds: Arc<AppendBounds>,
    pub(crate) store: Store,
    /// Entries that the log had removed before this node read them.
    missed: AtomicU64,
    pub(crate) pause: DeliveryPause,
}

/// One partition.
pub(crate) struct Partition {
    /// From 1.
    pub(crate) number: u16,
    pub(crate) queue: AppendQueue,
    pub(crate) progress: ReadProgress,
    pub(crate) groups: PartitionGroups,
    /// The entries that are not read yet.
    unread: AtomicU64,
    /// Whether it was read to the end that it had when reading began.
    is_caught_up: AtomicBool,
}

impl Partition {
    /// Its name for operators.
    pub(crate) fn description(&self) -> String {
        format!("partition {} of the log", self.number)
    }

    pub(crate) fn set_unread(&self, count: u64) {
        self.unread.store(count, Ordering::Relaxed);
    }

    /// Reading begins, at the position that was reached before.
    pub(crate) fn note_begun(&self) {
        self.is_caught_up.store(false, Ordering::Relaxed);
    }

    /// The log was read to the end that it had when reading began.
    pub(crate) fn note_read(&self) {
        self.is_caught_up.store(true, Ordering::Relaxed);
        self.queue.release_earlier();
    }

    /// This node comes no further, so sessions need not wait until they leave for nodes that do.
    pub(crate) fn note_unreadable(&self) {
        self.is_caught_up.store(true, Ordering::Relaxed);
    }
}

impl Log {
    /// The log, with this node's positions and the publications that an earlier run kept.
    pub(crate) fn open(settings: &BackboneSettings, store: Store) -> Result<Self, StoreError> {
        let count = settings.partitions;
        let bounds = Arc::new(AppendBounds::new(settings));
        let mut partitions = Vec::new();
        let mut kept = kept::read(&store)?;
        for number in 1..=count {
            let is_its = |topic: &Topic| {
                partition::of(topic.as_str(), settings.partition_levels, count) == number
            };
            let own = kept.extract_if(.., |logged| is_its(&logged.publication.topic));
            partitions.push(Arc::new(Partition {
                number,
                queue: AppendQueue::new(own.collect(), bounds.clone()),
                progress: ReadProgress::new(position::read(&store, number)?),
                groups: PartitionGroups::default(),
                unread: AtomicU64::new(0),
                is_caught_up: AtomicBool::new(false),
            }));
        }
        Ok(Self {
            partitions,
            levels: settings.partition_levels,
            append_wait_max: settings.append_wait_max.duration(),
            bounds,
            store,
            missed: AtomicU64::new(0),
            pause: DeliveryPause::new(),
        })
    }

    pub(crate) fn partition_of(&self, topic: &Topic) -> &Partition {
        let count = self.partitions.len() as u16;
        let number = partition::of(topic.as_str(), self.levels, count);
        &self.partitions[usize::from(number) - 1]
    }

    /// Whether a partition may have publications of this shared subscription.
    pub(crate) fn may_have(&self, partition: &Partition, group: &TopicFilter) -> bool {
        let count = self.partitions.len() as u16;
        RequestedFilter::new(group.as_str()).is_ok_and(|requested| {
            let only = partition::of_filter(requested.matched(), self.levels, count);
            only.is_none_or(|number| number == partition.number)
        })
    }

    /// See [`gatepost_broker::OtherNodes::has_room_in_log`].
    pub(crate) fn has_room(&self) -> bool {
        self.bounds.has_room()
    }

    /// See [`gatepost_broker::OtherNodes::append`].
    pub(crate) fn append(&self, batch: LoggedBatch<'_>) -> Ticket {
        let LoggedBatch {
            publications,
            stored,
            earlier,
            are_kept,
        } = batch;
        // The sender does not repeat publications that are kept.
        let earlier = earlier.filter(|_| !are_kept);
        let (pending, ticket) = PendingAppend::new(publications.len());
        let deadline = (!are_kept).then(|| Instant::now() + self.append_wait_max);
        // Consecutive publications of one partition stay together; nearly always these are all.
        let mut rest = publications.drain(..).peekable();
        while let Some(first) = rest.next() {
            let partition = self.partition_of(&first.publication.topic);
            let mut together = vec![first];
            while let Some(next) = rest.next_if(|next| {
                self.partition_of(&next.publication.topic).number == partition.number
            }) {
                together.push(next);
            }
            partition.queue.push(Append {
                publications: together,
                stored: stored.clone(),
                earlier: earlier.clone(),
                pending: pending.clone(),
                deadline,
            });
        }
        ticket
    }

    /// The positions up to which this node has delivered, by partition; `None` before it has
    /// found all of them, or if it must return to an earlier one.
    pub(crate) fn positions(&self) -> Option<Vec<LogPosition>> {
        let partitions = self.partitions.iter();
        partitions
            .map(|partition| {
                let progress = &partition.progress;
                progress.delivered().filter(|_| !progress.has_failed())
            })
            .collect()
    }

    /// Whether this node has delivered what the log had when the present connection began, or
    /// cannot read it. A session that leaves before may have missed much.
    pub(crate) fn is_caught_up(&self) -> bool {
        let mut partitions = self.partitions.iter();
        partitions.all(|one| one.is_caught_up.load(Ordering::Relaxed))
    }

    /// Publications that the log has not acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.bounds.messages() as u64
    }

    /// Publications that the log did not store in time.
    pub(crate) fn refused(&self) -> u64 {
        self.bounds.refused()
    }

    /// The log has acknowledged entries.
    pub(crate) fn note_acknowledged(&self, after: Duration) {
        self.bounds.note_acknowledged(after);
    }

    pub(crate) fn append_times(&self) -> AppendTimes {
        self.bounds.times()
    }

    /// Entries that this node has not read, by partition.
    pub(crate) fn unread(&self) -> Vec<u64> {
        let unread = self.partitions.iter();
        unread
            .map(|one| one.unread.load(Ordering::Relaxed))
            .collect()
    }

    /// Entries that the log had removed before this node read them.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(crate) fn note_missed(&self, entries: u64) {
        self.missed.fetch_add(entries, Ordering::Relaxed);
    }

    /// Fails publications whose time is over, whether there is a connection or not.
    pub(crate) async fn fail_overdue(&self) {
        loop {
            tokio::time::sleep(EXPIRED_EVERY).await;
            let now = Instant::now();
            for partition in &self.partitions {
                partition.queue.fail_overdue(now);
            }
        }
    }
}
