//! The result of one run of a scenario: named figures, latencies, costs and warnings.

use serde::{Deserialize, Serialize};

use crate::clock::Nanoseconds;
use crate::latency::{Buckets, Latencies, LatencySummary};
use crate::process::{Costs, MachineLoad, Noise, ProcessRecord};
use crate::statistics::{Steadiness, steadiness};
use crate::sweep::Point;

/// A generator, or one of its threads, below this share of a processor was not limited by it.
pub(crate) const BUSY_PERCENT: f64 = 95.0;
/// Parts of a second whose counts determine whether a run was steady.
pub(crate) const PARTS_PER_SECOND: u64 = 10;

/// The direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// The figure describes the measurement.
    Neither,
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A description of the counted quantity, with a unit in words.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit, as printed after the value.
    pub unit: String,
    /// The direction in which it improves.
    pub better: Better,
}

/// Latencies of one kind in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedLatencies {
    /// The operation that took this time.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub summary: LatencySummary,
    /// The whole histogram, for percentiles over several runs and hosts; empty in reports of
    /// version 1.
    #[serde(default)]
    pub buckets_ns: Buckets,
}

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The values of the swept settings, if any.
    #[serde(default)]
    pub parameters: Point,
    /// The figures, in the order of display.
    pub figures: Vec<Figure>,
    /// Named latencies.
    pub latencies: Vec<NamedLatencies>,
    /// The scenario's main count in each second.
    pub counts_by_second: Vec<u64>,
    /// The resources used by the server, if its process is known.
    pub server: Option<ProcessRecord>,
    /// The resources used by the generator.
    pub generator: ProcessRecord,
    /// The load of the whole machine.
    pub machine: MachineLoad,
    /// Possible disturbances, as of the start of the run.
    #[serde(default)]
    pub noise: Noise,
    /// Lines in the original benchmark's own format.
    pub original: Vec<String>,
    /// Reasons to distrust the figures.
    pub warnings: Vec<String>,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// The operation and its count, by which costs were divided. Not stored, since figures contain
    /// it.
    #[serde(skip)]
    pub operations: OperationCount,
}

/// The number of times that an operation was performed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCount {
    /// The operation, in the singular.
    pub name: String,
    /// The number of times.
    pub count: u64,
}

