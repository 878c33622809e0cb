//! `gatepost config`: the settings in force, each with its origin.

use std::process::ExitCode;

use clap::Args;

use crate::config::{ConfigSource, print_mistakes, reference};

/// Print the settings in force, each with its origin
#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    /// Print a config file instead: every setting with its description, unset ones as comments
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ConfigArguments) -> ExitCode {
    match arguments.source.load() {
        Ok((config, layers)) if arguments.explain => {
            print!("{}", reference::explained(&config, &layers));
            ExitCode::SUCCESS
        }
        Ok((config, layers)) => {
            print!("{}", layers.dump(&config));
            ExitCode::SUCCESS
        }
        Err(mistakes) => print_mistakes(&mistakes),
    }
}
