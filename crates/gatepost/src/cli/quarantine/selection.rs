//! The messages of the quarantine that a command selects: some by id, or all that a search finds.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use serde_json::Value;

use super::output::print_unanswered;
use crate::client::{AdminClient, AdminError, ClientError, segment};

/// The API's largest page.
const PAGE: usize = 1_000;

/// Some messages by id, or all that a search finds.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct QuarantineSelection {
    /// The messages' ids
    #[arg(required_unless_present = "matching", value_name = "ID")]
    ids: Vec<String>,
    /// All messages with this text in subject, sender, recipient, topic, rule, reason or peer; asks
    /// first
    #[arg(long, value_name = "TEXT", conflicts_with = "ids")]
    matching: Option<String>,
    /// Do not ask
    #[arg(long, requires = "matching")]
    yes: bool,
}

impl QuarantineSelection {
    /// The ids, once the operator has agreed to those of a search.
    pub(super) fn ids(
        &self,
        client: &AdminClient<'_>,
        verb: &str,
    ) -> Result<Vec<String>, AdminError> {
        let Some(text) = &self.matching else {
            return Ok(self.ids.clone());
        };
        let ids = matching(client, text)?;
        if ids.is_empty() {
            eprintln!("no message matches");
        } else if !self.yes && !agrees(&format!("{verb} {} messages? [y/N] ", ids.len()))? {
            return Err(ClientError::Usage("nothing was done".to_owned()).into());
        }
        Ok(ids)
    }
}

/// The path of one page.
pub(super) fn page_path(search: &str, sort: &str, skip: usize, count: usize) -> String {
    let search = segment(search);
    format!("/admin/quarantine?search={search}&sort={sort}&skip={skip}&count={count}")
}

fn matching(client: &AdminClient<'_>, text: &str) -> Result<Vec<String>, AdminError> {
    let mut ids = Vec::new();
    loop {
        // Oldest first, so that messages that arrive meanwhile do not shift the pages.
        let path = page_path(text, "oldest", ids.len(), PAGE);
        let answer = client.request_json("GET", &path, None)?;
        let page = answer["messages"].as_array();
        let page = page.map(Vec::as_slice).unwrap_or_default();
        ids.extend(page.iter().filter_map(id_of));
        // A page may be short: a message has left the quarantine meanwhile.
        let found = answer["found"].as_u64().unwrap_or_default();
        if page.is_empty() || ids.len() as u64 >= found {
            print_unanswered(&answer);
            return Ok(ids);
        }
    }
}

fn id_of(message: &Value) -> Option<String> {
    message["id"].as_str().map(str::to_owned)
}

/// Asks at the terminal. Without one there is no consent.
fn agrees(question: &str) -> Result<bool, ClientError> {
    if !io::stdin().is_terminal() {
        let text = "confirmation needs a terminal; --yes confirms beforehand";
        return Err(ClientError::Usage(text.to_owned()));
    }
    eprint!("{question}");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(ClientError::Lost)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
