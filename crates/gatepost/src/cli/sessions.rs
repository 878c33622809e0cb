//! `gatepost sessions`: the MQTT sessions of a running server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::{AdminError, AdminOptions, segment};

/// List and end the MQTT sessions of a running server
///
/// This asks the server by its administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost sessions list                     client ids, users, and what waits for them
  gatepost sessions list --search sensor
  gatepost sessions end sensor-1             of whichever user
  gatepost sessions end sensor-1 --user anna")]
pub(super) struct SessionsArguments {
    #[command(subcommand)]
    action: SessionsAction,
}

#[derive(Debug, Subcommand)]
enum SessionsAction {
    /// List sessions, connected or not
    List {
        /// Only those whose client id or user contains this
        #[arg(long, value_name = "TEXT", default_value = "")]
        search: String,
        /// How many
        #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
        count: u16,
        /// As JSON, one array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// End a session, with its connection, its subscriptions and what waits for it
    ///
    /// An MQTT 5 client is sent DISCONNECT with 0x98 (administrative action). Its will is
    /// published.
    End {
        /// The client id
        client_id: String,
        /// Only this user's; empty for clients without a login
        #[arg(long = "user", value_name = "NAME")]
        of_user: Option<String>,
        #[command(flatten)]
        server: AdminOptions,
    },
}

pub(super) fn run(arguments: &SessionsArguments) -> ExitCode {
    super::finish(act(&arguments.action))
}

fn act(action: &SessionsAction) -> Result<(), AdminError> {
    match action {
        SessionsAction::List {
            search,
            count,
            json,
            server,
        } => {
            let path = format!("/admin/sessions?count={count}&search={}", segment(search));
            let answer = server.client()?.ask("GET", &path, None)?;
            print(&answer["sessions"], *json);
        }
        SessionsAction::End {
            client_id,
            of_user,
            server,
        } => {
            let query = of_user
                .as_ref()
                .map(|user| format!("?user={}", segment(user)));
            let query = query.unwrap_or_default();
            let path = format!("/admin/sessions/{}{query}", segment(client_id));
            let answer = server.client()?.ask("DELETE", &path, None)?;
            println!("{} ended", answer["ended"]);
        }
    }
    Ok(())
}

fn print(sessions: &Value, json: bool) {
    if json {
        println!("{sessions:#}");
        return;
    }
    for session in sessions.as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |name: &str| session[name].as_str().unwrap_or("-");
        let state = if session["connected"] == true {
            "connected"
        } else {
            "away"
        };
        println!(
            "{:<32} {:<16} {:<9} {:<9} filters {:<5} queued {}",
            text("client"),
            text("user"),
            text("kind"),
            state,
            session["subscriptions"],
            session["queued"],
        );
    }
}
