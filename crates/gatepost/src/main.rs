//! Gatepost: a message gateway in one binary.
//!
//! This crate only joins the rooms: the command line, the config, and the wiring of listeners to
//! procedures to broker.

mod cli;
mod client;
mod config;
mod learning;
mod serve;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
