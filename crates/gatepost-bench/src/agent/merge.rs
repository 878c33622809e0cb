//! Merges the results of agents that ran the same scenario into one outcome.
//!
//! Counts and rates are added, times are those of the slowest agent, figures per operation are
//! weighted by the number of operations, latencies are merged as histograms. The clients of a lost
//! agent are reported as missing; nothing is extrapolated for them.

use std::collections::BTreeMap;

use super::conductor::Agent;
use super::merge_fanout::{add, report_agents};
use super::message::AgentReport;
use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;
use crate::outcome::{Figure, OperationCount, RunOutcome};
use crate::process::{Costs, ProcessRecord, Usage};

/// The figure for the duration of all operations together.
const TIME_FOR_ALL: &str = "time for all";
/// The suffix of the corresponding rate.
const PER_SECOND: &str = " per second";
/// Not a count: its values are not added.
const EXIT_CODE: &str = "exit code";

/// A run on several hosts.
pub(super) struct Merged {
    pub(super) agents: BTreeMap<String, Agent>,
    pub(super) begin: Nanoseconds,
    /// The scenario's term for its clients.
    pub(super) unit: &'static str,
    /// Names of the server's CPU and memory for each operation, between the first two gates.
    pub(super) growth: Option<(&'static str, &'static str)>,
}

/// The result of one agent.
struct AgentResult {
    name: String,
    outcome: RunOutcome,
    operations: OperationCount,
}

impl Merged {
    pub(super) fn outcome(mut self) -> RunOutcome {
        let (mut all, mut server, mut usage) = (Vec::new(), None, Vec::new());
        let mut not_found = Vec::new();
        for (name, agent) in &mut self.agents {
            if let Some(AgentReport::Result {
                outcome,
                operations,
            }) = agent.done.take()
            {
                let (name, outcome) = (name.clone(), *outcome);
                all.push(AgentResult {
                    name,
                    outcome,
                    operations,
                });
            }
            if let Some(AgentReport::Watched {
                server: record,
                usage: seen,
            }) = agent.watched.take()
            {
                if record.is_none() {
                    not_found.push((name.clone(), agent.assignment.server.unwrap_or(0)));
                }
                server = server.or(record.map(|record| *record));
                usage.extend(seen);
            }
        }
        let mut merged = merged(&all);
        let operation = all.first().map(|one| one.operations.name.clone());
        let count: u64 = all.iter().map(|one| one.operations.count).sum();
        if let (Some((cpu, memory)), [first, second, ..]) = (self.growth, &usage[..]) {
            growth(&mut merged, cpu, memory, [first, second], count);
        }
        let mut generator = ProcessRecord::default();
        for one in &all {
            add(&mut generator, &one.outcome.generator);
        }
        let costs = Costs {
            server,
            generator,
            ..Costs::default()
        };
        merged.set_costs(costs, &operation.unwrap_or_default(), count);
        let by_agent = all.into_iter().map(|one| (one.name, one.outcome.generator));
        report_agents(by_agent, &mut merged);
        for (name, port) in not_found {
            merged.warn(format!("agent {name} found no server at port {port}"));
        }
        self.report_lost(&mut merged);
        merged
    }

    fn report_lost(&self, outcome: &mut RunOutcome) {
        let mut missing = 0;
        for (name, agent) in &self.agents {
            let Some((at, reason)) = &agent.lost else {
                continue;
            };
            let (clients, unit) = (agent.assignment.clients, self.unit);
            missing += clients;
            let after = clock::seconds(at.saturating_sub(self.begin));
            outcome.warn(format!(
                "agent {name} was lost {after:.1} s after the beginning ({reason}): its {clients} \
                 {unit} are missing from every figure"
            ));
        }
        outcome.lower(format!("{} missing", self.unit), missing as f64, "");
    }
}

fn growth(outcome: &mut RunOutcome, cpu: &str, memory: &str, usage: [&Usage; 2], count: u64) {
    let (count, [before, after]) = (count.max(1) as f64, usage);
    let used = after.cpu_seconds() - before.cpu_seconds();
    outcome.lower(cpu, used / count * 1e6, "µs");
    let grown = after.resident_bytes as f64 - before.resident_bytes as f64;
    outcome.lower(memory, grown / count, "bytes");
}

