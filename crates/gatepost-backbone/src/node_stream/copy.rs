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
/// Changes that wait to be copied. Beyond that, a snapshot replaces them.
const WAITING_CHANGES_MAX: usize = 262_144;
/// The changes of one entry, about.
const ENTRY_CHANGES_MAX: usize = 8_192;

/// The part of the copy that outlives a connection.
pub(crate) struct NodeCopy {
    state: Mutex<CopyState>,
    changed: Notify,
}

#[derive(Default)]
struct CopyState {
    phase: CopyPhase,
    waiting: VecDeque<WaitingCommit>,
    /// The number of waiting changes.
    changes: usize,
    /// Waiting commits that a ticket depends on.
    awaited: usize,
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
        Self {
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
        let waiting = std::mem::take(&mut state.waiting);
        let sent = std::mem::take(&mut state.sent);
        drop(state);
        for decision in sent {
            decision.decide();
        }
        for decision in waiting.into_iter().filter_map(|one| one.decision) {
            decision.decide();
        }
    }

    /// Another node has adopted the sessions: what was not copied never will be.
    pub(crate) fn fail(&self) {
        let mut state = self.state.lock();
        state.discard_changes();
        let waiting = std::mem::take(&mut state.waiting);
        let sent = std::mem::take(&mut state.sent);
        state.awaited = 0;
        drop(state);
        // A decision that is dropped fails.
        drop((sent, waiting));
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
        state.awaited + state.sent.len()
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
                if state.awaited > 0
                    || !state.sent.is_empty()
                    || is_due
                    || state.changes >= ENTRY_CHANGES_MAX
                {
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
            commit.changes = Vec::new();
        }
        self.waiting.retain(|commit| commit.decision.is_some());
        self.changes = 0;
        self.due = None;
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
        self.changes += changes.len();
        self.awaited += usize::from(decision.is_some());
        if self.due.is_none() {
            self.due = Some(Instant::now() + LAZY_TIME_MAX);
        }
        self.waiting.push_back(WaitingCommit { changes, decision });
    }

    /// Takes the commits of an entry. Decisions of an earlier connection's entry remain.
    fn take(&mut self) -> Vec<StoreChange> {
        let mut changes = Vec::new();
        while let Some(commit) = self.waiting.front()
            && (changes.is_empty() || changes.len() + commit.changes.len() <= ENTRY_CHANGES_MAX)
            && let Some(mut commit) = self.waiting.pop_front()
        {
            changes.append(&mut commit.changes);
            self.awaited -= usize::from(commit.decision.is_some());
            self.sent.extend(commit.decision);
        }
        self.changes -= changes.len();
        self.due = (!self.waiting.is_empty()).then(Instant::now);
        changes
    }
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
            match (snapshot, wanted) {
                (Ok(snapshot), CopyPhase::Wanted(sender)) => {
                    // If the task has ended, the next connection wants another one.
                    if sender.send(snapshot).is_ok() {
                        state.phase = CopyPhase::Copying;
                    }
                }
                (Err(error), _) => {
                    tracing::warn!(target: "backbone", %error, "the database cannot be copied");
                }
                (Ok(_), _) => {}
            }
            // The snapshot has these changes.
            state.push(Vec::new(), Some(commit.decision));
            return;
        }
        let CopiedCommit {
            mut changes,
            decision,
            ..
        } = commit;
        changes.retain(|change| state.is_copied(change));
        let is_awaited = changes.iter().any(change::is_awaited);
        match state.phase {
            CopyPhase::Copying if state.changes + changes.len() > WAITING_CHANGES_MAX => {
                state.discard_changes();
                state.phase = CopyPhase::Pending;
                changes.clear();
            }
            CopyPhase::Copying => {}
            CopyPhase::Stopped | CopyPhase::Pending | CopyPhase::Wanted(_) => changes.clear(),
        }
        if matches!(state.phase, CopyPhase::Stopped) || !is_awaited {
            if !changes.is_empty() {
                state.push(changes, None);
            }
            drop(state);
            decision.decide();
        } else {
            state.push(changes, Some(decision));
            drop(state);
        }
        self.changed.notify_one();
    }
}
