//! Gatepost: a message gateway in one binary.
//!
//! This crate only joins the parts: the command line, the config, and the wiring of listeners to
//! procedures to broker.

mod broken_pipe;
mod cli;
mod client;
mod config;
mod exit;
mod key_access;
mod security_report;
mod serve;
mod switched_off;
mod system_user;
mod unjudged_mail;
mod users_marker;

use std::process::ExitCode;

use gatepost_pages::memory_limit::LimitedAllocator;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: LimitedAllocator<MiMalloc> = LimitedAllocator(MiMalloc);

fn main() -> ExitCode {
    broken_pipe::end_quietly();
    cli::run()
}
