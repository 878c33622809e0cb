//! The publications of this node for one partition, until the log has stored them.
//!
//! Publications wait as the broker submitted them. The task of the connection forms entries of the
//! first ones, which stay here until they are acknowledged, so that the next connection sends them
//! again.
//!
//! Invariants:
//! - Entries are formed in the order in which the broker submitted their publications. Either one
//!   is under way, or several that the engine stores together.
//! - A publication that is kept in the database has an entry of its own, whose message id is that
//!   of the publication: a later run of the server sends it under the same one.
//! - Publications that an earlier run kept precede all others.
//! - An entry of a publication that is kept, and was sent, is sent again only while the engine
//!   still knows its message id, or if the log was found not to have it.

mod append;
mod forming;
mod log_entry;
mod pending;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_broker::LoggedPublication;
use gatepost_store::{StoreError, Ticket};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::append::Readiness;
use self::forming::form;
use super::bounds::AppendBounds;
use super::identity::LogIdentity;
use crate::encoding::BundleOrigin;

pub(crate) use append::Append;
pub(crate) use forming::{ENTRY_BYTES_MAX, EntryLimits};
pub(crate) use log_entry::LogEntry;
pub(crate) use pending::PendingAppend;

/// The bytes up to which entries are stored together.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The next step of the connection's task.
pub(crate) enum NextEntries {
    /// To send these, together.
    Send(Vec<Arc<LogEntry>>),
    /// To find out first which entries the log has: they were sent so long ago that the engine may
    /// have forgotten their message ids.
    Confirm,
    /// To wait for changes of this server.
    Await(Ticket),
    /// To wait for publications.
    Nothing,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Append>,
    /// The entries that are sent until they are acknowledged.
    entries: VecDeque<Arc<LogEntry>>,
    /// The time since which an entry of them may be in the log.
    in_log_since: Option<Instant>,
    /// The publications that an earlier run kept and that were not found in the log, while it is
    /// being read.
    earlier: Option<BTreeMap<LogIdentity, LoggedPublication>>,
    /// Publications of failed nodes that may be in the log already, as an entry of their node.
    adopted: HashSet<LogIdentity>,
    /// Whether the database may have publications of failed nodes, of this run or an earlier one.
    keeps_adopted: bool,
}

impl QueueState {
    fn is_adopted(&self, identity: &LogIdentity) -> bool {
        let earlier = self.earlier.as_ref();
        self.adopted.contains(identity)
            || earlier.is_some_and(|earlier| earlier.contains_key(identity))
    }
}

/// The queue of one partition.
pub(crate) struct AppendQueue {
    state: Mutex<QueueState>,
    bounds: Arc<AppendBounds>,
    changed: Notify,
}

/// The log did not store a publication, or its acknowledgement did not arrive.
fn unstored(cause: &str) -> StoreError {
    StoreError::Cluster {
        cause: cause.into(),
    }
}

impl AppendQueue {
    /// A queue that begins with the publications that an earlier run kept.
    pub(crate) fn new(earlier: Vec<LoggedPublication>, bounds: Arc<AppendBounds>) -> Self {
        let earlier = earlier.into_iter().map(|one| (LogIdentity::of(&one), one));
        let earlier: BTreeMap<_, _> = earlier.collect();
        Self {
            state: Mutex::new(QueueState {
                keeps_adopted: !earlier.is_empty(),
                earlier: (!earlier.is_empty()).then_some(earlier),
                ..QueueState::default()
            }),
            bounds,
            changed: Notify::new(),
        }
    }

    pub(crate) fn push(&self, append: Append) {
        self.bounds.add(append.publications.len(), append.bytes());
        self.state.lock().waiting.push_back(append);
        self.changed.notify_one();
    }

    /// Waits until there may be more to send.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A publication that is kept was read back from the log.
    pub(crate) fn found_in_log(&self, identity: &LogIdentity) {
        let mut state = self.state.lock();
        state.adopted.remove(identity);
        if let Some(earlier) = &mut state.earlier {
            earlier.remove(identity);
        }
        let mut entries = state.entries.iter();
        if let Some(entry) = entries.find(|entry| entry.kept.as_ref() == Some(identity)) {
            entry.note_in_log();
        }
    }

    /// The log was read to its end: entries that were not found are not in it.
    pub(crate) fn confirm_absent(&self) {
        self.state.lock().in_log_since = None;
    }

    /// Records publications of a failed node that this node keeps from now on. Returns those that
    /// it did not keep before.
    pub(crate) fn adopt(&self, all: impl Iterator<Item = LogIdentity>) -> HashSet<LogIdentity> {
        let mut state = self.state.lock();
        let new: HashSet<_> = all.filter(|one| !state.is_adopted(one)).collect();
        state.adopted.extend(new.iter().cloned());
        state.keeps_adopted |= !new.is_empty();
        new
    }

    /// Publications that were to be adopted are not kept.
    pub(crate) fn forget_adopted(&self, all: &HashSet<LogIdentity>) {
        self.state.lock().adopted.retain(|one| !all.contains(one));
    }

    /// Whether the database may have publications that are in entries of other nodes. An entry may
    /// be read again after its removal from `adopted`, if the database did not store what was read.
    pub(crate) fn keeps_adopted(&self) -> bool {
        self.state.lock().keeps_adopted
    }

    /// Whether there are publications of an earlier run that the log may lack.
    pub(crate) fn has_earlier(&self) -> bool {
        self.state.lock().earlier.is_some()
    }

    /// Whether a publication in an entry of another node is one that this node has adopted from a
    /// failed one, in this run or an earlier one.
    pub(crate) fn is_adopted(&self, identity: &LogIdentity) -> bool {
        self.state.lock().is_adopted(identity)
    }

