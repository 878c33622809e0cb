//! The peers' definitions against the peers themselves, if they are installed: each starts, offers
//! what it declares, and ends. Peers that take long to start (spamd, rspamd, EMQX) are not tested
//! here, nor Moquette with subscriptions, some of which it answers by disconnecting the client
//! (`peers/moquette.toml`); Gatepost's own definition is tested with the gateway (`pub_sub` there).

use std::process::Command;

/// Peer, scenario and its flags, and the figure that must be present and above 0.
const RUNS: [(&str, &[&str], &str); 42] = [
    ("bare-loop", FANOUT, "deliveries per second"),
    ("bare-loop", SUBSCRIBE, "subscriptions per second"),
    ("bare-loop", IDLE, "logins per second"),
    ("mosquitto", FANOUT, "deliveries per second"),
    ("mosquitto", FANOUT_MQTT5, "deliveries per second"),
    ("mosquitto", FANOUT_WS, "deliveries per second"),
    ("mosquitto", SUBSCRIBE, "subscriptions per second"),
    ("mosquitto", IDLE, "logins per second"),
    ("nats-server", FANOUT, "deliveries per second"),
    ("nats-server", FANOUT_MQTT, "deliveries per second"),
    ("mosquitto-tls", FANOUT, "deliveries per second"),
    ("mosquitto-tls", SUBSCRIBE, "subscriptions per second"),
    ("nats-server-durable", FANOUT_QOS_1, "deliveries per second"),
    ("nats-server-tls", FANOUT, "deliveries per second"),
    ("nats-server-tls", SUBSCRIBE, "subscriptions per second"),
    ("rumqttd", FANOUT, "deliveries per second"),
    ("rumqttd", FANOUT_MQTT5, "deliveries per second"),
    ("rumqttd", SUBSCRIBE, "subscriptions per second"),
    ("rumqttd", IDLE, "logins per second"),
    ("rmqttd", FANOUT, "deliveries per second"),
    ("rmqttd", FANOUT_MQTT5, "deliveries per second"),
    ("rmqttd", FANOUT_WS, "deliveries per second"),
    ("rmqttd", SUBSCRIBE, "subscriptions per second"),
    ("rmqttd", IDLE, "logins per second"),
    ("hivemq-ce", FANOUT, "deliveries per second"),
    ("moquette", IDLE, "logins per second"),
    ("redis", FANOUT, "deliveries per second"),
    ("redis", SUBSCRIBE, "subscriptions per second"),
    ("redis", IDLE, "logins per second"),
    ("nchan", FANOUT_SSE, "deliveries per second"),
    ("nchan", FANOUT_WS, "deliveries per second"),
    ("ntfy", FANOUT_SSE, "deliveries per second"),
    ("nginx", WEB, "317 B pages per second"),
    ("nginx-tls", WEB, "317 B pages per second"),
    ("nginx-static", WEB, "317 B pages per second"),
    ("caddy", WEB, "317 B pages per second"),
    ("h2o", WEB, "317 B pages per second"),
    ("smtp-sink", SMTP, "messages per second"),
    ("haraka", SMTP, "messages per second"),
    ("minimal-c", CALL, "calls per second"),
    ("empty-process", CALL, "calls per second"),
    ("curl", CALL, "calls per second"),
];
const FANOUT: &[&str] = &[
    "fanout",
    "--subscribers",
    "10",
    "--seconds",
    "0.5",
    "--warm-up",
    "0",
];
const FANOUT_QOS_1: &[&str] = &[
    "fanout",
    "--qos",
    "1",
    "--subscribers",
    "10",
    "--rate",
    "5",
    "--seconds",
    "0.5",
];
const FANOUT_MQTT: &[&str] = &[
    "fanout",
    "--over",
    "mqtt",
    "--subscribers",
    "10",
    "--seconds",
    "0.5",
];
const FANOUT_MQTT5: &[&str] = &[
    "fanout",
    "--over",
    "mqtt5",
    "--subscribers",
    "10",
    "--seconds",
    "0.5",
];
const FANOUT_WS: &[&str] = &[
    "fanout",
    "--over",
    "ws",
    "--subscribers",
    "10",
    "--seconds",
    "0.5",
];
const FANOUT_SSE: &[&str] = &[
    "fanout",
    "--over",
    "sse",
    "--subscribers",
    "10",
    "--seconds",
    "0.5",
];
const SUBSCRIBE: &[&str] = &["subscribe", "--users", "3", "--topics", "10"];
const IDLE: &[&str] = &["idle", "--connections", "10", "--seconds", "0.2"];
const WEB: &[&str] = &[
    "web",
    "--sizes",
    "317",
    "--seconds",
    "0.5",
    "--warm-up",
    "0.1",
];
const SMTP: &[&str] = &["smtp", "--seconds", "0.5", "--warm-up", "0.1"];
const CALL: &[&str] = &["call", "--calls", "5"];

#[test]
fn every_installed_peer_runs_as_its_definition_describes() {
    let bench = env!("CARGO_BIN_EXE_gatepost-bench");
    let listed = Command::new(bench).arg("peers").output().expect("it runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let is_installed = |peer: &str| {
        let line = listed
            .lines()
            .find(|line| line.split_whitespace().next() == Some(peer));
        let line = line.unwrap_or_else(|| panic!("{peer} is not listed:\n{listed}"));
        line.split_whitespace().nth(1) == Some("installed")
    };
    let mut ran = 0;
    for (peer, words, figure) in RUNS {
        if !is_installed(peer) {
            eprintln!("*** {peer} is not installed: its definition is not tested ***");
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let json = folder.path().join("run.json");
        let mut command = Command::new(bench);
        command
            .args(words)
            .args(["--peer", peer, "--quiet", "--json"])
            .arg(&json);
        let output = command.output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{peer} {words:?}: {error}");
        let report = gatepost_bench::report::BenchReport::read(&json).expect("a report");
        let target = &report.targets[0];
        let value = target.runs[0].value(figure);
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{peer} {words:?}: {figure} {value:?}"
        );
        assert!(target.version.is_some(), "{peer} reports no version");
        ran += 1;
    }
    // A C compiler and mosquitto are installed wherever the tests run.
    assert!(ran > 0, "not one peer is installed");
}
