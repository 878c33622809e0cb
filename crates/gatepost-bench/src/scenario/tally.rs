//! Counts of requests over persistent connections: accepted, refused, broken, and their latencies.
//!
//! Only responses within the measurement count. Whether the server responds at all is decided by
//! any response, including those of the warm-up. In an open loop, latencies and refusals are those
//! of the operations that were due in the measured time, whenever they were answered; the rate is
//! that of the answers within it.

use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;
use crate::outcome::RunOutcome;
use crate::timeline::Timeline;

/// The names of the counted items in a scenario.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    /// The singular, for the names of latencies.
    pub(super) one: &'static str,
    /// The plural.
    pub(super) several: &'static str,
    /// The plural for failed ones.
    pub(super) refused: &'static str,
}

/// Counts of one measurement.
pub(super) struct MeasurementCounts {
    names: Names,
    measure_from: Nanoseconds,
    /// The end of the measured time in an open loop, whose answers are awaited after it.
    measure_to: Option<Nanoseconds>,
    /// Whether any succeeded, including the warm-up.
    has_taken: bool,
    taken: u64,
    refused: u64,
    broken: u64,
    latencies: Latencies,
    failure: Option<String>,
    timeline: Timeline,
}

impl MeasurementCounts {
    pub(super) fn new(names: Names, measure_from: Nanoseconds) -> Self {
        Self {
            names,
            measure_from,
            measure_to: None,
            has_taken: false,
            taken: 0,
            refused: 0,
            broken: 0,
            latencies: Latencies::default(),
            failure: None,
            timeline: Timeline::from(measure_from),
        }
    }

    /// The counts of operations that are due at fixed times.
    pub(super) fn of_schedule(
        names: Names,
        measure_from: Nanoseconds,
        measure_to: Nanoseconds,
    ) -> Self {
        Self {
            measure_to: Some(measure_to),
            ..Self::new(names, measure_from)
        }
    }

    /// Whether this is within the measured time.
    pub(super) fn is_measured(&self, moment: Nanoseconds) -> bool {
        moment >= self.measure_from && self.measure_to.is_none_or(|end| moment < end)
    }

    /// The number of successes during the measurement.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Counts an operation that began, or was due, at this time.
    pub(super) fn count(&mut self, is_taken: bool, begun: Nanoseconds, now: Nanoseconds) {
        self.has_taken |= is_taken;
        let decides = if self.measure_to.is_some() {
            begun
        } else {
            now
        };
        if self.is_measured(decides) {
            if is_taken {
                self.latencies.record(now.saturating_sub(begun));
            } else {
                self.refused += 1;
            }
        }
        if is_taken && self.is_measured(now) {
            self.taken += 1;
            self.timeline.add(now, 1);
        }
    }

    /// Counts a connection that the server ended.
    pub(super) fn count_broken(&mut self) {
        self.broken += u64::from(clock::now() >= self.measure_from);
    }

    /// Keeps the reason of the first failure.
    pub(super) fn failed(&mut self, reason: impl FnOnce() -> String) {
        self.failure.get_or_insert_with(reason);
    }

    /// The reason to abort: no operation ever succeeded, and at least one failed.
    pub(super) fn abort_reason(&mut self) -> Option<String> {
        if self.has_taken {
            return None;
        }
        self.failure.take()
    }

    /// The progress line, `span` after the measurement began.
    pub(super) fn describe(&self, span: Nanoseconds) -> String {
        let Names {
            several, refused, ..
        } = self.names;
        let rate = self.taken as f64 / clock::seconds(span.max(1));
        format!(
            "{rate:.0}/s, {} {several}, {} {refused}",
            self.taken, self.refused
        )
    }

    /// The figures of a measurement of this length.
    pub(super) fn report(&self, seconds: f64, outcome: &mut RunOutcome) {
        let Names {
            one,
            several,
            refused,
        } = self.names;
        let rate = self.taken as f64 / seconds;
        outcome.higher(format!("{several} per second"), rate, "/s");
        outcome.lower(refused, self.refused as f64, "");
        outcome.lower("broken connections", self.broken as f64, "");
        outcome.latency(one, &self.latencies);
        outcome.counts_by_second = self.timeline.seconds();
        outcome.warn_if_unsteady(self.timeline.parts());
        if let Some(reason) = &self.failure {
            outcome.warn(format!("first failure: {reason}"));
        }
    }
}
