//! The scenarios: each a file with its settings (the originals' as defaults) and its measurement.

pub mod all;
pub mod call;
pub mod fanout;
pub mod floor;
pub mod idle;
pub mod scan;
pub mod smtp;
pub mod subscribe;
pub mod web;

mod mail;
mod page;

use crate::error::BenchError;
use crate::outcome::{Headline, Outcome};
use crate::peer::Definition;
use crate::progress::Progress;
use crate::target::Target;
use std::path::Path;

/// What can be run against one target, any number of times.
pub trait Scenario {
    /// As on the command line and in peer definitions.
    fn name(&self) -> &'static str;

    /// Its settings, for the stored result.
    fn settings(&self) -> serde_json::Value;

    /// What the original benchmark published.
    fn headlines(&self) -> Vec<Headline>;

    /// Words that peer definitions may use beside the standard ones.
    fn words(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Puts what the peer needs into its folder before it is started.
    fn prepare_peer(&self, _peer: &Definition, _folder: &Path) -> Result<(), BenchError> {
        Ok(())
    }

    /// Measures once.
    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError>;
}
