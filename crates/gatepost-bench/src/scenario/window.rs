//! The measured time of a load over persistent connections: warm-up, then the measurement, with the
//! server's costs sampled during the latter.
//!
//! CALLS and SMTP drive their connections differently, but begin, end and report in the same way.

use super::tally::MeasurementCounts;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::RunOutcome;
use crate::process::{Costs, Sampler};
use crate::progress::RunProgress;
use crate::target::RunningTarget;

/// A measurement in progress.
pub(super) struct MeasurementWindow<'run> {
    target: &'run RunningTarget,
    progress: &'run RunProgress,
    /// The start of the warm-up.
    pub(super) start: Nanoseconds,
    /// The start of the measurement.
    pub(super) begin: Nanoseconds,
    pub(super) end: Nanoseconds,
    sampler: Option<Sampler>,
    /// The time at which the measurement ended, and its costs.
    measured: Option<(Nanoseconds, Costs)>,
}

impl<'run> MeasurementWindow<'run> {
    /// Begins the warm-up, at the same time on all hosts of the run.
    pub(super) fn open(
        target: &'run RunningTarget,
        progress: &'run RunProgress,
        warm_up_seconds: f64,
        seconds: f64,
    ) -> Result<Self, BenchError> {
        progress.together()?;
        let start = clock::now();
        let begin = start + clock::from_seconds(warm_up_seconds);
        Ok(Self {
            target,
            progress,
            start,
            begin,
            end: begin + clock::from_seconds(seconds),
            sampler: None,
            measured: None,
        })
    }

    /// Must be called in every turn of the load; returns the time, or `None` once the measurement
    /// has ended. Fails if no operation succeeds.
    pub(super) fn turn(
        &mut self,
        tally: &mut MeasurementCounts,
    ) -> Result<Option<Nanoseconds>, BenchError> {
        let now = clock::now();
        if now >= self.end || interrupted() {
            self.stop(now);
            return Ok(None);
        }
        if now >= self.begin && self.sampler.is_none() {
            self.sampler = Some(Sampler::start(self.target.watched.clone()));
        }
        if let Some(reason) = tally.abort_reason() {
            return Err(BenchError::server(self.target, reason));
        }
        let measured = now.saturating_sub(self.begin);
        let done = measured as f64 / (self.end - self.begin) as f64;
        self.progress.update(done, || tally.describe(measured));
        Ok(Some(now))
    }

    /// The latest time at which the load must return, so that no phase begins or ends late.
    pub(super) fn next_phase(&self, now: Nanoseconds) -> Nanoseconds {
        if now < self.begin {
            self.begin
        } else {
            self.end
        }
    }

    /// Ends the measured time; what is answered later does not belong to its costs.
    fn stop(&mut self, now: Nanoseconds) {
        if self.measured.is_none() {
            let costs = self.sampler.take().map(Sampler::finish);
            self.measured = Some((now, costs.unwrap_or_default()));
        }
    }

    /// The figures, and the costs of each `operation`. Connections must still be open: other hosts
    /// may not have finished.
    pub(super) fn close(
        mut self,
        tally: &MeasurementCounts,
        operation: &str,
    ) -> Result<RunOutcome, BenchError> {
        self.stop(clock::now());
        let (ended, costs) = self.measured.take().unwrap_or_default();
        let seconds = clock::seconds(ended.saturating_sub(self.begin).max(1));
        let mut outcome = RunOutcome {
            interrupted: interrupted(),
            ..RunOutcome::default()
        };
        tally.report(seconds, &mut outcome);
        self.progress.together()?;
        outcome.set_costs(costs, operation, tally.taken());
        Ok(outcome)
    }
}
