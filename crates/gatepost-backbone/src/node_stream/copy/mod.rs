//! The changes of this node that its stream does not have yet.
//!
//! The database passes each commit on. Changes after which something is acknowledged are awaited:
//! the tickets of such a commit are decided when the stream has stored it. The rest follows within
//! [`LAZY_TIME_MAX`], or with the next awaited commit. Most deliveries have ended by then, so they
//! are not copied at all.
//!
//! Invariants:
//! - Changes are copied in the order of their commits, and those of one commit together.
//! - A snapshot replaces all changes before it. Without a connection no changes are kept, since
//!   each connection begins with a snapshot.
//! - An awaited commit is decided after the stream has stored it, or after a snapshot that has it.
//!   While a snapshot is written, changes wait; if there are too many, another snapshot follows.
//!   The first one decides all commits before it, so each commit waits for two at most.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gatepost_broker::IN_PROCESS_PREFIX;
use gatepost_store::{
    CancelledRows, CommitCopy, CommitDecision, CopiedCommit, SessionChange, StoreChange,
    StoreSnapshot,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::change;

/// The longest time after which changes are copied that no ticket depends on.
pub(crate) const LAZY_TIME_MAX: Duration = Duration::from_millis(100);
/// Changes that wait to be copied, most of which are made while a snapshot is written. Beyond that,
/// a later snapshot replaces them.
const WAITING_CHANGES_MAX: usize = 262_144;
/// The memory of these changes, in bytes, about.
const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The changes of one entry, about.
const ENTRY_CHANGES_MAX: usize = 8_192;

/// The part of the copy that outlives a connection.
pub(crate) struct NodeCopy {
    bounds: CopyBounds,
    state: Mutex<CopyState>,
    changed: Notify,
}

/// The bounds of the changes that wait to be copied.
#[derive(Clone, Copy)]
struct CopyBounds {
    changes: usize,
    bytes: usize,
}

impl CopyBounds {
    const DEFAULT: Self = Self {
        changes: WAITING_CHANGES_MAX,
        bytes: WAITING_BYTES_MAX,
    };

    const fn half(self) -> Self {
        Self {
            changes: self.changes / 2,
            bytes: self.bytes / 2,
        }
    }
}

#[derive(Default)]
struct CopyState {
    phase: CopyPhase,
    waiting: VecDeque<WaitingCommit>,
    /// The number of waiting changes.
    changes: usize,
    /// The bytes of the changes that wait.
    bytes: usize,
    /// Waiting commits that a ticket depends on.
    awaited: usize,
    /// The decisions on commits that the last snapshot has, which is not stored yet.
    in_snapshot: Vec<CommitDecision>,
    /// The decisions on commits whose entry is under way.
    sent: Vec<CommitDecision>,
    /// The time at which lazy changes are copied.
    due: Option<Instant>,
    /// Sessions of parts of this server, which belong to it alone.
    in_process: HashSet<u64>,
}

#[derive(Default)]
enum CopyPhase {
    /// Nothing is copied any more, and nothing waits.
    Stopped,
    /// No connection, or a snapshot is to come.
    #[default]
    Pending,
    /// The next commit opens the snapshot.
    Wanted(oneshot::Sender<StoreSnapshot>),
    Copying,
}

/// A commit whose changes are not in the stream.
struct WaitingCommit {
    changes: Vec<StoreChange>,
    /// The bytes of the changes.
    bytes: usize,
    decision: Option<CommitDecision>,
}

/// The work that is due.
pub(crate) enum NextCopy {
    /// Changes for the stream, encoded; empty if there are none. [`NodeCopy::stored`] is called
    /// when it has them.
    Changes(Bytes),
    /// Too many changes have waited: a snapshot is needed.
    Overflow,
}

impl NodeCopy {
    pub(crate) fn new() -> Self {
        Self::with_bounds(CopyBounds::DEFAULT)
    }

    fn with_bounds(bounds: CopyBounds) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Records a stored session of an earlier run.
    pub(crate) fn note_session(&self, number: u64, client: &str) {
        self.state.lock().note_session(number, client);
    }

    /// Requests a snapshot, which the next commit opens, in place of all changes so far.
    pub(crate) fn request_snapshot(&self) -> oneshot::Receiver<StoreSnapshot> {
        let (sender, snapshot) = oneshot::channel();
        let mut state = self.state.lock();
        state.discard_changes();
        state.phase = CopyPhase::Wanted(sender);
        snapshot
    }

    /// The connection has ended.
    pub(crate) fn pause(&self) {
        let mut state = self.state.lock();
        if !matches!(state.phase, CopyPhase::Stopped) {
            state.discard_changes();
            state.phase = CopyPhase::Pending;
        }
    }

    /// The server stops: its database has what was not copied, and its next start copies it.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.phase = CopyPhase::Stopped;
        let decisions = state.take_decisions();
        drop(state);
        for decision in decisions {
            decision.decide();
        }
    }

    /// Another node has adopted the sessions: what was not copied never will be.
    pub(crate) fn fail(&self) {
        let mut state = self.state.lock();
        state.discard_changes();
        let decisions = state.take_decisions();
        drop(state);
        // A decision that is dropped fails.
        drop(decisions);
    }

    /// The stream has the last snapshot that was opened.
    pub(crate) fn snapshot_stored(&self) {
        let decisions = std::mem::take(&mut self.state.lock().in_snapshot);
        for decision in decisions {
            decision.decide();
        }
    }

    /// The stream has stored the changes that were taken last, and all before them.
    pub(crate) fn stored(&self) {
        let sent = std::mem::take(&mut self.state.lock().sent);
        for decision in sent {
            decision.decide();
        }
    }

    /// The number of commits that a ticket depends on.
    pub(crate) fn awaited(&self) -> usize {
        let state = self.state.lock();
        state.awaited + state.sent.len() + state.in_snapshot.len()
    }

    /// Waits for commits that are to be copied.
    pub(crate) async fn next(&self) -> NextCopy {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.state.lock();
                if !matches!(state.phase, CopyPhase::Copying) {
                    return NextCopy::Overflow;
                }
                let is_due = state.due.is_some_and(|due| due <= Instant::now());
                if state.awaited > 0 || is_due || state.changes >= ENTRY_CHANGES_MAX {
                    Err(state.take())
                } else {
                    Ok(state.due)
                }
            };
            let due = match due {
                Ok(due) => due,
                // Encoded without the lock, for which the writer of the database may wait.
                Err(changes) => return NextCopy::Changes(encoded(&changes)),
            };
            match due {
                Some(due) => {
                    let _ = tokio::time::timeout_at(due.into(), changed).await;
                }
                None => changed.await,
            }
        }
    }
}

