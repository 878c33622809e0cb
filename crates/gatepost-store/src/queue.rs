//! The queue before the writer: changes that wait for the next commit, as one group.
//!
//! A group consists of submissions: the changes of one ticket, which are stored all or not at all.
//!
//! Invariants: changes are taken in the order of submission; a group that was taken is decided even
//! if its writer panics; a closed queue accepts nothing more.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::group::{CommitGroup, CommitOutcome, GroupQueue, Ticket};
use crate::{StoreChange, StoreError};

/// The longest time that deferred changes wait for the commit of others.
const DEFERRED_TIME_MAX: Duration = Duration::from_millis(100);
/// The longest time that changes which may be lost wait for the commit of others.
const UNHURRIED_TIME_MAX: Duration = Duration::from_mins(1);
/// With this many changes, or bytes of them, a commit begins even if all are deferred.
const DEFERRED_CHANGES_MAX: usize = 4_096;
const DEFERRED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The key space of the record that a trial commit writes.
const PROBE_SPACE: &str = "probe";

/// The time at which changes are committed; later values are more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Urgency {
    /// With the commit of others, or within a minute.
    #[default]
    Unhurried,
    /// With the commit of others, within a tenth of a second, or when a caller waits.
    Deferred,
    /// At once, because a caller waits.
    Awaited,
}

impl Urgency {
    const fn time_max(self) -> Duration {
        match self {
            Self::Unhurried => UNHURRIED_TIME_MAX,
            Self::Deferred => DEFERRED_TIME_MAX,
            Self::Awaited => Duration::ZERO,
        }
    }
}

pub(crate) struct CommitQueue {
    waiting: Mutex<WriterQueue>,
    arrived: Condvar,
}

/// The changes of one ticket.
pub(crate) struct QueuedChanges {
    /// The end of its changes within those of the batch.
    pub(crate) end: usize,
    /// The submission that must be stored before this one.
    pub(crate) after: Option<Ticket>,
}

/// Changes that are committed together.
#[derive(Default)]
pub(crate) struct CommitBatch {
    pub(crate) changes: Vec<StoreChange>,
    pub(crate) submissions: Vec<QueuedChanges>,
    pub(crate) group: Arc<CommitGroup>,
}

impl CommitBatch {
    fn in_queue(queue: &Weak<CommitQueue>) -> Self {
        Self {
            group: Arc::new(CommitGroup::in_queue(queue.clone())),
            ..Self::default()
        }
    }

    /// Adds changes as one submission, and returns its number.
    pub(crate) fn add(&mut self, changes: &mut Vec<StoreChange>, after: Option<Ticket>) -> u32 {
        let number = self.submissions.len() as u32;
        self.changes.append(changes);
        let end = self.changes.len();
        self.submissions.push(QueuedChanges { end, after });
        number
    }

    /// The changes, except those of submissions that were left out of the commit.
    pub(crate) fn into_changes_without(
        mut self,
        left_out: &[(u32, StoreError)],
    ) -> Vec<StoreChange> {
        for (number, _) in left_out.iter().rev() {
            let number = *number as usize;
            let start = number
                .checked_sub(1)
                .and_then(|before| self.submissions.get(before))
                .map_or(0, |before| before.end);
            if let Some(submission) = self.submissions.get(number) {
                self.changes.drain(start..submission.end);
            }
        }
        self.changes
    }
}

/// Changes that wait for the writer.
struct WriterQueue {
    /// The queue itself, for the tickets of its batches.
    queue: Weak<CommitQueue>,
    batch: CommitBatch,
    bytes: usize,
    /// The group that the writer took last; its commit may be unfinished.
    taken: Option<Arc<CommitGroup>>,
    /// The highest of the waiting changes.
    urgency: Urgency,
    /// The instant at which changes are committed that no caller waits for.
    due: Option<Instant>,
    closed: bool,
    /// Present for a simulation: the submissions, each in its own batch, so that a commit may end
    /// between any two.
    separate: Option<VecDeque<CommitBatch>>,
}

impl WriterQueue {
    fn of(queue: &Weak<CommitQueue>) -> Self {
        Self {
            queue: queue.clone(),
            batch: CommitBatch::in_queue(queue),
            bytes: 0,
            taken: None,
            urgency: Urgency::default(),
            due: None,
            closed: false,
            separate: None,
        }
    }

    /// Whether a commit is due now.
    fn is_due(&self, now: Instant) -> bool {
        !self.batch.changes.is_empty()
            && (self.urgency == Urgency::Awaited
                || self.closed
                || self.due.is_some_and(|due| due <= now))
    }

    /// Takes all waiting changes, and begins another batch.
    fn take(&mut self) -> CommitBatch {
        self.bytes = 0;
        self.urgency = Urgency::default();
        self.due = None;
        self.taken = Some(self.batch.group.clone());
        std::mem::replace(&mut self.batch, CommitBatch::in_queue(&self.queue))
    }

    /// Makes all waiting changes urgent.
    fn hurry(&mut self) {
        self.urgency = Urgency::Awaited;
        self.batch.group.note_urgent();
    }
}

impl GroupQueue for CommitQueue {
    fn request(&self, group: &CommitGroup) {
        let mut waiting = self.waiting.lock();
        let batch = &waiting.batch;
        if std::ptr::eq(&raw const *batch.group, group) && !batch.changes.is_empty() {
            waiting.hurry();
            self.arrived.notify_one();
        }
    }
}

