//! `gatepost quarantine`: the messages in quarantine of a running server.

mod digests;
mod output;
mod selection;

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::list_page::ListOptions;
use super::plain::plain;
use crate::client::{AdminClient, AdminError, AdminOptions, segment};
use selection::{QuarantineSelection, page_path};

/// HTTP's status if a part of several actions failed.
const CONFLICT: u16 = 409;

/// List, show, release, learn and delete messages in quarantine at a running server
///
/// The command uses the server's administration API.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost quarantine list --search invoice --sort score
  gatepost quarantine show 01j9zq6m3c7d2            the message's text, and why it was kept
  gatepost quarantine release 01j9zq6m3c7d2         to its topics, mailboxes and next hop
  gatepost quarantine release 01j9zq6m3c7d2 --to anna@example.org --attached
  gatepost quarantine learn --as ham 01j9zq6m3c7d2
  gatepost quarantine delete --matching casino      asks first; --yes does not")]
pub(super) struct QuarantineArguments {
    #[command(subcommand)]
    action: QuarantineAction,
}

#[derive(Debug, Subcommand)]
enum QuarantineAction {
    /// List messages, newest first
    #[command(
        mut_arg("count", |count| count.default_value("50")),
        mut_arg("json", |json| json.help("As JSON: messages, found, total"))
    )]
    List {
        /// Only messages with this text in subject, sender, recipient, topic, rule, reason or peer
        #[arg(long, value_name = "TEXT", default_value = "")]
        search: String,
        /// The order
        #[arg(long, value_name = "ORDER", default_value = "newest",
              value_parser = ["newest", "oldest", "score", "size", "sender"])]
        sort: String,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show one message: who sent it, why it was kept, and its text
    Show {
        /// The message's id
        id: String,
        /// Its bytes as they arrived, instead of the description
        #[arg(long, conflicts_with = "json")]
        source: bool,
        /// As JSON, with text and source
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Deliver messages to their original destinations: topics, mailboxes, next hops
    Release {
        #[command(flatten)]
        which: QuarantineSelection,
        /// To this address instead of the message's own recipients; may be given several times
        #[arg(long, value_name = "ADDRESS")]
        to: Vec<String>,
        /// Deliver the message to mailboxes and next hops as an attachment
        #[arg(long)]
        attached: bool,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Teach the filter that messages are spam or ham
    Learn {
        /// The class of the messages
        #[arg(long = "as", value_name = "CLASS", value_parser = ["spam", "ham"])]
        class: String,
        #[command(flatten)]
        which: QuarantineSelection,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// Delete messages
    Delete {
        #[command(flatten)]
        which: QuarantineSelection,
        #[command(flatten)]
        server: AdminOptions,
    },
    /// List the recipients who stopped the digests, or send them again
    Digests(digests::DigestsArguments),
}

pub(super) fn run(arguments: &QuarantineArguments) -> ExitCode {
    super::finish(act(&arguments.action))
}

fn act(action: &QuarantineAction) -> Result<(), AdminError> {
    match action {
        QuarantineAction::List {
            search,
            sort,
            options,
        } => {
            let page = &options.page;
            let path = page_path(search, sort, page.skip, usize::from(page.count));
            let answer = options.answer(&path)?;
            if options.json {
                println!("{answer:#}");
            } else {
                output::print_list(&answer, page.skip);
            }
            Ok(())
        }
        QuarantineAction::Show {
            id,
            source,
            json,
            server,
        } => {
            let client = server.client()?;
            if *source {
                print_source(&client, id)
            } else {
                show(&client, id, *json)
            }
        }
        QuarantineAction::Release {
            which,
            to,
            attached,
            server,
        } => {
            let recipients = (!to.is_empty()).then_some(to);
            let body = json!({ "recipients": recipients, "as_attachment": attached });
            let client = server.client()?;
            for_each(which, &client, "release", |id| {
                let answer = client.request_json("POST", &path_of(id, "/release"), Some(&body))?;
                Ok(released(&answer))
            })
        }
        QuarantineAction::Learn {
            class,
            which,
            server,
        } => {
            let client = server.client()?;
            let what = format!("/learn?as={class}");
            for_each(which, &client, &format!("learn as {class}"), |id| {
                let answer = client.request_json("POST", &path_of(id, &what), None)?;
                Ok(format!("learned as {class}: {}", learned(&answer)))
            })
        }
        QuarantineAction::Digests(arguments) => digests::act(arguments),
        QuarantineAction::Delete { which, server } => {
            let client = server.client()?;
            for_each(which, &client, "delete", |id| {
                client.request_json("DELETE", &path_of(id, ""), None)?;
                Ok("deleted".to_owned())
            })
        }
    }
}

fn print_source(client: &AdminClient<'_>, id: &str) -> Result<(), AdminError> {
    let bytes = client.fetch(&path_of(id, "/source"))?;
    // A reader that closes the pipe needs no more output.
    let _ = std::io::stdout().write_all(&bytes);
    Ok(())
}

fn show(client: &AdminClient<'_>, id: &str, json: bool) -> Result<(), AdminError> {
    let answer = client.request_json("GET", &path_of(id, ""), None)?;
    if json {
        println!("{answer:#}");
    } else {
        output::print_whole(&answer);
    }
    Ok(())
}

fn path_of(id: &str, what: &str) -> String {
    format!("/admin/quarantine/{}{what}", segment(id))
}

/// Runs an action on each of the selected messages. A failure is reported and does not stop the
/// others, but determines the exit code.
fn for_each(
    which: &QuarantineSelection,
    client: &AdminClient<'_>,
    verb: &str,
    act: impl Fn(&str) -> Result<String, AdminError>,
) -> Result<(), AdminError> {
    let ids = which.ids(client, verb)?;
    let mut failures = 0;
    for id in &ids {
        match act(id) {
            Ok(done) => println!("{id}  {done}"),
            Err(error) if ids.len() == 1 => return Err(error),
            Err(error @ AdminError::Refused { .. }) => {
                failures += 1;
                eprintln!("{id}  {error}");
            }
            // The server cannot be reached: the others would fail as well.
            Err(error) => return Err(error),
        }
    }
    let done = format!("{} of {} done", ids.len() - failures, ids.len());
    if failures > 0 {
        let status = CONFLICT;
        return Err(AdminError::Refused {
            status,
            detail: done,
        });
    }
    if ids.len() > 1 {
        eprintln!("{done}");
    }
    Ok(())
}

fn released(answer: &Value) -> String {
    let destinations = answer["destinations"].as_array();
    let destinations: Vec<String> = destinations
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(plain)
        .collect();
    format!("released to {}", destinations.join(", "))
}

fn learned(answer: &Value) -> &str {
    match answer["learned"].as_str().unwrap_or_default() {
        "changed" => "it had been learned as the other class",
        "before" => "it was known",
        "off" => "Bayes is switched off",
        _ => "new",
    }
}