    /// Another node has adopted the publications that are kept in the database. Their senders get
    /// no answer here.
    pub(crate) fn abandon_kept(&self) {
        const CAUSE: &str = "another node has adopted the sessions of this one";
        let mut state = self.state.lock();
        state.earlier = None;
        state.adopted.clear();
        state.entries.retain(|entry| {
            if entry.kept.is_some() {
                entry.settle(&Err(unstored(CAUSE)), &self.bounds);
            }
            entry.kept.is_none()
        });
        let waiting = std::mem::take(&mut state.waiting);
        for append in waiting {
            if append.deadline.is_some() {
                state.waiting.push_back(append);
                continue;
            }
            let count = append.publications.len();
            append.pending.settle(count, Err(unstored(CAUSE)));
            self.bounds.remove(count, append.bytes());
        }
    }

    /// The log was read to its end: what an earlier run kept, and is not in it, is sent.
    pub(crate) fn release_earlier(&self) {
        let mut state = self.state.lock();
        let earlier = state.earlier.take().unwrap_or_default();
        for one in earlier.into_values().rev() {
            let append = Append::of_kept(one, None);
            self.bounds.add(1, append.bytes());
            state.waiting.push_front(append);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The first entries, which are formed if there are none: one, or several that are kept in the
    /// database. The engine recognizes what is sent again within `recognized_for`.
    ///
    /// To be called while none is under way.
    pub(crate) fn next(
        &self,
        limits: EntryLimits,
        recognized_for: Duration,
        origin: impl FnMut() -> BundleOrigin,
    ) -> NextEntries {
        let mut state = self.state.lock();
        state.entries.retain(|entry| {
            if entry.is_in_log() {
                entry.settle(&Ok(()), &self.bounds);
            }
            // Entries whose time was over are not sent again.
            !entry.is_settled()
        });
        if state.entries.is_empty() {
            state.in_log_since = None;
            if state.earlier.is_some() {
                return NextEntries::Nothing;
            }
            if let Some(ticket) = self.form_entries(&mut state, limits, origin) {
                return NextEntries::Await(ticket);
            }
        }
        let entries: Vec<_> = state.entries.iter().take(limits.entries).cloned().collect();
        if entries.is_empty() {
            return NextEntries::Nothing;
        }
        let is_any_kept = entries.iter().any(|entry| entry.kept.is_some());
        match state.in_log_since {
            // Nothing of them was sent, or the log does not have it.
            None => state.in_log_since = Some(Instant::now()),
            Some(since) if is_any_kept && since.elapsed() > recognized_for => {
                return NextEntries::Confirm;
            }
            Some(_) => {}
        }
        NextEntries::Send(entries)
    }

    /// Forms the first entries. Returns the commit that they need, if it is not decided.
    fn form_entries(
        &self,
        state: &mut QueueState,
        limits: EntryLimits,
        mut origin: impl FnMut() -> BundleOrigin,
    ) -> Option<Ticket> {
        let mut bytes = 0;
        while state.entries.len() < limits.entries && bytes < BATCH_BYTES_MAX {
            if let Some(ticket) = self.first_awaited(state) {
                return state.entries.is_empty().then_some(ticket);
            }
            let is_kept = |append: &Append| append.deadline.is_none();
            if !state.entries.is_empty() && !state.waiting.front().is_some_and(is_kept) {
                break;
            }
            let Some(entry) = form(&mut state.waiting, limits.entry_bytes, &mut origin) else {
                break;
            };
            bytes += entry.bytes.len();
            let is_kept = entry.kept.is_some();
            state.entries.push_back(Arc::new(entry));
            if !is_kept {
                break;
            }
        }
        None
    }

    /// The commit that the first waiting publications need, if it is not decided. Those that have
    /// failed are removed.
    fn first_awaited(&self, state: &mut QueueState) -> Option<Ticket> {
        loop {
            match state.waiting.front()?.readiness() {
                Readiness::Ready => return None,
                Readiness::Await(ticket) => return Some(ticket),
                Readiness::Failed(error) => {
                    let failed = state.waiting.pop_front()?;
                    self.fail(&failed, error);
                }
            }
        }
    }

    fn fail(&self, append: &Append, error: StoreError) {
        let count = append.publications.len();
        append.pending.settle(count, Err(error));
        self.bounds.note_refused(count);
        self.bounds.remove(count, append.bytes());
    }

    /// The first entries were stored. Returns whether others are still under way.
    pub(crate) fn stored(&self, count: usize) -> bool {
        let mut state = self.state.lock();
        let count = count.min(state.entries.len());
        for entry in state.entries.drain(..count) {
            entry.settle(&Ok(()), &self.bounds);
        }
        !state.entries.is_empty()
    }

    /// Removes the first entry, which can never be stored.
    pub(crate) fn refuse(&self, cause: &str) {
        if let Some(entry) = self.state.lock().entries.pop_front() {
            entry.settle(&Err(unstored(cause)), &self.bounds);
        }
    }

    /// Fails the publications whose time is over. Entries of them that were sent may be stored
    /// nevertheless.
    pub(crate) fn fail_overdue(&self, now: Instant) {
        const CAUSE: &str = "no acknowledgement within backbone.append_wait_max";
        let is_over = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let mut state = self.state.lock();
        for entry in &state.entries {
            if is_over(entry.deadline) {
                entry.settle(&Err(unstored(CAUSE)), &self.bounds);
            }
        }
        state.waiting.retain(|append| {
            let is_over = is_over(append.deadline);
            if is_over {
                self.fail(append, unstored(CAUSE));
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests;
