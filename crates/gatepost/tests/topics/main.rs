//! Rules and prefixes of topics, as the clients of each protocol see them: mosquitto's, curl,
//! swaks.

#[path = "../support/mod.rs"]
mod support;

mod history;
mod rules;
mod tenants;

use support::{Gateway, run, text_of};

/// The answer of curl, with the status in a last line.
fn curl(gateway: &Gateway, path: &str, more: &[&str]) -> String {
    let url = gateway.url(path);
    let arguments = [
        &["-sS", "--max-time", "60", "-w", "\n%{http_code}"],
        more,
        &[url.as_str()],
    ]
    .concat();
    text_of(&run("curl", &arguments, b""))
}

/// Publishes by mosquitto_pub; its output names all packets.
fn publish(gateway: &Gateway, words: &str, more: &[&str]) -> String {
    let port = gateway.port("mqtt");
    let mut arguments = vec!["-d", "-p", &port];
    arguments.extend(words.split(' '));
    arguments.extend(more);
    text_of(&run("mosquitto_pub", &arguments, b""))
}
