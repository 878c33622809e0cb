//! `gatepost bans`: the addresses and users that a running server refuses.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gatepost_bans::USER_PREFIX;
use gatepost_settings::{MalformedNetwork, PeerNetwork, Period};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::client::{AdminClient, AdminError, AdminOptions, segment};

/// List, add and lift bans of addresses and users at a running server
///
/// Addresses with too many failed logins, unknown recipients, protocol faults and spam are banned
/// for a while, by the settings under `bans`. The command uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost bans list                                    the banned addresses, with reasons
  gatepost bans add 192.0.2.0/24 --time 7d --reason abuse
  gatepost bans remove 192.0.2.1
  gatepost bans add user:anna --time 1d                 from any address
  gatepost bans list -u root --pw-file FILE             as soon as there is a user")]
pub(super) struct BansArguments {
    #[command(subcommand)]
    action: BansAction,
}

#[derive(Debug, Subcommand)]
enum BansAction {
    /// List the bans in force
    List {
        /// As JSON, one array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Ban an address, a network or a user
    Add {
        /// The address, the network with its prefix, or user:NAME
        #[arg(value_parser = banned)]
        network: String,
        /// The duration, such as 1d; without it, until the ban is lifted
        #[arg(long, value_name = "TIME")]
        time: Option<Period>,
        /// The reason
        #[arg(long, value_name = "TEXT", default_value = "by an operator")]
        reason: String,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Lift a ban
    Remove {
        /// The address or network, or user:NAME
        #[arg(value_parser = banned)]
        network: String,
        #[command(flatten)]
        server: AdminOptions,
    },
}

/// An address, a network or a user.
fn banned(text: &str) -> Result<String, String> {
    if text
        .strip_prefix(USER_PREFIX)
        .is_some_and(|name| !name.is_empty())
    {
        return Ok(text.to_owned());
    }
    let network: Result<PeerNetwork, MalformedNetwork> = text.parse();
    network
        .map(|network| network.to_string())
        .map_err(|error| format!("{error}; a user is written \"user:{text}\""))
}

pub(super) fn run(arguments: &BansArguments) -> ExitCode {
    super::finish(act(&arguments.action))
}

fn act(action: &BansAction) -> Result<(), AdminError> {
    match action {
        BansAction::List { json, server } => {
            let bans = server.client()?.request_json("GET", "/admin/bans", None)?;
            print(&bans["bans"], *json);
        }
        BansAction::Add {
            network,
            time,
            reason,
            server,
        } => {
            let body = json!({ "network": network, "time": time, "reason": reason });
            let client: AdminClient<'_> = server.client()?;
            let ban = client.request_json("POST", "/admin/bans", Some(&body))?;
            println!("{}", line(&ban));
        }
        BansAction::Remove { network, server } => {
            let path = format!("/admin/bans/{}", segment(network));
            server.client()?.request_json("DELETE", &path, None)?;
        }
    }
    Ok(())
}

fn print(bans: &Value, json: bool) {
    if json {
        println!("{bans:#}");
        return;
    }
    let bans = bans.as_array().map(Vec::as_slice).unwrap_or_default();
    for ban in bans {
        println!("{}", line(ban));
    }
    if bans.is_empty() {
        eprintln!("nothing is banned");
    }
}

/// `192.0.2.1  until 2026-01-01T00:00:00Z  (2 in a row)  failed logins: 20`
pub(super) fn line(ban: &Value) -> String {
    let text = |name: &str| ban[name].as_str().unwrap_or_default();
    let moment = |seconds: i64| {
        let moment = OffsetDateTime::from_unix_timestamp(seconds).ok();
        moment.and_then(|moment| moment.format(&Rfc3339).ok())
    };
    let end = ban["ends"].as_i64().and_then(moment);
    let end = end.map_or_else(
        || "until it is lifted".to_owned(),
        |end| format!("until {end}"),
    );
    let times = ban["times"].as_u64().unwrap_or(1);
    let row = if times > 1 {
        format!("  ({times} in a row)")
    } else {
        String::new()
    };
    format!("{:<24} {end}{row}  {}", text("network"), text("reason"))
}
