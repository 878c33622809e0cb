//! The scenarios: each a file with its settings (the originals' as defaults) and its measurement.

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

mod mail;
mod page;
mod tally;
mod window;

use std::path::Path;

use crate::error::BenchError;
use crate::outcome::{Headline, RunOutcome};
use crate::peer::Definition;
use crate::progress::RunProgress;
use crate::target::RunningTarget;

/// A benchmark that can be run against one target any number of times.
pub trait Scenario {
    /// As on the command line and in peer definitions.
    fn name(&self) -> &'static str;

    /// Its settings, for the stored result.
    fn settings(&self) -> serde_json::Value;

    /// The number of runs of the original benchmark, if known.
    fn usual_runs(&self) -> usize {
        1
    }

    /// What the original benchmark published.
    fn headlines(&self) -> Vec<Headline>;

    /// What its figures cannot fall below on any machine, by the operations that `floor` measures.
    fn floors(&self) -> Vec<FloorOf> {
        Vec::new()
    }

    /// Words that peer definitions may use beside the standard ones.
    fn words(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Puts what the peer needs into its folder before it is started.
    fn prepare_peer(&self, _peer: &Definition, _folder: &Path) -> Result<(), BenchError> {
        Ok(())
    }

    /// Measures once.
    fn run(&self, target: &RunningTarget, progress: &RunProgress)
    -> Result<RunOutcome, BenchError>;
}

/// A figure, and the operations that a server cannot avoid for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloorOf {
    /// The figure: a time in microseconds, or a rate per second.
    pub figure: String,
    /// Each operation as often as it is needed.
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
