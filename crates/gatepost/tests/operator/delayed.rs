//! Messages that are delivered later: over a crash, replaced, cancelled, and refused.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::support::{Client, Gateway, await_some, run, text_of};
use super::{STATUS, curl, json};

const PLAIN: &str = "rules.paths = []\n";

/// The messages that are remembered of a topic.
fn remembered(gateway: &Gateway, topic: &str) -> Vec<String> {
    let all = json(gateway, &format!("/topics/{topic}"), &[]);
    let all = all.as_array().expect("a list").clone();
    let text = |one: &serde_json::Value| one["payload"].as_str().expect("text").to_owned();
    all.iter().map(text).collect()
}

#[test]
fn a_delayed_message_survives_a_crash_and_comes_once_at_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    let due = SystemTime::now() + Duration::from_secs(15);
    let seconds = due.duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let at = format!("X-At: {seconds}");
    json(
        &gateway,
        "/kitchen",
        &["-d", "oven", "-H", &at, "-H", "Title: Oven"],
    );
    for (id, text) in [
        ("a", "first"),
        ("a", "second"),
        ("b", "gone"),
        ("c", "waits"),
    ] {
        let id = format!("X-Sequence-ID: {id}");
        json(&gateway, "/kitchen", &["-d", text, "-H", &at, "-H", &id]);
    }
    let publish = "-V 5 -q 1 -t deep/kitchen -m mqtt -D publish user-property delay";
    let mut arguments: Vec<&str> = publish.split(' ').collect();
    let (port, text) = (gateway.port("mqtt"), seconds.to_string());
    arguments.extend([text.as_str(), "-p", &port]);
    let published = run("mosquitto_pub", &arguments, b"");
    assert!(published.status.success(), "{}", text_of(&published));
    let cancelled = json(&gateway, "/kitchen/b", &["-X", "DELETE"]);
    assert_eq!(cancelled["event"], "message_delete");
    assert_eq!(cancelled["sequence_id"], "b");
    // The deletion itself is a publication without a text.
    assert_eq!(remembered(&gateway, "kitchen"), [""]);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    // One for now takes the place of the one that waits.
    json(
        &gateway,
        "/kitchen",
        &["-d", "now", "-H", "X-Sequence-ID: c"],
    );
    let mqtt = await_some("the message of MQTT", || {
        let all = json(&gateway, "/topics/deep/kitchen", &[]);
        all.get(0).cloned()
    });
    assert_eq!(mqtt["payload"], "mqtt");
    assert!(mqtt.get("properties").is_none(), "{mqtt}");
    let texts = await_some("the messages", || {
        let texts = remembered(&gateway, "kitchen");
        (texts.len() >= 4).then_some(texts)
    });
    assert!(SystemTime::now() >= UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(texts, ["", "now", "oven", "second"]);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    // A delivered message is not delivered again; a later one is.
    json(&gateway, "/kitchen", &["-d", "last", "-H", "In: 1s"]);
    let texts = await_some("the last message", || {
        let texts = remembered(&gateway, "kitchen");
        (texts.last().is_some_and(|text| text == "last")).then_some(texts)
    });
    assert_eq!(texts, ["", "now", "oven", "second", "last"]);
}

#[test]
fn times_that_cannot_be_kept_and_messages_without_room_are_refused() {
    let settings = format!("{PLAIN}delayed.messages_max = 2\ndelayed.delay_max = \"1h\"\n");
    let gateway = Gateway::start(&settings);
    let began = Instant::now();
    for (delay, reason) in [
        ("tomorrow, 10am", "write a duration"),
        ("2h", "at most 3600 seconds"),
        ("1000000001", "is over"),
    ] {
        let delay = format!("Delay: {delay}");
        for path in ["/kitchen", "/topics/deep/kitchen"] {
            let answer = curl(
                &gateway,
                path,
                &["-d", "x", "-H", &delay, "-w", "%{http_code}"],
            );
            assert!(
                answer.contains(reason) && answer.contains("400"),
                "{delay}: {answer}"
            );
        }
    }
    let later = |id: &str| {
        let id = format!("X-Sequence-ID: {id}");
        let arguments = [
            "-d",
            "x",
            "-H",
            "Delay: 30m",
            "-H",
            &id,
            "-w",
            "%{http_code}",
        ];
        curl(&gateway, "/kitchen", &arguments)
    };
    for (id, status) in [("a", "200"), ("b", "200"), ("c", "503"), ("a", "200")] {
        let answer = later(id);
        assert!(answer.contains(status), "{id}: {answer}");
    }
    let port = gateway.port("mqtt");
    let publish = "-V 5 -d -q 1 -t kitchen -m x -D publish user-property delay never -p";
    let arguments: Vec<&str> = publish.split(' ').chain([port.as_str()]).collect();
    let refused = text_of(&run("mosquitto_pub", &arguments, b""));
    assert!(refused.contains("RC:131"), "{refused}");
    assert_eq!(remembered(&gateway, "kitchen"), Vec::<String>::new());
    assert!(
        began.elapsed() < Duration::from_mins(25),
        "nothing was due yet"
    );
}

