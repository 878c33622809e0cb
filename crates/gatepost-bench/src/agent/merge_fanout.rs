//! Merges the results of FANOUT agents into one outcome.

use std::collections::BTreeMap;

use super::conductor::Agent;
use super::fanout_worker::received;
use super::message::AgentReport;
use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;
use crate::outcome::RunOutcome;
use crate::process::{Costs, ProcessRecord};
use crate::pubsub::TrackerCounts;
use crate::scenario::fanout::{MeasuredRun, Plan, ReceiveTotals};

/// If more than one delivery in this number arrives before it was sent, the clock offsets are
/// wrong.
const EARLY_SHARE: u64 = 1_000;

/// A FANOUT run on several hosts.
pub(super) struct MergedFanout {
    pub(super) agents: BTreeMap<String, Agent>,
    pub(super) begin: Nanoseconds,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

impl MergedFanout {
    /// The figures of the agents that reported, with warnings for those that did not.
    pub(super) fn outcome(mut self, plan: &Plan) -> RunOutcome {
        let mut all = ReceiveTotals::default();
        let (mut tally, mut slip) = (TrackerCounts::default(), Latencies::default());
        let (mut unacknowledged, mut given_up) = (0, 0);
        let mut acknowledgements = Latencies::default();
        let (mut generator, mut server) = (ProcessRecord::default(), None);
        let mut by_agent = Vec::new();
        for (name, agent) in &mut self.agents {
            if let Some(AgentReport::Sent {
                slip: late,
                unacknowledged: without,
                given_up: late_ones,
                acknowledgements: waited,
                ..
            }) = &agent.sent
            {
                slip.add(late);
                unacknowledged += without;
                given_up += late_ones;
                acknowledgements.add(waited);
            }
            let Some(AgentReport::Done {
                report,
                generator: own,
                server: watched,
            }) = agent.done.take()
            else {
                continue;
            };
            tally.add(report.tally);
            all.merge(received(*report));
            by_agent.push((name.clone(), *own.clone()));
            add(&mut generator, &own);
            server = server.or(watched.map(|record| *record));
        }
        let withheld = self.latency_withheld(&all);
        let measured = MeasuredRun {
            server_cpu_seconds: server.as_ref().map(ProcessRecord::cpu_seconds),
            received: all,
            tally,
            slip,
            unacknowledged,
            given_up,
            acknowledgements,
            seconds: self.seconds,
            costs: Costs {
                server,
                generator,
                ..Costs::default()
            },
            interrupted: self.interrupted,
            latency_withheld: withheld,
        };
        let mut outcome = measured.outcome(plan);
        outcome.neutral("clock offset known to", self.clock_error_us(), "µs");
        report_agents(by_agent, &mut outcome);
        self.report_lost(&mut outcome);
        outcome
    }

    /// Reports lost agents. Rates remain those measured: nothing is scaled up.
    fn report_lost(&self, outcome: &mut RunOutcome) {
        let lost = self.agents.iter().filter_map(|(name, agent)| {
            let (at, reason) = agent.lost.as_ref()?;
            Some((name, agent, *at, reason))
        });
        let (mut subscribers, mut publishers) = (0, 0);
        for (name, agent, at, reason) in lost {
            let (receiving, sending) = (
                agent.assignment.subscribers.len(),
                agent.assignment.publishers.len(),
            );
            subscribers += receiving;
            publishers += sending;
            let after = clock::seconds(at.saturating_sub(self.begin));
            outcome.warn(format!(
                "agent {name} was lost {after:.1} s after the beginning ({reason}): its \
                 {receiving} subscribers and {sending} publishers are missing from every figure"
            ));
        }
        outcome.lower("subscribers missing", subscribers as f64, "");
        outcome.lower("publishers missing", publishers as f64, "");
    }

    /// The largest error of a one-way latency: the sum of the clock errors of the worst pair of a
    /// receiving and a sending host.
    fn clock_error_us(&self) -> f64 {
        let error = |agent: &Agent| agent.clock.map_or(0, |clock| clock.error_ns);
        let mut worst = 0;
        for (sender, sending) in &self.agents {
            for (receiver, receiving) in &self.agents {
                let together = sender != receiver
                    && !sending.assignment.publishers.is_empty()
                    && !receiving.assignment.subscribers.is_empty();
                if together {
                    worst = worst.max(error(sending) + error(receiving));
                }
            }
        }
        worst as f64 / 1_000.0
    }

    /// The reason for omitting the latencies, if they are omitted.
    fn latency_withheld(&self, all: &ReceiveTotals) -> Option<String> {
        let error = self.clock_error_us();
        let median = all.latencies.summary().p50_us;
        if all.early * EARLY_SHARE > all.latencies.count() {
            let count = all.early;
            return Some(format!(
                "one-way latency omitted: {count} deliveries arrived before they were sent, so the \
                 clock offsets are wrong"
            ));
        }
        (error > 0.0 && error >= median).then(|| {
            format!(
                "one-way latency omitted: its median would be {median:.0} µs, but the clock \
                 offset is only known to {error:.0} µs"
            )
        })
    }
}

/// The costs of each host's generator.
pub(super) fn report_agents(
    by_agent: impl IntoIterator<Item = (String, ProcessRecord)>,
    outcome: &mut RunOutcome,
) {
    for (name, record) in by_agent {
        outcome.neutral(format!("CPU of {name}"), record.cpu_percent(), "%");
        let memory = record.resident_bytes_max as f64 / 1024.0;
        outcome.neutral(format!("memory of {name}"), memory, "KB");
    }
}

/// Adds the resources used by another generator.
pub(super) fn add(sum: &mut ProcessRecord, one: &ProcessRecord) {
    sum.seconds = sum.seconds.max(one.seconds);
    sum.user_seconds += one.user_seconds;
    sum.system_seconds += one.system_seconds;
    sum.resident_bytes_max += one.resident_bytes_max;
    sum.busiest_thread_percent = sum.busiest_thread_percent.max(one.busiest_thread_percent);
    sum.voluntary_switches += one.voluntary_switches;
    sum.involuntary_switches += one.involuntary_switches;
    sum.traffic.received_bytes += one.traffic.received_bytes;
    sum.traffic.sent_bytes += one.traffic.sent_bytes;
}