impl RunOutcome {
    /// Adds a figure that improves by increasing.
    pub(crate) fn higher(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Higher);
    }

    /// Adds a figure that improves by decreasing.
    pub(crate) fn lower(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Lower);
    }

    /// Adds a figure that is neither good nor bad.
    pub(crate) fn neutral(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Neither);
    }

    fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str, better: Better) {
        // JSON has no such numbers, and a report that contains one could not be read again.
        if !value.is_finite() {
            return;
        }
        self.figures.push(Figure {
            name: name.into(),
            value,
            unit: unit.to_owned(),
            better,
        });
    }

    /// Adds latencies.
    pub(crate) fn latency(&mut self, name: impl Into<String>, latencies: &Latencies) {
        self.latencies.push(NamedLatencies {
            name: name.into(),
            summary: latencies.summary(),
            buckets_ns: latencies.buckets(),
        });
    }

    /// Adds a reason to distrust the figures.
    pub(crate) fn warn(&mut self, reason: impl Into<String>) {
        self.warnings.push(reason.into());
    }

    /// The value of a figure.
    pub fn value(&self, name: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.name == name);
        figure.map(|figure| figure.value)
    }

    /// The latencies of a name.
    pub fn latency_of(&self, name: &str) -> Option<&LatencySummary> {
        let latency = self.latencies.iter().find(|latency| latency.name == name);
        latency.map(|latency| &latency.summary)
    }

    /// Adds the resources used by the processes, with the figures that every scenario shows of
    /// them; figures per `operation` are divided by its count.
    pub(crate) fn set_costs(&mut self, costs: Costs, operation: &str, count: u64) {
        let name = operation.to_owned();
        self.operations = OperationCount { name, count };
        let count = count.max(1) as f64;
        if let Some(server) = &costs.server {
            let name = format!("server CPU per {operation}");
            if self.value(&name).is_none() {
                self.lower(name, server.cpu_seconds() / count * 1e6, "µs");
            }
            if let Some(calls) = server.system_calls {
                let per_operation = calls as f64 / count;
                self.lower(
                    format!("server system calls per {operation}"),
                    per_operation,
                    "",
                );
            }
            let switches = server.per_second(server.switches() as f64);
            self.lower("server context switches", switches, "/s");
            self.lower("server CPU", server.cpu_percent(), "%");
            self.lower(
                "server memory",
                server.resident_bytes_max as f64 / 1024.0,
                "KB",
            );
            let megabits = |bytes: u64| server.per_second(bytes as f64 * 8.0 / 1e6);
            self.neutral(
                "network in",
                megabits(server.traffic.received_bytes),
                "Mbit/s",
            );
            self.neutral("network out", megabits(server.traffic.sent_bytes), "Mbit/s");
        }
        let generator = &costs.generator;
        let own = generator.cpu_seconds() / count * 1e6;
        self.neutral(format!("generator CPU per {operation}"), own, "µs");
        if let Some(calls) = generator.system_calls {
            let per_operation = calls as f64 / count;
            self.neutral(
                format!("generator system calls per {operation}"),
                per_operation,
                "",
            );
        }
        self.neutral("generator CPU", generator.cpu_percent(), "%");
        self.neutral(
            "generator memory",
            generator.resident_bytes_max as f64 / 1024.0,
            "KB",
        );
        self.warn_of_noise(&costs);
        self.server = costs.server;
        self.generator = costs.generator;
        self.machine = costs.machine;
        self.noise = costs.noise;
    }

    /// Adds a warning if the counts of tenths of a second show that the run was not steady.
    pub(crate) fn warn_if_unsteady(&mut self, parts: &[u64]) {
        // The last part may be incomplete.
        let whole = &parts[..parts.len().saturating_sub(1)];
        let values: Vec<f64> = whole.iter().map(|&count| count as f64).collect();
        self.warn_of(steadiness(&values), values.len());
    }

    /// Adds a warning about the steadiness of values for each tenth of a second.
    pub(crate) fn warn_of(&mut self, steadiness: Steadiness, parts: usize) {
        /// A beginning shorter than this share of the run hardly changes a figure.
        const SHARE: f64 = 0.1;
        match steadiness {
            Steadiness::From(part) if part as f64 > SHARE * parts as f64 => {
                let seconds = part as f64 / PARTS_PER_SECOND as f64;
                self.warn(format!(
                    "not steady before {seconds:.1} s: lengthen --warm-up by as much"
                ));
            }
            Steadiness::Never => {
                self.warn("it never became steady: lengthen --warm-up and --seconds");
            }
            _ => {}
        }
    }

    /// Adds a warning if operations were begun late, measured from when they were due.
    pub(crate) fn warn_of_slip(&mut self, slip: &Latencies) {
        /// The delay at p99 from which latencies are doubtful.
        const LATE_US: f64 = 1_000.0;
        let late_us = slip.summary().p99_us;
        if late_us > LATE_US {
            let late = late_us / 1e3;
            self.warn(format!("the schedule slipped: {late:.1} ms late at p99"));
        }
    }

    /// Adds a warning if an operation that had no answer at the end of a closed loop has waited for
    /// longer than any that is part of the latencies of this name.
    pub(crate) fn warn_of_waiting(&mut self, name: &str, waited: Option<Nanoseconds>) {
        /// Shorter waits are usual.
        const SHORT_US: f64 = 100_000.0;
        let waited = waited.unwrap_or_default() as f64 / 1e3;
        let longest = self.latency_of(name).map_or(0.0, |known| known.maximum_us);
        if waited > longest.max(SHORT_US) {
            let seconds = waited / 1e6;
            self.warn(format!(
                "a {name} had no answer at the end, {seconds:.1} s after it began: the latencies \
                 do not include it"
            ));
        }
    }

    fn warn_of_noise(&mut self, costs: &Costs) {
        /// The share of the machine's time from which other programs disturb a measurement.
        const STOLEN_SHARE: f64 = 0.02;
        const FOREIGN_SHARE: f64 = 0.15;
        /// A processor that is slower than this share of its best is throttled.
        const FREQUENCY_SHARE: f64 = 0.9;
        let (machine, generator) = (costs.machine, &costs.generator);
        // One saturated thread limits the load, however many processors are idle.
        let is_limit = generator.busiest_thread_percent > BUSY_PERCENT;
        if is_limit {
            let share = generator.busiest_thread_percent;
            self.warn(format!(
                "a thread of the generator was busy for {share:.0} % of the time: it may be the \
                 bottleneck"
            ));
        }
        if machine.total_seconds <= 0.0 {
            return;
        }
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let stolen = machine.stolen_seconds / machine.total_seconds;
        if stolen > STOLEN_SHARE {
            let stolen = percent(stolen);
            self.warn(format!(
                "the hypervisor took {stolen} of the processors' time"
            ));
        }
        if costs.noise.frequency_share < FREQUENCY_SHARE {
            let share = percent(costs.noise.frequency_share);
            self.warn(format!(
                "a processor ran at {share} of its highest frequency as it began"
            ));
        }
        let idle = 1.0 - (machine.busy_seconds + machine.stolen_seconds) / machine.total_seconds;
        if let Some(server) = &costs.server {
            let ours = server.cpu_seconds() + generator.cpu_seconds();
            let foreign = (machine.busy_seconds - ours) / machine.total_seconds;
            if foreign > FOREIGN_SHARE {
                let (share, load) = (percent(foreign), costs.noise.load_average);
                self.warn(format!(
                    "other programs used {share} of the machine meanwhile (load average {load:.1})"
                ));
            }
        }
        /// With less idle time than this share, the machine was saturated.
        const SPARE_SHARE: f64 = 0.03;
        if !is_limit && idle < SPARE_SHARE && generator.cpu_percent() > BUSY_PERCENT {
            self.warn("the generator had no processor to spare: it may be the bottleneck");
        }
    }
}