#[test]
fn an_operator_lists_and_cancels_delayed_messages() {
    let gateway = Gateway::start(PLAIN);
    for (delay, id) in [("2h", "late"), ("1h", "early")] {
        let (delay, id) = (format!("Delay: {delay}"), format!("X-Sequence-ID: {id}"));
        json(
            &gateway,
            "/kitchen",
            &["-d", "oven", "-H", &delay, "-H", &id],
        );
    }
    let url = gateway.url("");
    let delayed = |words: &[&str]| {
        let arguments = [&["delayed"], words, &["--url", &url]].concat();
        text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""))
    };
    let listed = delayed(&["list"]);
    let lines: Vec<&str> = listed.trim().lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].ends_with("kitchen early") && lines[1].ends_with("kitchen late"));
    let metric = |value: u64| {
        let metrics = curl(&gateway, "/metrics", &[]);
        metrics.contains(&format!("gatepost_delayed_messages {value}\n"))
    };
    assert!(metric(2));
    let id = lines[0].split(' ').next().expect("an id").to_owned();
    assert!(delayed(&["cancel", &id]).contains("is cancelled"));
    let again = delayed(&["cancel", &id]);
    assert!(
        again.contains(&id) && !again.contains("is cancelled"),
        "{again}"
    );
    assert!(delayed(&["cancel", "../users"]).contains("404") || metric(1));
    let left = json(&gateway, "/admin/delayed?count=1", &[]);
    assert_eq!(
        (&left["total"], &left["messages"][0]["sequence_id"]),
        (&1.into(), &"late".into())
    );
    assert!(metric(1));
}

#[test]
fn readers_of_ntfys_shapes_may_see_what_waits() {
    let gateway = Gateway::start(PLAIN);
    json(&gateway, "/kitchen", &["-d", "now"]);
    json(&gateway, "/kitchen", &["-d", "second", "-H", "In: 40m"]);
    let sent = json(
        &gateway,
        "/kitchen",
        &["-d", "first", "-H", "In: 20m", "-H", "Tags: a"],
    );
    json(&gateway, "/hall", &["-d", "elsewhere", "-H", "In: 20m"]);
    let texts = |query: &str, more: &[&str]| {
        let path = format!("/kitchen/json?poll=1&{query}");
        let reply = curl(&gateway, &path, more);
        let objects = reply
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let messages = objects.filter(|object| object["event"] == "message");
        messages
            .map(|object| object["message"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    for more in [&[][..], &["--http2-prior-knowledge"]] {
        assert_eq!(texts("scheduled=0", more), ["now"]);
        assert_eq!(texts("scheduled=1", more), ["now", "first", "second"]);
        assert_eq!(texts("sched=1&tags=a", more), ["first"]);
    }
    // A stream that continues has them after the history, with the times of their delivery.
    let url = gateway.url("/kitchen/json?since=all&scheduled=1");
    let mut stream = Client::start("curl", &["-sN", &url]);
    let line = stream.await_line(r#""message":"first""#);
    assert!(
        line.contains(&format!(r#""time":{}"#, sent["time"])),
        "{line}"
    );
    json(&gateway, "/kitchen", &["-d", "live"]);
    stream.await_line(r#""message":"live""#);
    let waits = curl(&gateway, "/kitchen/json?scheduled=maybe", &STATUS);
    assert_eq!(waits, "400");
}

#[test]
fn a_message_without_cache_reaches_those_who_are_present_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    let url = gateway.url("/hall/json");
    let mut present = Client::start("curl", &["-sN", &url]);
    present.await_line("open");
    json(&gateway, "/hall", &["-d", "kept"]);
    json(&gateway, "/hall", &["-d", "fleeting", "-H", "Cache: no"]);
    let object = r#"{"topic":"hall","message":"fleeting too","cache":"no"}"#;
    json(&gateway, "/", &["-d", object]);
    let publish = "-V 5 -q 1 -t hall -m passing -D publish user-property cache no -p";
    let port = gateway.port("mqtt");
    let arguments: Vec<&str> = publish.split_whitespace().chain([port.as_str()]).collect();
    let published = run("mosquitto_pub", &arguments, b"");
    assert!(published.status.success(), "{}", text_of(&published));
    for text in ["kept", "fleeting", "fleeting too", "passing"] {
        present.await_line(&format!(r#""message":"{text}""#));
    }
    assert_eq!(remembered(&gateway, "hall"), ["kept"]);
    drop(present);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    assert_eq!(remembered(&gateway, "hall"), ["kept"]);
}
