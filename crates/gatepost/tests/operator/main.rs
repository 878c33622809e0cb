//! Work of an operator by the HTTP API, and the replies: with swaks, curl, mosquitto_sub, apprise
//! and promtool.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod allowed_sender;
mod attachments;
mod clock;
mod console;
mod delayed;
mod edges;
mod guide;
mod journal;
mod journal_index;
mod metrics;
mod nodes;
mod ntfy;
mod numbers;
mod quarantine;
mod reload;
mod scan_output;
mod scan_profile;
mod scores;
mod senders;
mod sequences;
mod series;
mod sessions;

use support::{Gateway, run, text_of};

/// Has curl say nothing but the status.
const STATUS: [&str; 4] = ["--output", "/dev/null", "--write-out", "%{http_code}"];

fn curl(gateway: &Gateway, path: &str, more: &[&str]) -> String {
    let url = gateway.url(path);
    let arguments = [
        &["--silent", "--show-error", "--max-time", "60"],
        more,
        &[url.as_str()],
    ]
    .concat();
    let output = run("curl", &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(gateway: &Gateway, path: &str, more: &[&str]) -> serde_json::Value {
    let text = curl(gateway, path, more);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

/// Sends `body` as JSON.
fn put_json<'a>(method: &'a str, body: &'a str) -> [&'a str; 6] {
    let kind = "Content-Type: application/json";
    ["-X", method, "-H", kind, "-d", body]
}
