//! `gatepost bench`: the bench, which is also a program of its own.

use std::process::ExitCode;

use clap::Args;

/// Measure brokers, mail filters and web servers: this one and others
#[derive(Debug, Args)]
pub(super) struct BenchOptions {
    #[command(flatten)]
    bench: gatepost_bench::BenchArguments,
}

pub(super) fn run(command: BenchOptions) -> ExitCode {
    gatepost_bench::run(command.bench)
}
