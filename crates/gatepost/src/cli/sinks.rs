//! `gatepost sinks`: the sinks of a running server.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::plain::plain;
use crate::client::{AdminError, AdminOptions};

/// List the sinks of a running server: webhooks, bridges, mail, and the subscriptions of browsers
///
/// The command uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost sinks                    each sink, its queue, and its last error
  gatepost sinks --json")]
pub(super) struct SinksArguments {
    /// As JSON, one array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AdminOptions,
}

pub(super) fn run(arguments: &SinksArguments) -> ExitCode {
    super::finish(list(arguments))
}

fn list(arguments: &SinksArguments) -> Result<(), AdminError> {
    let answer = arguments
        .server
        .client()?
        .request_json("GET", "/admin/sinks", None)?;
    let sinks = &answer["sinks"];
    if arguments.json {
        println!("{sinks:#}");
        return Ok(());
    }
    for sink in sinks.as_array().map(Vec::as_slice).unwrap_or_default() {
        println!("{}", line(sink));
    }
    Ok(())
}

fn line(sink: &Value) -> String {
    let text = |name: &str| plain(sink[name].as_str().unwrap_or("-"));
    let mut line = format!(
        "{:<20} {:<8} {:<9} {:<32} queued {} delivered {} given up {} dropped {}",
        text("name"),
        text("kind"),
        text("state"),
        text("target"),
        sink["queued"],
        sink["delivered"],
        sink["given_up"],
        sink["dropped"],
    );
    // Writing to a string cannot fail.
    if sink["lag_seconds"].as_u64().is_some_and(|lag| lag > 0) {
        let _ = write!(line, " lag {} s", sink["lag_seconds"]);
    }
    let is_troubled = !matches!(text("state").as_str(), "running" | "off");
    if let Some(error) = sink["last_error"]["text"].as_str().filter(|_| is_troubled) {
        // It may have words of the peer.
        let _ = write!(line, ": {}", plain(error));
    }
    line
}
