//! `gatepost senders`: the senders that a user allows or blocks for the user's own mailbox.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::{AdminError, AdminOptions, segment};

/// List, allow and block the senders of a mailbox at a running server
///
/// Mail of a blocked sender is quarantined instead of delivered to the mailbox. Mail of an allowed
/// sender is accepted regardless of the rules' score, if SPF, DKIM or DMARC has confirmed the
/// sender's domain. The command uses the server's API: log in as the user of the mailbox, or name
/// the user as an administrator.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost senders list -u anna --pw-file FILE          anna's entries
  gatepost senders allow otto@example.org -u anna --pw-file FILE
  gatepost senders block example.net --user anna -u root --pw-file FILE
  gatepost senders remove example.net -u anna --pw-file FILE")]
pub(super) struct SendersArguments {
    #[command(subcommand)]
    action: SendersAction,
}

#[derive(Debug, Subcommand)]
enum SendersAction {
    /// List the entries
    List {
        /// As JSON, one array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        mailbox: MailboxOptions,
    },
    /// Accept mail of a sender
    Allow(EntryArguments),
    /// Quarantine mail of a sender
    Block(EntryArguments),
    /// Remove an entry
    Remove(EntryArguments),
}

/// The mailbox, the server and the login.
#[derive(Debug, Args)]
struct MailboxOptions {
    /// The user of the mailbox [default: the user who logs in]
    #[arg(long = "user", value_name = "NAME")]
    mailbox_user: Option<String>,
    #[command(flatten)]
    server: AdminOptions,
}

#[derive(Debug, Args)]
struct EntryArguments {
    /// An address, a domain, or an address with * and ?
    entry: String,
    #[command(flatten)]
    mailbox: MailboxOptions,
}

pub(super) fn run(arguments: &SendersArguments) -> ExitCode {
    super::finish(act(&arguments.action))
}

fn act(action: &SendersAction) -> Result<(), AdminError> {
    match action {
        SendersAction::List { json, mailbox } => {
            let answer = mailbox.request_json("GET", "/v1/senders", None)?;
            print(&answer["entries"], *json);
        }
        SendersAction::Allow(arguments) => arguments.change("PUT", Some("allow"))?,
        SendersAction::Block(arguments) => arguments.change("PUT", Some("block"))?,
        SendersAction::Remove(arguments) => arguments.change("DELETE", None)?,
    }
    Ok(())
}

impl MailboxOptions {
    fn request_json(
        &self,
        method: &str,
        path: &str,
        list: Option<&str>,
    ) -> Result<Value, AdminError> {
        let user = self
            .mailbox_user
            .as_ref()
            .map(|name| format!("user={}", segment(name)));
        let list = list.map(|list| format!("list={list}"));
        let query: Vec<String> = user.into_iter().chain(list).collect();
        let path = if query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", query.join("&"))
        };
        self.server.client()?.request_json(method, &path, None)
    }
}

impl EntryArguments {
    fn change(&self, method: &str, list: Option<&str>) -> Result<(), AdminError> {
        let path = format!("/v1/senders/{}", segment(&self.entry));
        self.mailbox.request_json(method, &path, list).map(drop)
    }
}

/// `block  *@example.net`
fn print(entries: &Value, json: bool) {
    if json {
        println!("{entries:#}");
        return;
    }
    let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
    for entry in entries {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        println!("{:<5}  {}", text("list"), text("entry"));
    }
    if entries.is_empty() {
        eprintln!("no sender is listed");
    }
}
