//! The result of one run of a scenario: named figures, latencies, costs and warnings.

use serde::{Deserialize, Serialize};

use crate::latency::{Buckets, Latencies, LatencySummary};
use crate::process::{Costs, MachineLoad, Noise, ProcessRecord};
use crate::statistics::{Steadiness, steadiness};
use crate::sweep::Point;

/// Parts of a second whose counts decide whether a run was steady.
pub(crate) const PARTS_PER_SECOND: u64 = 10;

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It says how it was measured.
    Neither,
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it counts, with a unit in words.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit, as printed after the value.
    pub unit: String,
    /// Which way it improves.
    pub better: Better,
}

/// Latencies of one kind of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedLatencies {
    /// What took that long.
    pub name: String,
    /// In figures.
    #[serde(flatten)]
    pub summary: LatencySummary,
    /// All of them, for percentiles over several runs and hosts; empty in reports of version 1.
    #[serde(default)]
    pub buckets_ns: Buckets,
}

/// Everything that one run gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The swept settings' values, where any was swept.
    #[serde(default)]
    pub parameters: Point,
    /// In the order in which they are shown.
    pub figures: Vec<Figure>,
    /// Named latencies.
    pub latencies: Vec<NamedLatencies>,
    /// What was counted in each second, for the scenario's main count.
    pub counts_by_second: Vec<u64>,
    /// What the server cost, where its process is known.
    pub server: Option<ProcessRecord>,
    /// What measuring cost.
    pub generator: ProcessRecord,
    /// The load of the whole machine.
    pub machine: MachineLoad,
    /// What may have disturbed it, as it began.
    #[serde(default)]
    pub noise: Noise,
    /// Lines in the original benchmark's own format.
    pub original: Vec<String>,
    /// Reasons to mistrust the figures.
    pub warnings: Vec<String>,
    /// Whether the user stopped it before its time.
    pub interrupted: bool,
    /// The operation and its count, by which costs were divided. Not stored, since figures contain
    /// it.
    #[serde(skip)]
    pub operations: Operations,
}

/// How often something was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// In the singular.
    pub name: String,
    /// How often.
    pub count: u64,
}

impl RunOutcome {
    /// Adds a figure of which more is better.
    pub(crate) fn higher(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Higher);
    }

    /// Adds a figure of which less is better.
    pub(crate) fn lower(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Lower);
    }

    /// Adds a figure that is neither good nor bad.
    pub(crate) fn neutral(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figure(name, value, unit, Better::Neither);
    }

    fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str, better: Better) {
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

    /// Adds a reason to mistrust the figures.
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

    /// Adds what the processes used, with the figures that every scenario shows of them; those
    /// for each `operation` divide by how many of it there were.
    pub(crate) fn set_costs(&mut self, costs: Costs, operation: &str, count: u64) {
        let name = operation.to_owned();
        self.operations = Operations { name, count };
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

    /// Warns where the counts of tenths of a second say that it was not steady.
    pub(crate) fn warn_if_unsteady(&mut self, parts: &[u64]) {
        // The last part may have been cut off.
        let whole = &parts[..parts.len().saturating_sub(1)];
        let values: Vec<f64> = whole.iter().map(|&count| count as f64).collect();
        self.warn_of(steadiness(&values), values.len());
    }

    /// The same of what was measured in each tenth of a second.
    pub(crate) fn warn_of(&mut self, steadiness: Steadiness, parts: usize) {
        /// A beginning shorter than this share of the run changes no figure much.
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

    fn warn_of_noise(&mut self, costs: &Costs) {
        /// Shares of the machine from which others disturb a measurement.
        const STOLEN_SHARE: f64 = 0.02;
        const FOREIGN_SHARE: f64 = 0.15;
        /// A processor that is slower than this share of its best is throttled.
        const FREQUENCY_SHARE: f64 = 0.9;
        let (machine, generator) = (costs.machine, &costs.generator);
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
        /// So little time without work is none to spare.
        const SPARE_SHARE: f64 = 0.03;
        /// A generator below this share of a processor was not held up by it.
        const BUSY_PERCENT: f64 = 95.0;
        if idle < SPARE_SHARE && generator.cpu_percent() > BUSY_PERCENT {
            self.warn("the generator had no processor to spare: it may be the bottleneck");
        }
    }
}

/// A figure that the original benchmark published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The figure that it is compared with.
    pub figure: String,
    /// Its value, in the same unit.
    pub value: f64,
    /// Who measured it, when and on what.
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
