//! The writer: one thread that turns groups of changes into commits.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::bounds::{Excess, KeptTotals, TableBounds};
use crate::cancelled::CancelledRows;
use crate::change_rows::apply_change;
use crate::group::{CommitOutcome, failure_in};
use crate::journal_index::JournalIndex;
use crate::queue::{CommitBatch, QueuedChanges};
use crate::statements::Statements;
use crate::stored_clock::StoredClock;
use crate::trim::{self, TrimStep, Trimmer};
use crate::watch::DiskHealth;
use crate::{StoreChange, StoreError};

pub(crate) struct StoreWriter {
    connection: Arc<Mutex<Connection>>,
    /// Only a server writes the clock's row and removes rows by age.
    server: Option<ServerDuties>,
    health: Arc<DiskHealth>,
    journal_index: Arc<JournalIndex>,
    failures: CommitFailures,
}

/// Tasks of a server's writer besides committing.
pub(crate) struct ServerDuties {
    pub(crate) clock: StoredClock,
    pub(crate) trimmer: Trimmer,
    pub(crate) bounds: TableBounds,
}

impl ServerDuties {
    /// The age time; rows held back because the clock is ahead are recorded in `health`.
    pub(crate) fn time_for_ages(
        &mut self,
        connection: &Connection,
        health: &DiskHealth,
    ) -> rusqlite::Result<SystemTime> {
        let trimmer = &self.trimmer;
        let expiring = |time| trimmer.expiring(connection, time);
        let (now, held) = self.clock.time_for_ages(expiring)?;
        health.set_held_expiry(held);
        Ok(now)
    }
}

impl StoreWriter {
    pub(crate) fn new(
        connection: Arc<Mutex<Connection>>,
        server: Option<ServerDuties>,
        health: Arc<DiskHealth>,
        journal_index: Arc<JournalIndex>,
    ) -> Self {
        Self {
            connection,
            server,
            health,
            journal_index,
            failures: CommitFailures::default(),
        }
    }

    /// Commits one group.
    pub(crate) fn commit(&mut self, batch: &CommitBatch) -> CommitOutcome {
        // Commits to a file that has lost its name are lost with its last descriptor.
        let outcome = self.apply(batch).and_then(|left_out| {
            self.health.check_database_file()?;
            Ok(left_out)
        });
        match &outcome {
            Ok(left_out) => {
                self.health.commit_succeeded();
                self.journal_index.committed(&batch.changes);
                // Changes that are outdated are computed again.
                let is_lost = |(_, error): &&(u32, StoreError)| !is_outdated(error);
                let mut lost = left_out.iter().filter(is_lost);
                if let Some((_, error)) = lost.next() {
                    self.health.note_lost();
                    self.failures.log(1 + lost.count(), error);
                }
            }
            Err(error) => {
                self.failures.log(batch.changes.len(), error);
                self.health.commit_failed(error);
            }
        }
        outcome
    }

    /// Records that a commit of a simulation has failed.
    pub(crate) fn note_failed(&self, error: &StoreError) {
        self.health.commit_failed(error);
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.health.is_failing()
    }

    /// A row that collides, or a record that is not as expected, fails its own submission only, not
    /// the others of the commit.
    fn apply(&mut self, batch: &CommitBatch) -> CommitOutcome {
        let has_failed = |submission: &QueuedChanges| {
            let after = submission.after.as_ref();
            after.is_some_and(|after| after.failure().is_some())
        };
        if !batch.submissions.iter().any(has_failed) {
            match self.write(|transaction, kept| apply_together(transaction, &batch.changes, kept))
            {
                Err(error) if error.is_of_submission() => {}
                outcome => return outcome,
            }
        }
        self.write(|transaction, kept| apply_each(transaction, batch, kept))
    }

