//! The benchmark program without the gateway.

use std::process::ExitCode;

use clap::Parser;
use gatepost_bench::BenchArguments;

/// Measures message brokers, mail filters, web servers and thin clients
#[derive(Parser)]
#[command(name = "gatepost-bench", version)]
struct BenchCommandLine {
    #[command(flatten)]
    bench: BenchArguments,
}

fn main() -> ExitCode {
    gatepost_bench::run(BenchCommandLine::parse().bench)
}