impl CommitQueue {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|queue| Self {
            waiting: Mutex::new(WriterQueue::of(queue)),
            arrived: Condvar::new(),
        })
    }

    /// Adds changes to the next group; `changes` is emptied, or unchanged if they are refused.
    /// Changes that depend on an `earlier` commit are refused if that has failed.
    pub(crate) fn push(
        &self,
        changes: &mut Vec<StoreChange>,
        urgency: Urgency,
        earlier: Option<&Ticket>,
        waiting_bytes_max: usize,
    ) -> Result<Ticket, StoreError> {
        let bytes: usize = changes.iter().map(StoreChange::weight).sum();
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        // This happens under the lock that is held while a failure is published.
        if let Some(error) = earlier.and_then(Ticket::failure) {
            return Err(error.clone());
        }
        if waiting.bytes > waiting_bytes_max {
            return Err(StoreError::Overloaded {
                waiting_bytes: waiting.bytes,
            });
        }
        let was_empty = waiting.batch.changes.is_empty();
        let before = waiting.urgency;
        waiting.bytes += bytes;
        let undecided = earlier.filter(|earlier| earlier.outcome().is_none());
        let number = waiting.batch.add(changes, undecided.cloned());
        waiting.urgency = before.max(urgency);
        let is_long = waiting.batch.changes.len() >= DEFERRED_CHANGES_MAX
            || waiting.bytes >= DEFERRED_BYTES_MAX;
        if is_long || urgency == Urgency::Awaited {
            waiting.hurry();
        }
        let wakes = was_empty || waiting.urgency > before;
        if wakes && waiting.urgency < Urgency::Awaited {
            waiting.due = Some(Instant::now() + waiting.urgency.time_max());
        }
        let ticket = Ticket::of_submission(waiting.batch.group.clone(), number);
        if waiting.separate.is_some() {
            let batch = waiting.take();
            waiting.separate.get_or_insert_default().push_back(batch);
        }
        drop(waiting);
        if wakes {
            self.arrived.notify_one();
        }
        Ok(ticket)
    }

    /// Makes all waiting changes urgent; returns the ticket of the last group, if there was one.
    pub(crate) fn flush(&self) -> Option<Ticket> {
        let mut waiting = self.waiting.lock();
        if waiting.batch.changes.is_empty() {
            return waiting.taken.clone().map(Ticket::of_all);
        }
        waiting.hurry();
        self.arrived.notify_one();
        Some(Ticket::of_all(waiting.batch.group.clone()))
    }

    /// The number of waiting bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Waits until changes are due and takes all there are; `None` when closed and empty. If none
    /// are due at `until`, the batch is empty.
    pub(crate) fn take(&self, until: Option<Instant>) -> Option<CommitBatch> {
        let mut waiting = self.waiting.lock();
        while !waiting.is_due(Instant::now()) {
            if waiting.closed {
                return None;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Some(CommitBatch::default());
            }
            match waiting.due.into_iter().chain(until).min() {
                Some(until) => drop(self.arrived.wait_until(&mut waiting, until)),
                None => self.arrived.wait(&mut waiting),
            }
        }
        Some(waiting.take())
    }

    /// From now on, submissions wait for [`CommitQueue::take_separate`].
    pub(crate) fn separate(&self) {
        self.waiting.lock().separate.get_or_insert_default();
    }

    /// The number of waiting submissions.
    pub(crate) fn separate_count(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.separate.as_ref().map_or(0, VecDeque::len)
    }

    /// Takes the first `count` submissions.
    pub(crate) fn take_separate(&self, count: usize) -> Vec<CommitBatch> {
        let mut waiting = self.waiting.lock();
        let separate = waiting.separate.get_or_insert_default();
        separate.drain(..count.min(separate.len())).collect()
    }

    /// Requests a commit that changes nothing, to test whether the disk works.
    pub(crate) fn probe(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.closed && waiting.batch.changes.is_empty() {
            let probe = StoreChange::PutRecord {
                space: PROBE_SPACE,
                key: Bytes::new(),
                value: Bytes::new(),
            };
            waiting.batch.add(&mut vec![probe], None);
            waiting.hurry();
            self.arrived.notify_one();
        }
    }

    /// Publishes the outcome of a group. A failure also applies to all changes submitted before it
    /// was known: they may depend on changes that were not stored, and a later message of a sender
    /// must not be stored before an earlier one that the sender will repeat.
    pub(crate) fn decide(&self, group: &CommitGroup, outcome: CommitOutcome) {
        let mut waiting = self.waiting.lock();
        let mut failed = None;
        if let Err(error) = &outcome {
            let batch = waiting.take();
            batch.group.decide(Err(error.clone()));
            failed = Some(batch);
            for batch in waiting.separate.iter_mut().flat_map(|all| all.drain(..)) {
                batch.group.decide(Err(error.clone()));
            }
        }
        group.decide(outcome);
        drop(waiting);
        // Outside the lock: there may be many.
        drop(failed);
    }

    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_one();
    }
}

/// Fails the tickets of one group, unless it was decided.
pub(crate) struct FailGroupOnDrop(Option<Arc<CommitGroup>>);

impl FailGroupOnDrop {
    pub(crate) const fn new(group: Arc<CommitGroup>) -> Self {
        Self(Some(group))
    }

    /// Leaves the decision to others.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for FailGroupOnDrop {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            group.decide(Err(StoreError::Closed));
        }
    }
}

/// Closes the queue and fails the changes that still wait in it.
pub(crate) struct FailWaitingOnDrop(pub(crate) Arc<CommitQueue>);

impl Drop for FailWaitingOnDrop {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.closed = true;
        waiting.batch.group.decide(Err(StoreError::Closed));
    }
}
