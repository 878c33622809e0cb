//! `gatepost sessions`: the MQTT sessions of a running server.

mod output;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gatepost_settings::Period;
use serde_json::{Value, json};

use super::list_page::ListOptions;
use crate::client::{AdminError, AdminOptions, segment};

/// Find, inspect, disconnect, end and ban the MQTT sessions of a running server
///
/// The command uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost sessions list                       client ids, users, addresses, queues
  gatepost sessions list --search 192.0.2.
  gatepost sessions show sensor-1              subscriptions, queue, unacknowledged messages, expiry
  gatepost sessions kick sensor-1 --user anna  ends the connection; the session is kept
  gatepost sessions forget sensor-1            ends the session and discards its queue
  gatepost sessions ban sensor-1 --what user --time 1d --reason abuse")]
pub(super) struct SessionsArguments {
    #[command(subcommand)]
    action: SessionsAction,
}

#[derive(Debug, Subcommand)]
enum SessionsAction {
    /// List sessions, connected or not
    List {
        /// Only sessions whose client id, user or address contains this
        #[arg(long, value_name = "TEXT", default_value = "")]
        search: String,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show a session: connection, subscriptions, queue, and causes of delay
    Show {
        #[command(flatten)]
        which: SessionArguments,
        /// As JSON, one array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// End the connection; the session is kept, and its client may connect again
    ///
    /// An MQTT 5 client is sent DISCONNECT with 0x98 (administrative action). Its will is
    /// published.
    Kick {
        #[command(flatten)]
        which: SessionArguments,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// End a session, with its connection, its subscriptions and its queue
    ///
    /// An MQTT 5 client is sent DISCONNECT with 0x98 (administrative action). Its will is
    /// published.
    #[command(visible_alias = "end")]
    Forget {
        #[command(flatten)]
        which: SessionArguments,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// End the connections of a client's address or user, and refuse the next ones
    ///
    /// `gatepost bans list` shows the ban, `gatepost bans remove` lifts it. Administrators, this
    /// machine and the networks of bans.allowed are never banned.
    Ban {
        #[command(flatten)]
        which: SessionArguments,
        /// Ban the address (in all protocols) or the user (from any address)
        #[arg(long, value_name = "WHAT", value_parser = ["address", "user"])]
        what: String,
        /// The duration, such as 1d; without it, until the ban is lifted
        #[arg(long, value_name = "TIME")]
        time: Option<Period>,
        /// The reason
        #[arg(long, value_name = "TEXT", default_value = "by an operator")]
        reason: String,
        #[command(flatten)]
        server: AdminOptions,
    },
}

/// The session that the command selects.
#[derive(Debug, Args)]
struct SessionArguments {
    /// The client id
    client_id: String,
    /// Only this user's; empty for clients without a login
    #[arg(long = "user", value_name = "NAME")]
    of_user: Option<String>,
}

impl SessionArguments {
    fn path(&self) -> String {
        let query = self
            .of_user
            .as_ref()
            .map(|user| format!("?user={}", segment(user)));
        let query = query.unwrap_or_default();
        format!("/admin/sessions/{}{query}", segment(&self.client_id))
    }
}

pub(super) fn run(arguments: &SessionsArguments) -> ExitCode {
    super::finish(act(&arguments.action))
}

fn act(action: &SessionsAction) -> Result<(), AdminError> {
    match action {
        SessionsAction::List { search, options } => {
            let search = segment(search);
            let path = format!("/admin/sessions?{}&search={search}", options.page.query());
            let answer = options.answer(&path)?;
            if options.json {
                println!("{:#}", answer["sessions"]);
            } else {
                output::print_list(&answer, options.page.skip);
            }
        }
        SessionsAction::Show {
            which,
            json,
            server,
        } => {
            let answer = server.client()?.request_json("GET", &which.path(), None)?;
            if *json {
                println!("{:#}", answer["sessions"]);
            } else {
                output::print_whole(&answer["sessions"]);
            }
        }
        SessionsAction::Kick { which, server } => {
            let body = json!({ "action": "kick" });
            let answer = server
                .client()?
                .request_json("POST", &which.path(), Some(&body))?;
            println!("{} disconnected", answer["kicked"]);
        }
        SessionsAction::Forget { which, server } => {
            let answer = server
                .client()?
                .request_json("DELETE", &which.path(), None)?;
            println!("{} ended", answer["ended"]);
        }
        SessionsAction::Ban {
            which,
            what,
            time,
            reason,
            server,
        } => {
            let body = json!({ "action": "ban", "what": what, "time": time, "reason": reason });
            let answer = server
                .client()?
                .request_json("POST", &which.path(), Some(&body))?;
            print_bans(&answer);
        }
    }
    Ok(())
}

fn print_bans(answer: &Value) {
    let bans = answer["bans"].as_array();
    for ban in bans.map(Vec::as_slice).unwrap_or_default() {
        println!("{}", super::bans::line(ban));
    }
    println!("{} disconnected", answer["kicked"]);
}
