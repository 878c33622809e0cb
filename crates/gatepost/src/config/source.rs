//! Sources of the settings: the arguments that every command with a config has.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{Config, FaultyConfig, Layers, Mistake};
use crate::exit::EXIT_CONFIG;

/// The config file and the flags that override it.
#[derive(Debug, Args)]
pub(crate) struct ConfigSource {
    /// The config file; without one, all settings have their defaults, with listeners on loopback
    #[arg(long, value_name = "FILE", env = "GATEPOST_CONFIG")]
    config: Option<PathBuf>,
    /// Set one key over the file and the environment: `--set data=/var/lib/gatepost`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl ConfigSource {
    /// The config file, where there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    pub(crate) fn load(&self) -> Result<(Config, Layers), Vec<Mistake>> {
        self.load_or_rest().map_err(|faulty| faulty.mistakes)
    }

    /// Like [`ConfigSource::load`], with the settings that can be read despite the mistakes.
    pub(crate) fn load_or_rest(&self) -> Result<(Config, Layers), FaultyConfig> {
        super::load(self.config.as_deref(), std::env::vars(), &self.assignments)
    }
}

/// Prints each mistake on its own line.
pub(crate) fn print_mistakes(mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("gatepost: {mistake}");
    }
    ExitCode::from(EXIT_CONFIG)
}
