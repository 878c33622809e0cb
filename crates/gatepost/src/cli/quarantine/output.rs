//! Quarantined messages as text for people.

use serde_json::Value;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::cli::plain::plain;

/// One line for each message, and how many there are.
pub(super) fn print_list(answer: &Value, skipped: usize) {
    let messages = answer["messages"].as_array();
    let messages = messages.map(Vec::as_slice).unwrap_or_default();
    for message in messages {
        println!("{}", line(message));
    }
    let count = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (found, total) = (count("found"), count("total"));
    let last = skipped + messages.len();
    let next = if (last as u64) < found {
        format!("; the next: --skip {last}")
    } else {
        String::new()
    };
    let of = if found == total {
        format!("{total} in quarantine")
    } else {
        format!("{found} match, {total} in quarantine")
    };
    eprintln!("{} shown, {of}{next}", messages.len());
    print_unanswered(answer);
}

/// The nodes of a cluster whose messages are missing in a list.
pub(super) fn print_unanswered(answer: &Value) {
    let nodes = answer["unanswered"].as_array();
    for node in nodes.map(Vec::as_slice).unwrap_or_default() {
        eprintln!("gatepost: {}", text(node, "reason").unwrap_or_default());
    }
}

fn line(message: &Value) -> String {
    let score = message["score"]
        .as_f64()
        .map_or_else(|| "-".to_owned(), |score| format!("{score:.1}"));
    // Messages that are not mail have a user or a client, and a topic.
    let first = |names: &[&str]| names.iter().find_map(|name| text(message, name));
    let from = first(&["sender", "user", "client", "peer"]).unwrap_or_default();
    let subject = first(&["subject", "topic"]).unwrap_or_else(|| "(no subject)".to_owned());
    let node = message["node"].as_u64();
    let node = node.map_or_else(String::new, |node| format!("  node {node:<3}"));
    format!(
        "{}{node}  {}  {score:>6}  {from:<28}  {subject}",
        message["id"].as_str().unwrap_or_default(),
        arrival(message),
    )
}

/// Prints the message for people.
pub(super) fn print_whole(message: &Value) {
    let row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            println!("{name:<10} {value}");
        }
    };
    row("message", text(message, "id"));
    row(
        "node",
        message["node"].as_u64().map(|node| node.to_string()),
    );
    row("arrived", Some(arrival(message)));
    row("by", text(message, "listener"));
    row("peer", text(message, "peer"));
    row("from", text(message, "sender"));
    let list = |name: &str| {
        let items = message[name].as_array()?;
        let items: Vec<String> = items.iter().filter_map(Value::as_str).map(plain).collect();
        (!items.is_empty()).then(|| items.join(", "))
    };
    row("to", list("recipients"));
    row("topics", list("topics"));
    row("subject", text(message, "subject"));
    row("reason", text(message, "reason"));
    let hits = message["hits"].as_array().map(Vec::as_slice);
    for hit in hits.unwrap_or_default() {
        let score = hit["score"].as_f64().unwrap_or_default();
        let name = text(hit, "name").unwrap_or_default();
        row("rule", Some(format!("{score:>6.1}  {name}")));
    }
    println!();
    let body = message["text"].as_str().unwrap_or_default();
    for line in body.lines() {
        println!("{}", plain(line));
    }
}

fn text(message: &Value, name: &str) -> Option<String> {
    message[name].as_str().map(plain)
}

fn arrival(message: &Value) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    let seconds = message["unix_ms"].as_i64().unwrap_or_default() / 1_000;
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let moment = moment.and_then(|moment| moment.format(&format).ok());
    moment.unwrap_or_default()
}