/// Figures, latencies, counts and warnings of all agents.
fn merged(all: &[AgentResult]) -> RunOutcome {
    let mut merged = RunOutcome::default();
    let Some(first) = all.first() else {
        return merged;
    };
    // Generator costs are added separately.
    let names = first.outcome.figures.iter();
    for figure in names.filter(|figure| !figure.name.starts_with("generator")) {
        let value = together(figure, all);
        merged.figures.push(Figure {
            value,
            ..figure.clone()
        });
    }
    correct_rate(&mut merged, all);
    for latency in &first.outcome.latencies {
        let mut latencies = Latencies::default();
        let same = all.iter().flat_map(|one| &one.outcome.latencies);
        for one in same.filter(|one| one.name == latency.name) {
            latencies.add(&one.buckets_ns);
        }
        merged.latency(&latency.name, &latencies);
    }
    for AgentResult { name, outcome, .. } in all {
        merged.interrupted |= outcome.interrupted;
        let lines = outcome.original.iter();
        merged
            .original
            .extend(lines.map(|line| format!("{name}: {line}")));
        let doubts = outcome.warnings.iter();
        merged
            .warnings
            .extend(doubts.map(|doubt| format!("{name}: {doubt}")));
        let seconds = outcome.counts_by_second.len();
        if seconds > merged.counts_by_second.len() {
            merged.counts_by_second.resize(seconds, 0);
        }
        let counts = merged.counts_by_second.iter_mut();
        for (sum, count) in counts.zip(&outcome.counts_by_second) {
            *sum += count;
        }
    }
    merged
}

/// Combines one figure of all agents, by its unit.
fn together(figure: &Figure, all: &[AgentResult]) -> f64 {
    let each = || {
        all.iter().filter_map(|one| {
            let value = one.outcome.value(&figure.name)?;
            Some((value, one.operations.count as f64))
        })
    };
    let sum = || each().map(|(value, _)| value).sum::<f64>();
    match figure.unit.as_str() {
        "s" => each().map(|(value, _)| value).fold(0.0, f64::max),
        "µs" | "bytes" => {
            let weight: f64 = each().map(|(_, count)| count).sum();
            each().map(|(value, count)| value * count).sum::<f64>() / weight.max(1.0)
        }
        _ if figure.name == EXIT_CODE => figure.value,
        _ => sum(),
    }
}

/// If each agent had a fixed amount of work, the rate follows from the time of the slowest: adding
/// the rates would treat agents that had finished as if they had continued.
fn correct_rate(merged: &mut RunOutcome, all: &[AgentResult]) {
    let Some(seconds) = merged.value(TIME_FOR_ALL).filter(|&seconds| seconds > 0.0) else {
        return;
    };
    let count: u64 = all.iter().map(|one| one.operations.count).sum();
    let rate = merged
        .figures
        .iter_mut()
        .find(|figure| figure.name.ends_with(PER_SECOND));
    if let Some(rate) = rate {
        rate.value = count as f64 / seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(name: &str, count: u64, seconds: f64) -> AgentResult {
        let mut outcome = RunOutcome::default();
        outcome.higher("logins per second", count as f64 / seconds, "/s");
        outcome.lower(TIME_FOR_ALL, seconds, "s");
        outcome.lower("failed", 1.0, "");
        outcome.lower("average", seconds * 10.0, "µs");
        outcome.neutral(EXIT_CODE, 3.0, "");
        outcome.neutral("generator CPU", 50.0, "%");
        let mut latencies = Latencies::default();
        latencies.record(count);
        outcome.latency("login", &latencies);
        outcome.counts_by_second = vec![count; seconds as usize];
        outcome.warn("a doubt");
        let name_of_operation = "login".to_owned();
        AgentResult {
            name: name.to_owned(),
            outcome,
            operations: OperationCount {
                name: name_of_operation,
                count,
            },
        }
    }

    #[test]
    fn each_figure_is_put_together_as_it_must_be() {
        let all = [single("one", 300, 2.0), single("two", 100, 4.0)];
        let merged = merged(&all);
        // 400 in 4 s; the sum of the rates, 175, would be wrong.
        assert_eq!(merged.value("logins per second"), Some(100.0));
        assert_eq!(merged.value(TIME_FOR_ALL), Some(4.0));
        assert_eq!(merged.value("failed"), Some(2.0));
        assert_eq!(merged.value("average"), Some(25.0));
        assert_eq!(merged.value(EXIT_CODE), Some(3.0));
        assert_eq!(merged.value("generator CPU"), None);
        assert_eq!(merged.latencies[0].summary.count, 2);
        assert_eq!(merged.counts_by_second, [400, 400, 100, 100]);
        assert_eq!(merged.warnings, ["one: a doubt", "two: a doubt"]);
    }
}
