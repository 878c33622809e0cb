//! `gatepost healthcheck`: checks that a running server is ready, for container engines and
//! monitors that run a program. The command needs no shell and no further program.

use std::process::ExitCode;

use clap::Args;

use crate::client::AdminOptions;

/// Exit with 0 if a running server is ready for messages
///
/// The command requests `/readyz` of the HTTP listener, which needs no login.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost healthcheck --config /etc/gatepost/gatepost.toml
  gatepost healthcheck --url http://127.0.0.1:8080")]
pub(super) struct HealthcheckArguments {
    #[command(flatten)]
    server: AdminOptions,
}

pub(super) fn run(arguments: &HealthcheckArguments) -> ExitCode {
    let outcome = arguments
        .server
        .client()
        .and_then(|client| client.is_ready());
    super::finish(outcome)
}
