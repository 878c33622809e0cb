//! The open loop: calls that are due at fixed times.

use super::session::{CallTotals, CallerConnection};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::Loop;
use crate::outcome::RunOutcome;

/// Calls that are sent before answers are read again, if more are due.
const SENT_IN_TURN: u64 = 10_000;
/// The time without an answer after which the calls that wait for one are counted as unanswered.
const PATIENCE: Nanoseconds = 2 * clock::SECOND;

/// The times of the calls: the n-th is due n intervals after the start.
pub(super) struct CallSchedule {
    start: Nanoseconds,
    rate: f64,
    /// Calls that were sent.
    made: u64,
    /// The time from when a call was due until it was sent.
    slip: Latencies,
}

impl CallSchedule {
    pub(super) fn new(start: Nanoseconds, rate: f64) -> Self {
        Self {
            start,
            rate,
            made: 0,
            slip: Latencies::default(),
        }
    }

    fn due_at(&self, number: u64) -> Nanoseconds {
        let since = clock::from_seconds(number as f64 / self.rate);
        self.start.saturating_add(since)
    }

    /// Sends the calls that are due, with one write for each connection; returns the time at which
    /// the next one is due.
    pub(super) fn send_due(
        &mut self,
        now: Nanoseconds,
        connections: usize,
        sessions: &mut Loop<CallerConnection>,
        shared: &mut CallTotals,
    ) -> Nanoseconds {
        let first = self.made;
        while self.made < first + SENT_IN_TURN && self.due_at(self.made) <= now {
            let due = self.due_at(self.made);
            if let Some(session) = sessions.conversation(self.made as usize % connections) {
                session.call_at(due, shared);
            }
            self.slip.record(clock::now().saturating_sub(due));
            self.made += 1;
        }
        let count = usize::try_from(self.made - first).unwrap_or(connections);
        for index in 0..connections.min(count) {
            let index = (first as usize + index) % connections;
            let session = sessions.conversation(index);
            let requests = session.map(|session| session.take_due(shared));
            sessions.send(index, &requests.unwrap_or_default(), shared);
        }
        self.due_at(self.made)
    }

    /// Adds the figures of an open loop.
    pub(super) fn report(&self, shared: &CallTotals, outcome: &mut RunOutcome) {
        outcome.neutral("offered", self.rate, "/s");
        let unanswered = shared.unanswered();
        outcome.lower("unanswered", unanswered as f64, "");
        if unanswered > 0 {
            outcome.warn(format!(
                "{unanswered} calls were never answered, so no latency includes them"
            ));
        }
        outcome.latency("schedule", &self.slip);
        outcome.warn_of_slip(&self.slip);
    }
}

/// Waits until all calls are answered, or nothing has been answered for a while: the calls that
/// wait the longest would otherwise be missing from the latencies.
pub(super) fn await_answers(
    sessions: &mut Loop<CallerConnection>,
    shared: &mut CallTotals,
) -> Result<(), BenchError> {
    let (mut last, mut changed) = (shared.unanswered(), clock::now());
    while last > 0 && sessions.open() > 0 && clock::now() - changed < PATIENCE && !interrupted() {
        sessions.turn(clock::now() + clock::SECOND / 50, shared)?;
        let unanswered = shared.unanswered();
        if unanswered != last {
            (last, changed) = (unanswered, clock::now());
        }
    }
    Ok(())
}
