//! Reading of what sessions have missed of the log, up to a position that this node has delivered.
//!
//! A session may have missed any number of entries. Each keeps only what its queue can take, and
//! most of it is read before the delivery of the log pauses for the session.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::adopting::{AdoptionRequest, is_before, refuse};
use super::{MoveContext, log_range};
use crate::error::BackboneError;
use crate::log::entry::EntryContent;
use crate::log::position::LogPosition;

/// Entries of a partition that are read in a pause of the delivery. Sessions that have missed more
/// are brought closer first.
const NEAR_ENTRIES_MAX: u64 = 4_096;
/// The time after which a reading outside a pause compares the positions again.
const PART_TIME_MAX: Duration = Duration::from_secs(2);
/// The longest time for a reading, beyond the time after which it is to end.
const READ_TIME_MAX: Duration = Duration::from_secs(4);

impl AdoptionRequest {
    /// Whether little is missing up to this node's positions.
    pub(super) fn is_near(&self, own: &[LogPosition]) -> bool {
        let mut of_partitions = self.transfer.positions.iter().zip(own);
        of_partitions.all(|(received, own)| {
            let entries = own.sequence.saturating_sub(received.sequence);
            !is_before(received, own) || entries <= NEAR_ENTRIES_MAX
        })
    }

    /// Whether nothing is missing up to this node's positions.
    pub(super) fn has_reached(&self, own: &[LogPosition]) -> bool {
        let mut of_partitions = self.transfer.positions.iter().zip(own);
        of_partitions.all(|(received, own)| !is_before(received, own))
    }

    /// Takes the publications of an entry that the session has missed.
    fn take(&mut self, partition: usize, until: &LogPosition, sequence: u64, entry: &EntryContent) {
        let received = self.transfer.positions[partition];
        let EntryContent::Publications(publications) = entry else {
            return;
        };
        if !is_before(&received, until) {
            return;
        }
        for (index, one) in publications.iter().enumerate() {
            // The members of shared subscriptions are served by their nodes.
            let is_for_all =
                one.logged.passed_on.is_none() && !one.logged.publication.topic.is_internal();
            if is_for_all && until.includes(sequence, index) && !received.includes(sequence, index)
            {
                self.missed.add(&one.logged);
            }
        }
    }

    /// Everything up to this position was taken. `first` is the first entry that the log has.
    fn advance(&mut self, partition: usize, reached: LogPosition, first: u64) {
        let received = &mut self.transfer.positions[partition];
        // The sequences of a stream that was replaced mean nothing in the present one.
        if is_before(received, &reached) {
            let first = first.min(reached.sequence + 1);
            self.removed += first.saturating_sub(received.next_sequence());
            *received = reached;
        }
    }
}

impl MoveContext {
    /// Brings sessions that have missed much closer to this node's positions, while the delivery of
    /// the log goes on. Returns those for which that did not fail.
    pub(super) async fn approach(self, mut batch: Vec<AdoptionRequest>) -> Vec<AdoptionRequest> {
        while let Some(own) = self.shared.log.positions()
            && batch.iter().any(|request| !request.is_near(&own))
        {
            for (index, own) in own.iter().enumerate() {
                let until = last_whole(own);
                let end = Instant::now() + PART_TIME_MAX;
                batch = self.read_missed(batch, index, &until, end).await;
            }
        }
        batch
    }

    /// Reads what sessions have missed of a partition, up to `until`, or for as long as `end` has
    /// not come. Returns the sessions, except those that are refused since the log cannot be read.
    pub(super) async fn read_missed(
        &self,
        mut batch: Vec<AdoptionRequest>,
        index: usize,
        until: &LogPosition,
        end: Instant,
    ) -> Vec<AdoptionRequest> {
        let received = batch.iter().map(|one| one.transfer.positions[index]);
        let first = received
            .filter(|received| is_before(received, until))
            .map(|received| received.next_sequence())
            .min();
        let Some(first) = first else {
            return batch;
        };
        let visit = |sequence, _, content: EntryContent| {
            for request in &mut batch {
                request.take(index, until, sequence, &content);
            }
            if Instant::now() < end {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let reading = log_range::read(&self.log[index], first, until.sequence, visit);
        let time_max = end.saturating_duration_since(Instant::now()) + READ_TIME_MAX;
        let read = match tokio::time::timeout(time_max, reading).await {
            Ok(read) => read,
            Err(_) => Err(BackboneError::Lost("the log does not answer".to_owned())),
        };
        match read {
            Ok(read) => {
                let reached = if read.next > until.sequence {
                    *until
                } else {
                    LogPosition::after(until.stream, read.next - 1)
                };
                for request in &mut batch {
                    request.advance(index, reached, read.first);
                }
                batch
            }
            Err(error) => {
                let (unread, rest): (Vec<_>, Vec<_>) = batch
                    .into_iter()
                    .partition(|one| is_before(&one.transfer.positions[index], until));
                tracing::warn!(target: "backbone", %error, sessions = unread.len(),
                    "sessions did not get what they have missed; their clients try again");
                refuse(unread, &error.to_string());
                rest
            }
        }
    }
}

/// The position after the last entry of which everything was delivered.
const fn last_whole(own: &LogPosition) -> LogPosition {
    LogPosition::after(own.stream, own.next_sequence().saturating_sub(1))
}
