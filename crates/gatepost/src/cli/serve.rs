//! `gatepost serve`: the gateway itself.

use std::process::ExitCode;

use clap::Args;

use crate::config::{ConfigSource, print_mistakes};

/// Run the gateway
#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ServeArguments) -> ExitCode {
    match arguments.source.load() {
        Ok((config, layers)) => crate::serve::run(config, &layers, &arguments.source),
        Err(mistakes) => print_mistakes(&mistakes),
    }
}
