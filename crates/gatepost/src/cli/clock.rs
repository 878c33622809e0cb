//! `gatepost clock`: shows whether a running server trusts its clock.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gatepost_settings::Period;
use serde_json::Value;

use crate::client::{AdminError, AdminOptions};

const DAY_SECONDS: u64 = 86_400;
const HOUR_SECONDS: u64 = 3_600;

/// Show whether a running server keeps expired rows because its clock has jumped, and accept the
/// clock
///
/// A clock that is suddenly ahead would make many rows of the history, the quarantine and the
/// journal too old at once. They are kept until the clock is corrected or accepted. The command
/// uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost clock show                        the rows held back, and by how much the clock is ahead
  gatepost clock accept                      the clock is right: remove the rows that have expired
  gatepost clock accept -u root --pw-file FILE    as soon as there is a user")]
pub(super) struct ClockArguments {
    #[command(subcommand)]
    action: ClockAction,
}

#[derive(Debug, Subcommand)]
enum ClockAction {
    /// Show the rows that are held back
    Show {
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Trust the clock: rows that have expired by it are removed within a minute
    Accept {
        #[command(flatten)]
        server: AdminOptions,
    },
}

pub(super) fn run(arguments: &ClockArguments) -> ExitCode {
    let (server, method) = match &arguments.action {
        ClockAction::Show { server } => (server, "GET"),
        ClockAction::Accept { server } => (server, "POST"),
    };
    super::finish(request_clock(server, method))
}

fn request_clock(server: &AdminOptions, method: &str) -> Result<(), AdminError> {
    let answer = server
        .client()?
        .request_json(method, "/admin/clock", None)?;
    println!("{}", line(&answer["held"], method == "POST"));
    Ok(())
}

/// One line for people.
fn line(held: &Value, is_accepted: bool) -> String {
    let (Some(rows), Some(ahead)) = (held["rows"].as_u64(), held["ahead_seconds"].as_u64()) else {
        return "no rows are held back".to_owned();
    };
    // Rounded, for people.
    let unit = if ahead >= DAY_SECONDS {
        HOUR_SECONDS
    } else {
        1
    };
    let ahead = Period::seconds(ahead / unit * unit);
    if is_accepted {
        format!("the clock is accepted: {rows} rows are removed within a minute")
    } else {
        format!("{rows} rows are held back: the clock is {ahead} ahead")
    }
}
