//! The progress of reading a partition, which outlives a connection.

use std::collections::VecDeque;

use gatepost_store::{StoreError, Ticket};
use parking_lot::Mutex;

use super::position::LogPosition;

/// Batches whose commit is not known, and their bytes. Until one of both is reached, batches that
/// no session waits for share their commits with others.
const UNCOMMITTED_MAX: usize = 64;
const UNCOMMITTED_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) struct ReadProgress(Mutex<ProgressState>);

struct ProgressState {
    /// The position after the last delivery; `None` before the first connection.
    delivered: Option<LogPosition>,
    /// The position to which reading returns if a commit fails: the last that is stored, or after
    /// which nothing had to be stored.
    safe: Option<LogPosition>,
    /// The last position that was submitted to the database.
    submitted: Option<LogPosition>,
    /// Batches whose commit is not known.
    uncommitted: VecDeque<UncommittedBatch>,
    /// The bytes of these batches.
    uncommitted_bytes: usize,
    /// Consecutive connections at which the stream ended before the position.
    early_ends: u32,
    /// The last entry that was missing.
    gap: Option<u64>,
}

/// A batch that was submitted to the database.
struct UncommittedBatch {
    ticket: Ticket,
    /// The position after it.
    end: LogPosition,
    /// The bytes of its entries.
    bytes: usize,
}

impl ReadProgress {
    /// Begins at the position that an earlier run stored.
    pub(crate) const fn new(stored: Option<LogPosition>) -> Self {
        Self(Mutex::new(ProgressState {
            delivered: stored,
            safe: stored,
            submitted: stored,
            uncommitted: VecDeque::new(),
            uncommitted_bytes: 0,
            early_ends: 0,
            gap: None,
        }))
    }

    pub(crate) fn delivered(&self) -> Option<LogPosition> {
        self.0.lock().delivered
    }

    /// Sets a position that is stored.
    pub(crate) fn set(&self, position: LogPosition) {
        let mut state = self.0.lock();
        state.delivered = Some(position);
        state.safe = Some(position);
        state.submitted = Some(position);
        state.early_ends = 0;
    }

    /// Counts a connection at which the stream ended before the position.
    pub(crate) fn count_early_end(&self) -> u32 {
        let mut state = self.0.lock();
        state.early_ends += 1;
        state.early_ends
    }

    /// Notes that an entry is missing; returns whether it was not missing before.
    pub(crate) fn is_first_gap(&self, sequence: u64) -> bool {
        let mut state = self.0.lock();
        state.gap.replace(sequence) != Some(sequence)
    }

    /// Notes a batch with entries of this many bytes; without a ticket it changed nothing that is
    /// stored. If it was refused, reading returns to the last safe position.
    pub(crate) fn note(
        &self,
        end: LogPosition,
        bytes: usize,
        ticket: Option<Result<Ticket, StoreError>>,
    ) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        let ticket = ticket.transpose().inspect_err(|_| state.go_back())?;
        state.delivered = Some(end);
        state.early_ends = 0;
        match ticket {
            Some(ticket) => {
                state.submitted = Some(end);
                state.uncommitted_bytes += bytes;
                let batch = UncommittedBatch { ticket, end, bytes };
                state.uncommitted.push_back(batch);
            }
            None if state.uncommitted.is_empty() => state.safe = Some(end),
            None => {}
        }
        Ok(())
    }

    /// The commit of the first batch, if it must be known before another batch is read.
    pub(crate) fn overdue(&self) -> Option<Ticket> {
        let state = self.0.lock();
        let is_overdue = state.uncommitted.len() > UNCOMMITTED_MAX
            || state.uncommitted_bytes > UNCOMMITTED_BYTES_MAX;
        let first = state.uncommitted.front().filter(|_| is_overdue);
        first.map(|batch| batch.ticket.clone())
    }

    /// The commit of the first batch of which it is not known.
    pub(crate) fn first_uncommitted(&self) -> Option<Ticket> {
        let state = self.0.lock();
        let first = state.uncommitted.front();
        first.map(|batch| batch.ticket.clone())
    }

    /// Whether a batch could not be stored, so that reading will return to an earlier position.
    pub(crate) fn has_failed(&self) -> bool {
        let state = self.0.lock();
        let mut outcomes = state.uncommitted.iter().map(|batch| batch.ticket.outcome());
        outcomes.any(|outcome| matches!(outcome, Some(Err(_))))
    }

    /// Takes the known outcomes. After a failure, reading returns to the last safe position.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        while let Some(UncommittedBatch { ticket, end, bytes }) = state.uncommitted.front() {
            match ticket.outcome() {
                None => break,
                Some(Ok(())) => {
                    (state.safe, state.uncommitted_bytes) =
                        (Some(*end), state.uncommitted_bytes - bytes);
                    state.uncommitted.pop_front();
                }
                Some(Err(error)) => {
                    state.go_back();
                    return Err(error);
                }
            }
        }
        if state.uncommitted.is_empty() {
            state.safe = state.delivered;
        }
        Ok(())
    }

    /// The position that the database does not have, if no batch will store it; it counts as
    /// submitted.
    pub(crate) fn take_unsubmitted(&self) -> Option<LogPosition> {
        let mut state = self.0.lock();
        if !state.uncommitted.is_empty() || state.submitted == state.safe {
            return None;
        }
        state.submitted = state.safe;
        state.safe
    }
}

