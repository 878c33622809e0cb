//! Sessions as text for people.

use std::fmt::Write as _;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::cli::plain::plain;

/// One line for each session, and how many more there are.
pub(super) fn print_list(answer: &Value, skipped: usize) {
    let sessions = list(&answer["sessions"]);
    for session in sessions {
        println!("{}", line(session));
    }
    let total = answer["total"].as_u64().unwrap_or_default() as usize;
    let shown = skipped + sessions.len();
    if total == 0 {
        eprintln!("no session matches");
    } else if shown < total {
        eprintln!("{shown} of {total}; the next: --skip {shown}");
    }
}

fn line(session: &Value) -> String {
    let state = if session["connected"] == true {
        "connected"
    } else {
        "disconnected"
    };
    let mut line = format!(
        "{:<28} {:<14} {:<22} {:<12} filters {:<5} queued {:<7} in flight {:<5}",
        text(&session["client"]),
        text(&session["user"]),
        text(&session["address"]),
        state,
        number(&session["subscriptions"]),
        number(&session["queued"]),
        number(&session["in_flight"]),
    );
    let waits: Vec<&str> = strings(&session["waits_for"]).collect();
    if !waits.is_empty() {
        line.push_str(" waits for ");
        line.push_str(&waits.join(", "));
    }
    line.trim_end().to_owned()
}

/// Prints all details of each session.
pub(super) fn print_whole(sessions: &Value) {
    for (place, session) in list(sessions).iter().enumerate() {
        if place > 0 {
            println!();
        }
        print_one(session);
    }
}

fn print_one(session: &Value) {
    row("client", &text(&session["client"]));
    row("user", &text(&session["user"]));
    print_connection(session);
    row("session", &lifetime(session));
    if let Some(will) = session["will"].as_str() {
        row("will", &plain(will));
    }
    let queue = &session["queue"];
    let waiting = format!(
        "{} messages, {} bytes wait; {} sent and not acknowledged",
        number(&queue["waiting"]),
        number(&queue["waiting_bytes"]),
        number(&queue["in_flight"]),
    );
    row("queue", &waiting);
    let outbox = format!(
        "{} messages, {} bytes",
        number(&queue["outbox"]),
        number(&queue["outbox_bytes"]),
    );
    row("socket", &outbox);
    if number(&queue["unreleased"]) > 0 {
        let text = format!(
            "{} QoS 2 messages not released",
            number(&queue["unreleased"])
        );
        row("from it", &text);
    }
    let causes = strings(&session["waits_for"]).map(|cause| explain(cause, session));
    for cause in causes {
        row("waits for", &cause);
    }
    if let Some(seconds) = session["slows_publishers_seconds"].as_u64() {
        row("publishers", &format!("have waited {seconds} s for it"));
    }
    row("delivered", &number(&session["delivered"]).to_string());
    row("dropped", &dropped(session));
    print_filters(session);
}

fn print_connection(session: &Value) {
    let connection = &session["connection"];
    if connection.is_null() {
        row("connection", "none: the client is not connected");
        return;
    }
    row("address", &text(&connection["address"]));
    row("protocol", &text(&connection["protocol"]));
    let silent = number(&connection["silent_seconds"]);
    let heard = connection["silence_max_seconds"].as_u64().map_or_else(
        || format!("silent for {silent} s, no keep alive"),
        |most| format!("silent for {silent} of {most} s"),
    );
    let since = moment(connection["since"].as_i64().unwrap_or_default());
    row("connected", &format!("since {since}; {heard}"));
}

fn lifetime(session: &Value) -> String {
    let expiry = number(&session["expiry_seconds"]);
    let stored = if session["stored"] == true {
        "on disk"
    } else {
        "in memory"
    };
    match session["expires_in_seconds"].as_u64() {
        Some(left) => format!("{stored}; ends in {left} s unless the client returns"),
        None if expiry == 0 => format!("{stored}; ends with its connection"),
        None => format!("{stored}; outlives its connection by {expiry} s"),
    }
}

fn explain(cause: &str, session: &Value) -> String {
    let most = number(&session["connection"]["in_flight_max"]);
    match cause {
        "client" => "the client: it is not connected".to_owned(),
        "memory" => "memory: its queue is on disk (broker.memory_max)".to_owned(),
        "socket" => "the socket: the client or the network accepts no more data".to_owned(),
        "acknowledgements" => format!(
            "acknowledgements: as many are open as its Receive Maximum, \
             broker.inflight_max ({most}) or broker.queue_bytes_max permit"
        ),
        "commit" => "the disk: the next message is sent when it is stored".to_owned(),
        other => other.to_owned(),
    }
}

fn dropped(session: &Value) -> String {
    let causes = session["dropped_by"].as_object();
    let causes = causes.into_iter().flatten();
    let causes: Vec<String> = causes
        .map(|(cause, count)| format!("{} {count}", cause.replace('_', " ")))
        .collect();
    let total = number(&session["dropped"]);
    if causes.is_empty() {
        total.to_string()
    } else {
        format!("{total} ({})", causes.join(", "))
    }
}

fn print_filters(session: &Value) {
    let filters = list(&session["filters"]);
    for filter in filters {
        let mut options = format!("QoS {}", number(&filter["qos"]));
        for (name, words) in [
            ("no_local", "no local"),
            ("retain_as_published", "retain as published"),
        ] {
            if filter[name] == true {
                options.push_str(", ");
                options.push_str(words);
            }
        }
        if let Some(identifier) = filter["identifier"].as_u64() {
            // Writing to a string cannot fail.
            let _ = write!(options, ", identifier {identifier}");
        }
        row(
            "subscribes",
            &format!("{}  ({options})", text(&filter["filter"])),
        );
    }
    let all = number(&session["subscriptions"]) as usize;
    if all > filters.len() {
        row("", &format!("and {} more", all - filters.len()));
    } else if all == 0 {
        row("subscribes", "to nothing");
    }
}

fn row(name: &str, value: &str) {
    println!("{name:<11} {value}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

/// Text that clients chose must not control the terminal.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| "-".to_owned(), plain)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn moment(unix: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(unix).ok();
    let moment = moment.and_then(|moment| moment.format(&Rfc3339).ok());
    moment.unwrap_or_default()
}
