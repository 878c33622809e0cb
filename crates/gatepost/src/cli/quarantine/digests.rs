//! `gatepost quarantine digests`: the recipients who stopped the digests of the quarantine.

use clap::Args;
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::cli::list_page::ListOptions;
use crate::cli::plain::plain;
use crate::client::{AdminError, segment};

/// The arguments of `gatepost quarantine digests`.
#[derive(Debug, Args)]
#[command(
    mut_arg("count", |count| count.default_value("50")),
    mut_arg("json", |json| json.help("As JSON: recipients, total"))
)]
pub(super) struct DigestsArguments {
    /// Send digests to this user or address again
    #[arg(long, value_name = "RECIPIENT", conflicts_with_all = ["json", "skip", "count"])]
    again: Option<String>,
    #[command(flatten)]
    options: ListOptions,
}

pub(super) fn act(arguments: &DigestsArguments) -> Result<(), AdminError> {
    let options = &arguments.options;
    if let Some(name) = &arguments.again {
        // A user's name has no `@`, an address has.
        let kind = if name.contains('@') {
            "address"
        } else {
            "mailbox"
        };
        let path = format!("/admin/digests/stopped/{kind}/{}", segment(name));
        options.request("DELETE", &path)?;
        println!("digests are sent to {} again", plain(name));
        return Ok(());
    }
    let page = &options.page;
    let path = format!(
        "/admin/digests/stopped?skip={}&count={}",
        page.skip, page.count
    );
    let answer = options.answer(&path)?;
    if options.json {
        println!("{answer:#}");
    } else {
        print_list(&answer);
    }
    Ok(())
}

fn print_list(answer: &Value) {
    let recipients = answer["recipients"].as_array();
    let recipients = recipients.map(Vec::as_slice).unwrap_or_default();
    for recipient in recipients {
        let text = |name: &str| plain(recipient[name].as_str().unwrap_or_default());
        let since = recipient["since_unix_ms"].as_i64().and_then(day);
        let since = since.unwrap_or_else(|| "-".to_owned());
        println!("{since:<10}  {:<7}  {}", text("kind"), text("name"));
    }
    let total = answer["total"].as_u64().unwrap_or_default();
    eprintln!("{} shown, {total} stopped the digests", recipients.len());
}

fn day(unix_ms: i64) -> Option<String> {
    let format = format_description!("[year]-[month]-[day]");
    let time = OffsetDateTime::from_unix_timestamp(unix_ms / 1_000).ok()?;
    time.format(&format).ok()
}
