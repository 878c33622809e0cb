//! The scenarios: each in one file, with its settings (defaults as in the original) and its
//! measurement.

pub mod all;
pub mod call;
pub mod calls;
pub mod fanout;
pub mod floor;
pub mod idle;
pub mod scan;
pub mod smtp;
pub mod subscribe;
pub mod web;

mod login;
mod mail;
mod page;
mod tally;
mod window;

use std::path::Path;

use crate::error::BenchError;
use crate::outcome::{Headline, RunOutcome};
use crate::peer::PeerDefinition;
use crate::progress::RunProgress;
use crate::sweep::SweepValues;
use crate::target::RunningTarget;

/// A benchmark that can be run against one target any number of times.
pub trait Scenario {
    /// The name, as on the command line and in peer definitions.
    fn name(&self) -> &'static str;

    /// Its settings, for the stored result.
    fn settings(&self) -> serde_json::Value;

    /// The number of runs of the original benchmark, if known.
    fn usual_runs(&self) -> usize {
        1
    }

    /// The published figures of the original benchmark.
    fn headlines(&self) -> Vec<Headline>;

    /// The lower bounds of its figures on any machine, by the operations that `floor` measures.
    fn floors(&self) -> Vec<FloorOf> {
        Vec::new()
    }

    /// Placeholders for peer definitions, in addition to the standard ones.
    fn words(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Puts files that the peer needs into its folder before it is started.
    fn prepare_peer(&self, _peer: &PeerDefinition, _folder: &Path) -> Result<(), BenchError> {
        Ok(())
    }

    /// Performs one measurement.
    fn run(&self, target: &RunningTarget, progress: &RunProgress)
    -> Result<RunOutcome, BenchError>;
}

/// Restricts a scenario to this number of its clients, with their part of the rate, which is that
/// of all clients together.
fn limit_clients(
    clients: &mut SweepValues<usize>,
    rate: Option<&mut SweepValues<f64>>,
    count: usize,
) {
    let part = count as f64 / clients.get().max(1) as f64;
    if let Some(rate) = rate {
        *rate = SweepValues::one(rate.get() * part);
    }
    *clients = SweepValues::one(count);
}

/// A figure, and the operations that a server cannot avoid for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloorOf {
    /// The figure: a time in microseconds, or a rate per second.
    pub figure: String,
    /// The operations, each repeated as often as it is needed.
    pub operations: Vec<&'static str>,
}

impl FloorOf {
    pub(crate) fn new(figure: impl Into<String>, operations: &[&'static str]) -> Self {
        Self {
            figure: figure.into(),
            operations: operations.to_vec(),
        }
    }
}
