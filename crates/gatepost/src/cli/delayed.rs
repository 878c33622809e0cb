//! `gatepost delayed`: the messages of a running server that wait for their time.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use gatepost_settings::Period;
use serde_json::Value;

use super::list_page::ListOptions;
use super::plain::plain;
use crate::client::{AdminError, AdminOptions, segment};

/// List and cancel the messages of a running server that are delivered later
///
/// The command uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost delayed list                     ids, times left, sizes, topics, sequence ids
  gatepost delayed cancel 06anhx3qg0002")]
pub(super) struct DelayedArguments {
    #[command(subcommand)]
    action: DelayedAction,
}

#[derive(Debug, Subcommand)]
enum DelayedAction {
    /// List the messages that wait, in the order of their times
    List {
        #[command(flatten)]
        options: ListOptions,
    },
    /// Cancel a message, so that it is never delivered
    Cancel {
        /// Its id, as `list` shows it
        id: String,
        #[command(flatten)]
        server: AdminOptions,
    },
}

pub(super) fn run(arguments: &DelayedArguments) -> ExitCode {
    super::finish(match &arguments.action {
        DelayedAction::List { options } => list(options),
        DelayedAction::Cancel { id, server } => cancel(server, id),
    })
}

fn list(options: &ListOptions) -> Result<(), AdminError> {
    let answer = options.answer(&format!("/admin/delayed?{}", options.page.query()))?;
    let messages = &answer["messages"];
    if options.json {
        println!("{messages:#}");
        return Ok(());
    }
    for message in messages.as_array().map(Vec::as_slice).unwrap_or_default() {
        println!("{}", line(message));
    }
    Ok(())
}

fn line(message: &Value) -> String {
    // Clients choose topics and sequence ids.
    let text = |name: &str| plain(message[name].as_str().unwrap_or("-"));
    let due = Duration::from_millis(message["due_unix_ms"].as_u64().unwrap_or_default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let left = due.saturating_sub(now.unwrap_or_default());
    let left = Period::seconds(left.as_secs());
    format!(
        "{:<16} in {left:<10} {:>8} B {} {}",
        text("id"),
        message["bytes"],
        text("topic"),
        text("sequence_id"),
    )
}

fn cancel(server: &AdminOptions, id: &str) -> Result<(), AdminError> {
    let path = format!("/admin/delayed/{}", segment(id));
    server.client()?.request_json("DELETE", &path, None)?;
    println!("{id} is cancelled");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_topic_does_not_control_the_terminal() {
        let message = json!({ "id": "1", "bytes": 2, "topic": "a\u{1b}[2J", "sequence_id": "b\n" });
        let line = line(&message);
        assert!(!line.contains(['\u{1b}', '\n']), "{line:?}");
    }
}
