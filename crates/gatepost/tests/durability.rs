//! What was acknowledged is there after a restart, also after `kill -9`.

mod support;

use support::{Client, Gateway, run, text_of};

fn publish(gateway: &Gateway, arguments: &[&str]) {
    let port = gateway.port("mqtt");
    let mut all = vec!["-p", &port, "-q", "1"];
    all.extend(arguments);
    let output = run("mosquitto_pub", &all, b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn retained_messages_and_history_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), "");
    publish(
        &gateway,
        &["-t", "alarms/fire", "-m", "retained by MQTT", "-r"],
    );
    publish(&gateway, &["-t", "alarms/fire", "-m", "history by MQTT"]);
    publish(&gateway, &["-t", "alarms/gone", "-m", "short-lived", "-r"]);
    publish(&gateway, &["-t", "alarms/gone", "-n", "-r"]);
    let output = run(
        "curl",
        &[
            "-sf",
            "-d",
            "history by HTTP",
            &gateway.url("/topics/alarms/http"),
        ],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), "");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-v", "-t", "alarms/#", "-d"],
    );
    assert!(
        subscriber
            .await_line("alarms/fire retained")
            .ends_with("retained by MQTT")
    );
    publish(&gateway, &["-t", "alarms/last", "-m", "the last one"]);
    subscriber.await_line("the last one");
    assert!(
        subscriber
            .seen()
            .iter()
            .all(|line| !line.contains("short-lived"))
    );

    let output = run(
        "curl",
        &[
            "-sf",
            "-H",
            "Accept: application/x-ndjson",
            &gateway.url("/topics/alarms/%23?since=all&poll=1"),
        ],
        b"",
    );
    let history = text_of(&output);
    for text in ["history by MQTT", "history by HTTP"] {
        assert!(history.contains(text), "{text} in {history}");
    }
}

#[test]
fn a_start_after_damage_says_what_was_set_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("gatepost-data")).expect("the data folder");
    std::fs::write(
        folder.path().join("gatepost-data/gatepost.db"),
        b"no database at all",
    )
    .expect("the damaged file");
    let gateway = Gateway::start_in(folder.path(), "");
    assert!(
        gateway.log().contains("gatepost.db.damaged-"),
        "{}",
        gateway.log()
    );
    publish(&gateway, &["-t", "alarms/fire", "-m", "works", "-r"]);
}

#[test]
fn terminate_ends_cleanly_while_clients_are_connected() {
    let gateway = Gateway::start("");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-t", "#", "-d"],
    );
    subscriber.await_line("SUBACK");
    assert_eq!(gateway.terminate(), Some(0));
}