/// A figure that the original benchmark published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The corresponding figure.
    pub figure: String,
    /// Its value, in the same unit.
    pub value: f64,
    /// The person, time and machine of the measurement.
    pub source: String,
}

impl Headline {
    pub(crate) fn new(figure: impl Into<String>, value: f64, source: impl Into<String>) -> Self {
        Self {
            figure: figure.into(),
            value,
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_thread_of_the_generator_is_a_reason_for_doubt() {
        let warnings = |busiest_thread_percent| {
            let mut outcome = RunOutcome::default();
            let costs = Costs {
                generator: ProcessRecord {
                    seconds: 10.0,
                    user_seconds: 9.9,
                    busiest_thread_percent,
                    ..ProcessRecord::default()
                },
                // Seven of eight processors had nothing to do.
                machine: MachineLoad {
                    busy_seconds: 10.0,
                    stolen_seconds: 0.0,
                    total_seconds: 80.0,
                },
                noise: Noise {
                    load_average: 0.0,
                    frequency_share: 1.0,
                },
                ..Costs::default()
            };
            outcome.set_costs(costs, "page", 1);
            outcome.warnings
        };
        assert!(warnings(99.0)[0].contains("a thread of the generator was busy for 99 %"));
        assert_eq!(warnings(60.0), [""; 0]);
    }

    #[test]
    fn a_figure_that_json_cannot_hold_is_left_out() {
        let mut outcome = RunOutcome::default();
        outcome.higher("messages per second", 178.0 / 0.0, "/s");
        outcome.lower("lost", 0.0, "");
        assert_eq!(outcome.value("messages per second"), None);
        assert_eq!(outcome.value("lost"), Some(0.0));
    }
}