impl CopyState {
    fn note_session(&mut self, number: u64, client: &str) {
        if client.starts_with(IN_PROCESS_PREFIX) {
            self.in_process.insert(number);
        }
    }

    fn note_sessions(&mut self, changes: &[StoreChange]) {
        for change in changes {
            if let StoreChange::Session(SessionChange::Put(row)) = change {
                self.note_session(row.number, &row.client);
            }
        }
    }

    /// Forgets changes that a later snapshot has, and keeps the decisions.
    fn discard_changes(&mut self) {
        for commit in &mut self.waiting {
            (commit.changes, commit.bytes) = (Vec::new(), 0);
        }
        self.waiting.retain(|commit| commit.decision.is_some());
        (self.changes, self.bytes) = (0, 0);
        self.due = None;
    }

    /// Takes all decisions, in the order of their commits.
    fn take_decisions(&mut self) -> Vec<CommitDecision> {
        let mut decisions = std::mem::take(&mut self.in_snapshot);
        decisions.append(&mut self.sent);
        let waiting = self.waiting.drain(..);
        decisions.extend(waiting.filter_map(|commit| commit.decision));
        (self.changes, self.bytes, self.awaited) = (0, 0, 0);
        self.due = None;
        decisions
    }

    /// A snapshot was opened, which has all commits so far.
    fn snapshot_opened(&mut self) {
        self.in_snapshot = self.take_decisions();
        self.phase = CopyPhase::Copying;
    }

    /// Discards the changes if too many wait, also without those that cancel each other.
    fn bound(&mut self, bounds: CopyBounds) {
        if !matches!(self.phase, CopyPhase::Copying) || !self.exceeds(bounds) {
            return;
        }
        self.compact();
        // If little was cancelled, the next search would be due soon.
        if self.exceeds(bounds.half()) {
            self.discard_changes();
            self.phase = CopyPhase::Pending;
        }
    }

    const fn exceeds(&self, bounds: CopyBounds) -> bool {
        self.changes > bounds.changes || self.bytes > bounds.bytes
    }

