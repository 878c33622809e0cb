//! `gatepost serve`: the gateway itself.

use std::process::ExitCode;

use clap::Args;

use super::{ConfigSource, print_mistakes};

/// Serve: listen, judge, push
#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &ServeArguments) -> ExitCode {
    match arguments.source.load() {
        Ok((config, origins)) => crate::serve::run(config, &origins, &arguments.source),
        Err(mistakes) => print_mistakes(&mistakes),
    }
}
