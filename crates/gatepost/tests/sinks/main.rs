//! Sinks: messages are sent to other systems, and none is lost on the way.

#[path = "../support/mod.rs"]
mod support;

mod bridges;
mod digest_crash;
mod email;
mod faulty_peers;
mod mail;
mod mail_peer;
mod mosquitto;
mod quarantine_digest;
mod raw_peer;
mod web_peer;
mod web_push;
mod web_push_logins;
mod web_push_prefix;
mod webhooks;

use support::{Gateway, run, text_of};

/// The rules do not matter here.
const PLAIN: &str = "rules.paths = []\n";

/// The lines of `gatepost sinks`.
fn sinks(gateway: &Gateway) -> String {
    let output = run(
        env!("CARGO_BIN_EXE_gatepost"),
        &["sinks", "--url", &gateway.url("")],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

/// Publishes each line at this level by mosquitto_pub, which waits for the acknowledgements.
fn publish(gateway: &Gateway, topic: &str, qos: &str, lines: &[String]) {
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-V", "5", "-q", qos, "-t", topic, "-l"];
    let text: String = lines.join("\n") + "\n";
    let output = run("mosquitto_pub", &arguments, text.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
}

/// This number of different lines.
fn lines(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("line {number}")).collect()
}