impl ProgressState {
    fn go_back(&mut self) {
        self.uncommitted.clear();
        self.uncommitted_bytes = 0;
        self.delivered = self.safe;
    }
}

#[cfg(test)]
mod tests {
    use gatepost_store::ExternalCommit;

    use super::*;

    fn at(sequence: u64) -> LogPosition {
        LogPosition::after(1, sequence)
    }

    fn closed() -> StoreError {
        StoreError::Closed
    }

    fn note(progress: &ReadProgress, end: LogPosition, bytes: usize, ticket: Option<Ticket>) {
        let noted = progress.note(end, bytes, ticket.map(Ok));
        noted.expect("it was submitted");
    }

    #[test]
    fn after_a_failed_commit_reading_returns_to_the_last_stored_position() {
        let progress = ReadProgress::new(Some(at(1)));
        let (first, first_ticket) = ExternalCommit::new();
        let (second, second_ticket) = ExternalCommit::new();
        note(&progress, at(5), 1, Some(first_ticket));
        note(&progress, at(9), 1, Some(second_ticket));
        note(&progress, at(10), 1, None);
        assert_eq!(progress.delivered(), Some(at(10)));
        assert!(progress.overdue().is_none() && progress.first_uncommitted().is_some());
        first.decide(Ok(()));
        progress.settle().expect("the first is stored");
        assert!(!progress.has_failed());
        second.decide(Err(closed()));
        assert!(progress.has_failed());
        assert!(progress.settle().is_err());
        assert_eq!(progress.delivered(), Some(at(5)));
        progress.settle().expect("nothing is undecided");
        note(&progress, at(6), 1, None);
        assert_eq!(progress.delivered(), Some(at(6)));
        let (_undecided, third_ticket) = ExternalCommit::new();
        note(&progress, at(7), 1, Some(third_ticket));
        let refused = progress.note(at(8), 1, Some(Err(closed())));
        assert!(refused.is_err());
        assert_eq!(progress.delivered(), Some(at(6)));
    }

    #[test]
    fn batches_wait_for_a_commit_after_some_and_after_long_ones() {
        let progress = ReadProgress::new(Some(at(1)));
        let (commits, tickets): (Vec<_>, Vec<_>) =
            (0..=UNCOMMITTED_MAX).map(|_| ExternalCommit::new()).unzip();
        for (sequence, ticket) in (2..).zip(tickets) {
            assert!(progress.overdue().is_none());
            note(&progress, at(sequence), 1, Some(ticket));
        }
        assert!(progress.overdue().is_some());
        for commit in &commits {
            commit.decide(Ok(()));
        }
        progress.settle().expect("all are stored");
        assert!(progress.overdue().is_none());
        let (commit, ticket) = ExternalCommit::new();
        note(
            &progress,
            at(100),
            UNCOMMITTED_BYTES_MAX,
            Some(ticket.clone()),
        );
        assert!(progress.overdue().is_none());
        note(&progress, at(101), 1, Some(ticket));
        assert!(progress.overdue().is_some());
        commit.decide(Ok(()));
        progress.settle().expect("both are stored");
        assert!(progress.overdue().is_none() && progress.first_uncommitted().is_none());
    }

    #[test]
    fn a_position_after_entries_without_changes_is_submitted_once() {
        let progress = ReadProgress::new(None);
        progress.set(at(1));
        assert_eq!(progress.take_unsubmitted(), None);
        note(&progress, at(2), 1, None);
        assert_eq!(progress.take_unsubmitted(), Some(at(2)));
        assert_eq!(progress.take_unsubmitted(), None);
        let (commit, ticket) = ExternalCommit::new();
        note(&progress, at(3), 1, Some(ticket));
        note(&progress, at(4), 1, None);
        assert_eq!(progress.take_unsubmitted(), None, "a batch is not decided");
        commit.decide(Ok(()));
        progress.settle().expect("it is stored");
        assert_eq!(progress.take_unsubmitted(), Some(at(4)));
    }
}
