//! `gatepost config`: the settings in force and where each comes from.

use std::process::ExitCode;

use clap::Args;

use crate::config::{ConfigSource, print_mistakes};

/// Print the settings in force, each with its origin
#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ConfigArguments) -> ExitCode {
    match arguments.source.load() {
        Ok((config, layers)) => {
            print!("{}", layers.dump(&config));
            ExitCode::SUCCESS
        }
        Err(mistakes) => print_mistakes(&mistakes),
    }
}
