//! Observations of a FANOUT run, on one host or several, and its figures.

use super::settings::Plan;
use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;
use crate::outcome::{PARTS_PER_SECOND, RunOutcome};
use crate::process::Costs;
use crate::pubsub::{Tracker, TrackerCounts};
use crate::statistics::steadiness;

/// Totals of the receiving threads.
#[derive(Default)]
pub(crate) struct ReceiveTotals {
    pub(crate) latencies: Latencies,
    /// Deliveries that arrived in the measured time, whenever they were due: the throughput.
    pub(crate) in_time: u64,
    pub(crate) by_second: Vec<u64>,
    /// Sum of latencies in microseconds, and their number, by the tenth of a second in which the
    /// messages were due.
    pub(crate) by_part: Vec<(u64, u64)>,
    /// Each subscriber's publisher, with the messages received from it.
    pub(crate) trackers: Vec<(u16, Tracker)>,
    pub(crate) foreign: u64,
    /// Deliveries that arrived before they were sent, according to the clocks.
    pub(crate) early: u64,
    pub(crate) disconnected: Vec<String>,
}

impl ReceiveTotals {
    /// A delivery with the times when it was due and when it arrived, since the measurement began.
    pub(super) fn count(&mut self, due: Nanoseconds, come: Nanoseconds) {
        self.early += u64::from(come < due);
        let latency = come.saturating_sub(due);
        self.latencies.record(latency);
        let second = (come / clock::SECOND) as usize;
        if second >= self.by_second.len() {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
        let part = (due * PARTS_PER_SECOND / clock::SECOND) as usize;
        if part >= self.by_part.len() {
            self.by_part.resize(part + 1, (0, 0));
        }
        self.by_part[part].0 += latency / 1_000;
        self.by_part[part].1 += 1;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.latencies.merge(&other.latencies);
        self.in_time += other.in_time;
        self.foreign += other.foreign;
        self.early += other.early;
        self.trackers.extend(other.trackers);
        self.disconnected.extend(other.disconnected);
        let seconds = self.by_second.len().max(other.by_second.len());
        self.by_second.resize(seconds, 0);
        for (mine, others) in self.by_second.iter_mut().zip(other.by_second) {
            *mine += others;
        }
        let parts = self.by_part.len().max(other.by_part.len());
        self.by_part.resize(parts, (0, 0));
        for (mine, others) in self.by_part.iter_mut().zip(other.by_part) {
            mine.0 += others.0;
            mine.1 += others.1;
        }
    }

    /// The final counts, given the number of messages that each publisher sent.
    pub(crate) fn tally(&self, sent: &[u32]) -> TrackerCounts {
        let mut tally = TrackerCounts::default();
        for (publisher, tracker) in &self.trackers {
            let sent = sent.get(usize::from(*publisher)).copied().unwrap_or(0);
            tally.add(tracker.tally(sent));
        }
        tally
    }
}

/// A run as a whole.
pub(crate) struct MeasuredRun {
    pub(crate) received: ReceiveTotals,
    pub(crate) tally: TrackerCounts,
    /// The schedule slippage of sent messages.
    pub(crate) slip: Latencies,
    pub(crate) unacknowledged: u64,
    /// Messages that the generator could not send in the time of the run.
    pub(crate) given_up: u64,
    /// From when a publication was due until it was acknowledged.
    pub(crate) acknowledgements: Latencies,
    pub(crate) seconds: f64,
    /// CPU time of the server, from the first measured message to the last delivery.
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) costs: Costs,
    pub(crate) interrupted: bool,
    /// The reason for omitting one-way latencies: insufficient clock accuracy.
    pub(crate) latency_withheld: Option<String>,
}

impl MeasuredRun {
    /// The figures.
    pub(crate) fn outcome(self, plan: &Plan) -> RunOutcome {
        let mut outcome = RunOutcome {
            interrupted: self.interrupted,
            ..RunOutcome::default()
        };
        let (received, tally) = (&self.received, &self.tally);
        let rate = received.in_time as f64 / self.seconds;
        outcome.higher("deliveries per second", rate, "/s");
        outcome.neutral("offered", plan.rate * plan.subscribers as f64, "/s");
        outcome.lower("lost", tally.lost as f64, "");
        outcome.lower("duplicates", tally.duplicates as f64, "");
        outcome.lower("out of order", tally.reordered as f64, "");
        let deliveries = received.latencies.count();
        if let Some(cpu_seconds) = self.server_cpu_seconds {
            let each = cpu_seconds / deliveries.max(1) as f64 * 1e6;
            outcome.lower("server CPU per delivery", each, "µs");
        }
        match &self.latency_withheld {
            Some(reason) => outcome.warn(reason),
            None => outcome.latency("delivery", &received.latencies),
        }
        if plan.expects_acknowledgements() {
            outcome.lower("unacknowledged", self.unacknowledged as f64, "");
            outcome.latency("acknowledgement", &self.acknowledgements);
        }
        outcome.latency("schedule", &self.slip);
        outcome.original = original_lines(plan, &received.by_second, rate, tally);
        self.warn(&mut outcome);
        outcome.counts_by_second = self.received.by_second;
        outcome.set_costs(self.costs, "delivery", self.received.in_time);
        outcome
    }

    fn warn(&self, outcome: &mut RunOutcome) {
        let received = &self.received;
        outcome.warn_of_slip(&self.slip);
        if self.given_up > 0 {
            outcome.warn(format!(
                "the generator could not send {} of the messages: the rate is above its limit",
                self.given_up
            ));
        }
        if self.tally.lost > 0 {
            outcome.warn(format!("{} messages were lost", self.tally.lost));
        }
        if received.foreign > 0 {
            outcome.warn(format!("{} messages were none of ours", received.foreign));
        }
        if let Some(first) = received.disconnected.first() {
            let count = received.disconnected.len();
            outcome.warn(format!("{count} subscribers were disconnected: {first}"));
        }
        if self.unacknowledged > 0 {
            let count = self.unacknowledged;
            outcome.warn(format!("{count} publications were never acknowledged"));
        }
        let means: Vec<f64> = received
            .by_part
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(sum, count)| *sum as f64 / *count as f64)
            .collect();
        outcome.warn_of(steadiness(&means), means.len());
    }
}

fn original_lines(plan: &Plan, by_second: &[u64], rate: f64, tally: &TrackerCounts) -> Vec<String> {
    let seconds: Vec<String> = by_second.iter().map(u64::to_string).collect();
    let dropped = if tally.lost == 0 {
        "none".to_owned()
    } else {
        tally.lost.to_string()
    };
    vec![
        format!(
            "{} publishers x {} messages/s of {} bytes, {} subscribers",
            plan.publishers, plan.rate, plan.size, plan.subscribers
        ),
        format!("Total message throughput: {rate:.0} msg/sec; dropped: {dropped}"),
        format!("by second: {}", seconds.join(" ")),
    ]
}
