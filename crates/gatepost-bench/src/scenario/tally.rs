//! Counts of requests over persistent connections: accepted, refused, broken, and their latencies.
//!
//! Only responses within the measurement count. Whether the server responds at all is decided by
//! any response, including those of the warm-up.

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
            has_taken: false,
            taken: 0,
            refused: 0,
            broken: 0,
            latencies: Latencies::default(),
            failure: None,
            timeline: Timeline::from(measure_from),
        }
    }

    /// The number of successes during the measurement.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Counts an operation that began, or was due, at this time.
    pub(super) fn count(&mut self, is_taken: bool, begun: Nanoseconds, now: Nanoseconds) {
        self.has_taken |= is_taken;
        if now < self.measure_from {
            return;
        }
        if is_taken {
            self.taken += 1;
            self.latencies.record(now.saturating_sub(begun));
            self.timeline.add(now, 1);
        } else {
            self.refused += 1;
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
