//! What one run of a scenario gives: named figures, latencies, what it cost, what to mistrust.

use crate::latency::LatencySummary;
use crate::process::{Load, ProcessRecord};
use serde::{Deserialize, Serialize};

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

/// Everything that one run gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In the order in which they are shown.
    pub figures: Vec<Figure>,
    /// Named latencies.
    pub latencies: Vec<(String, LatencySummary)>,
    /// What was counted in each second, for the scenario's main count.
    pub counts_by_second: Vec<u64>,
    /// What the server cost, where its process is known.
    pub server: Option<ProcessRecord>,
    /// What measuring cost.
    pub generator: ProcessRecord,
    /// The load of the whole machine.
    pub machine: Load,
    /// Lines in the original benchmark's own format.
    pub original: Vec<String>,
    /// Reasons to mistrust the figures.
    pub warnings: Vec<String>,
    /// Whether the user stopped it before its time.
    pub interrupted: bool,
}

impl Outcome {
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

    /// The value of a figure.
    pub fn value(&self, name: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.name == name);
        figure.map(|figure| figure.value)
    }

    /// Adds what the processes used, with the figures that every scenario shows of them.
    pub(crate) fn set_costs(
        &mut self,
        (server, generator, machine): (Option<ProcessRecord>, ProcessRecord, Load),
        processors: usize,
    ) {
        if let Some(server) = &server {
            self.lower("server CPU", server.cpu_percent(), "%");
            self.lower(
                "server memory",
                server.resident_bytes_max as f64 / 1024.0,
                "KB",
            );
        }
        self.neutral("generator CPU", generator.cpu_percent(), "%");
        self.neutral(
            "generator memory",
            generator.resident_bytes_max as f64 / 1024.0,
            "KB",
        );
        self.warn_of_noise(server.as_ref(), &generator, machine, processors);
        self.server = server;
        self.generator = generator;
        self.machine = machine;
    }

    fn warn_of_noise(
        &mut self,
        server: Option<&ProcessRecord>,
        generator: &ProcessRecord,
        machine: Load,
        processors: usize,
    ) {
        /// Shares of the machine from which others disturb a measurement.
        const STOLEN_SHARE: f64 = 0.02;
        const FOREIGN_SHARE: f64 = 0.15;
        if machine.total_seconds <= 0.0 {
            return;
        }
        let stolen = machine.stolen_seconds / machine.total_seconds;
        if stolen > STOLEN_SHARE {
            self.warnings.push(format!(
                "the hypervisor took {:.0} % of the processors' time",
                100.0 * stolen
            ));
        }
        if let Some(server) = server {
            let ours = server.cpu_seconds() + generator.cpu_seconds();
            let foreign = (machine.busy_seconds - ours) / machine.total_seconds;
            if foreign > FOREIGN_SHARE {
                self.warnings.push(format!(
                    "other programs used {:.0} % of the machine meanwhile",
                    100.0 * foreign
                ));
            }
            let idle =
                1.0 - (machine.busy_seconds + machine.stolen_seconds) / machine.total_seconds;
            if idle < 0.03 && generator.cpu_percent() > 95.0 && processors > 1 {
                self.warnings.push(
                    "the generator had no processor to spare: it may be the bottleneck".into(),
                );
            }
        }
    }
}

/// A figure that the original benchmark published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The figure of ours that it stands beside.
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