    /// Removes changes that cancel each other.
    fn compact(&mut self) {
        let mut all = Vec::with_capacity(self.changes);
        let mut counts = Vec::with_capacity(self.waiting.len());
        for commit in &mut self.waiting {
            counts.push(commit.changes.len());
            all.append(&mut commit.changes);
        }
        let cancelled = CancelledRows::find(&all);
        let mut all = all.into_iter();
        (self.changes, self.bytes) = (0, 0);
        for (commit, count) in self.waiting.iter_mut().zip(counts) {
            let changes = all.by_ref().take(count);
            commit.changes = changes.filter(|one| !cancelled.covers(one)).collect();
            commit.bytes = weight(&commit.changes);
            self.changes += commit.changes.len();
            self.bytes += commit.bytes;
        }
        let is_needed = |one: &WaitingCommit| one.decision.is_some() || !one.changes.is_empty();
        self.waiting.retain(is_needed);
    }

    /// Whether a change belongs to the copy.
    fn is_copied(&self, change: &StoreChange) -> bool {
        let StoreChange::Session(of_session) = change else {
            return change::is_copied(change);
        };
        let session = change::session_of(of_session);
        !session.is_some_and(|session| self.in_process.contains(&session))
    }

    fn push(&mut self, changes: Vec<StoreChange>, decision: Option<CommitDecision>) {
        let bytes = weight(&changes);
        self.changes += changes.len();
        self.bytes += bytes;
        self.awaited += usize::from(decision.is_some());
        if self.due.is_none() {
            self.due = Some(Instant::now() + LAZY_TIME_MAX);
        }
        self.waiting.push_back(WaitingCommit {
            changes,
            bytes,
            decision,
        });
    }

    /// Takes the commits of an entry.
    fn take(&mut self) -> Vec<StoreChange> {
        let mut changes = Vec::new();
        while let Some(commit) = self.waiting.front()
            && (changes.is_empty() || changes.len() + commit.changes.len() <= ENTRY_CHANGES_MAX)
            && let Some(mut commit) = self.waiting.pop_front()
        {
            changes.append(&mut commit.changes);
            self.bytes -= commit.bytes;
            self.awaited -= usize::from(commit.decision.is_some());
            self.sent.extend(commit.decision);
        }
        self.changes -= changes.len();
        self.due = (!self.waiting.is_empty()).then(Instant::now);
        changes
    }
}

/// The memory of changes, about.
fn weight(changes: &[StoreChange]) -> usize {
    changes.iter().map(StoreChange::weight).sum()
}

/// The changes that do not cancel each other, as bytes.
fn encoded(changes: &[StoreChange]) -> Bytes {
    let cancelled = CancelledRows::find(changes);
    let mut bytes = BytesMut::new();
    for one in changes.iter().filter(|one| !cancelled.covers(one)) {
        change::push(&mut bytes, one);
    }
    bytes.freeze()
}

impl CommitCopy for NodeCopy {
    fn copy(&self, commit: CopiedCommit<'_>) {
        let mut state = self.state.lock();
        state.note_sessions(&commit.changes);
        if let CopyPhase::Wanted(_) = state.phase {
            let snapshot = StoreSnapshot::open(&commit);
            let wanted = std::mem::take(&mut state.phase);
            // The snapshot has these changes.
            state.push(Vec::new(), Some(commit.decision));
            match (snapshot, wanted) {
                (Ok(snapshot), CopyPhase::Wanted(sender)) => {
                    // If the task has ended, the next connection wants another one.
                    if sender.send(snapshot).is_ok() {
                        state.snapshot_opened();
                    }
                }
                (Err(error), _) => {
                    tracing::warn!(target: "backbone", %error, "the database cannot be copied");
                }
                (Ok(_), _) => {}
            }
            return;
        }
        let CopiedCommit {
            mut changes,
            decision,
            ..
        } = commit;
        changes.retain(|change| state.is_copied(change));
        let is_awaited = changes.iter().any(change::is_awaited);
        if !matches!(state.phase, CopyPhase::Copying) {
            changes.clear();
        }
        if matches!(state.phase, CopyPhase::Stopped) || !is_awaited {
            if !changes.is_empty() {
                state.push(changes, None);
                state.bound(self.bounds);
            }
            drop(state);
            decision.decide();
        } else {
            state.push(changes, Some(decision));
            state.bound(self.bounds);
            drop(state);
        }
        self.changed.notify_one();
    }
}