    fn write(
        &mut self,
        apply: impl FnOnce(&mut Transaction<'_>, &mut KeptTotals) -> CommitOutcome,
    ) -> CommitOutcome {
        let mut connection = self.connection.lock();
        let mut transaction = begin(&mut connection)?;
        let bounds = self.server.as_ref().map(|server| server.bounds.kept());
        let mut kept = bounds.unwrap_or_default();
        let left_out = apply(&mut transaction, &mut kept)?;
        let mut has_more = false;
        if let Some(server) = &mut self.server {
            let left = Excess::Share;
            has_more = server.bounds.enforce(&transaction, &mut kept, left)?;
            server.clock.keep(&transaction)?;
        }
        transaction.commit()?;
        if let Some(server) = &mut self.server {
            server.clock.committed();
            server.bounds.committed(kept);
            if has_more {
                server.trimmer.note_step(true);
            }
        }
        Ok(left_out)
    }

    /// Removes rows beyond the limits, if a pass is due or under way: one step of it.
    pub(crate) fn trim_if_due(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        let Some(step) = server.trimmer.due_step(server.clock.elapsed()) else {
            return;
        };
        let mut connection = self.connection.lock();
        let trimmed = trim(&mut connection, server, &self.health, step);
        let has_more = trimmed.unwrap_or_else(|error| {
            tracing::warn!(target: "store", %error, "expired rows could not be removed");
            false
        });
        server.trimmer.note_step(has_more);
    }

    /// Whether rows wait for the next step of a pass.
    pub(crate) fn has_rows_to_remove(&self) -> bool {
        let server = self.server.as_ref();
        server.is_some_and(|server| server.trimmer.has_more())
    }

    /// The last step of a writer: empties the log, so that the database file alone is complete.
    pub(crate) fn finish(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        let mut connection = self.connection.lock();
        let finished = finish(&mut connection, &mut server.clock);
        if let Err(error) = finished {
            tracing::warn!(target: "store", %error, "the write-ahead log was not emptied");
        }
    }
}

/// Begins a transaction that writes. It waits for the transaction of another process here: SQLite
/// refuses, without waiting, to write in one that has begun with a query.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

const fn is_outdated(error: &StoreError) -> bool {
    matches!(error, StoreError::Outdated { .. })
}

fn trim(
    connection: &mut Connection,
    server: &mut ServerDuties,
    health: &DiskHealth,
    step: TrimStep,
) -> rusqlite::Result<bool> {
    let now = match step {
        // While the clock is ahead, this counts the rows of three tables.
        TrimStep::First => server.time_for_ages(connection, health)?,
        TrimStep::Next => server.clock.age_time().now().0,
    };
    server
        .bounds
        .review(connection, &server.trimmer.settings())?;
    let mut kept = server.bounds.kept();
    let transaction = begin(connection)?;
    let is_old = server.trimmer.trim(&transaction, now, &mut kept)?;
    let is_exceeded = server
        .bounds
        .enforce(&transaction, &mut kept, Excess::None)?;
    transaction.commit()?;
    server.bounds.committed(kept);
    let has_more = is_old || is_exceeded;
    if !has_more {
        trim::return_free_pages(connection)?;
    }
    Ok(has_more)
}

fn finish(connection: &mut Connection, clock: &mut StoredClock) -> Result<(), StoreError> {
    let transaction = begin(connection)?;
    clock.keep_exactly(&transaction)?;
    transaction.commit()?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Logs failed commits, at most one line a second, since a full disk fails thousands.
#[derive(Default)]
struct CommitFailures {
    logged: Option<Instant>,
    groups: u64,
}

impl CommitFailures {
    fn log(&mut self, changes: usize, error: &StoreError) {
        self.groups += 1;
        let is_recent = |logged: Instant| logged.elapsed() < Duration::from_secs(1);
        if self.logged.is_some_and(is_recent) {
            return;
        }
        tracing::error!(
            target: "store", changes, groups = self.groups, %error,
            "changes were not stored; their senders were refused"
        );
        self.logged = Some(Instant::now());
        self.groups = 0;
    }
}

/// Applies all changes but those that end within the group.
fn apply_together(
    transaction: &mut Transaction<'_>,
    changes: &[StoreChange],
    kept: &mut KeptTotals,
) -> CommitOutcome {
    let cancelled = CancelledRows::find(changes);
    let mut statements = Statements::new(transaction);
    for change in changes {
        if !cancelled.covers(change) {
            apply_change(&mut statements, change, kept)?;
        }
    }
    Ok(Vec::new())
}

/// Applies one submission after the other, and omits those that collide with stored rows, together
/// with those that may only be stored after them.
fn apply_each(
    transaction: &mut Transaction<'_>,
    batch: &CommitBatch,
    kept: &mut KeptTotals,
) -> CommitOutcome {
    let mut left_out: Vec<(u32, StoreError)> = Vec::new();
    let mut start = 0;
    for (number, submission) in (0..).zip(&batch.submissions) {
        let changes = &batch.changes[start..submission.end];
        start = submission.end;
        let failed_before = submission.after.as_ref().and_then(|after| {
            let earlier = after.number_in(&batch.group);
            let here = earlier.and_then(|earlier| failure_in(&left_out, earlier));
            here.or(after.failure()).cloned()
        });
        if let Some(error) = failed_before {
            left_out.push((number, error));
            continue;
        }
        match apply_submission(transaction, changes, kept) {
            Ok(()) => {}
            Err(error) if error.is_of_submission() => left_out.push((number, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(left_out)
}

/// Applies a submission completely or not at all.
fn apply_submission(
    transaction: &mut Transaction<'_>,
    changes: &[StoreChange],
    kept: &mut KeptTotals,
) -> Result<(), StoreError> {
    let savepoint = transaction.savepoint()?;
    let mut with_these = *kept;
    let mut statements = Statements::new(&savepoint);
    for change in changes {
        apply_change(&mut statements, change, &mut with_these)?;
    }
    drop(statements);
    savepoint.commit()?;
    *kept = with_these;
    Ok(())
}
