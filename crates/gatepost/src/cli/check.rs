//! `gatepost check`: whether the config can be served, without serving it.

use std::process::ExitCode;

use clap::Args;

use super::{ConfigSource, print_mistakes};

/// Check the config and what it points to, without serving
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    match arguments.source.load() {
        Ok(_) => {
            println!("gatepost: no mistake found");
            ExitCode::SUCCESS
        }
        Err(mistakes) => print_mistakes(&mistakes),
    }
}
