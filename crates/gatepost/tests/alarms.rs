//! Topics that fall silent and values beyond their limits, as clients and operators see them.

mod support;

use serde_json::{Value, json};

use support::{Client, Gateway, await_some, run, text_of};

const FREEZER: &str = r#"
rules.paths = []

[[alarm]]
name = "heat"
filter = "freezer/+"
field = "inside.temperature"
above = 8
hysteresis = 1
payload = "text"
"#;

const FORMAT: &str = "%t: %p [%r]";

fn publish(gateway: &Gateway, topic: &str, payload: &str, more: &[&str]) {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p", &port, "-V", "5", "-q", "1", "-t", topic, "-m", payload,
    ];
    let output = run("mosquitto_pub", &[&arguments, more].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

fn measure(gateway: &Gateway, freezer: &str, degrees: f64) {
    let reading = json!({ "inside": { "temperature": degrees } });
    publish(
        gateway,
        &format!("freezer/{freezer}"),
        &reading.to_string(),
        &[],
    );
}

/// The answer to a request, with its status.
fn admin(gateway: &Gateway, path: &str, body: Option<&Value>) -> (String, Value) {
    let url = gateway.url(&format!("/admin/alarms{path}"));
    let body = body.map(Value::to_string);
    let mut arguments = vec!["-s", "-w", "\n%{http_code}", &url];
    if let Some(body) = &body {
        arguments.extend(["-H", "Content-Type: application/json", "-d", body]);
    }
    let answer = text_of(&run("curl", &arguments, b""));
    let (body, status) = answer.trim().rsplit_once('\n').expect("a status");
    (
        status.to_owned(),
        serde_json::from_str(body).unwrap_or(Value::Null),
    )
}

/// The first topic for which the only alarm is raised, once `is_wanted`.
fn await_raised(gateway: &Gateway, what: &str, is_wanted: impl Fn(&Value) -> bool) {
    await_some(what, || {
        let (_, listed) = admin(gateway, "", None);
        is_wanted(&listed["alarms"][0]["raised"][0]).then_some(())
    });
}

#[test]
fn a_topic_that_falls_silent_is_reported_and_its_return_too() {
    let gateway = Gateway::start(
        r#"
rules.paths = []
[[alarm]]
name = "backup"
filter = "backup/done"
silence = "1s"
[[alarm]]
name = "everything"
filter = "sensors/#"
silence = "1s"
payload = "text"
topic = "missing"
"#,
    );
    let mut people = Client::subscribe(&gateway, "missing/#", FORMAT);
    let mut programs = Client::subscribe(&gateway, "alarms/backup", "%p [%r]");
    let line = programs.await_line("\"cause\":\"silence\"");
    assert!(line.contains("\"state\":\"raised\""), "{line}");
    publish(&gateway, "backup/done", "yes", &[]);
    let line = programs.await_line("\"state\":\"cleared\"");
    assert!(line.contains("messages come again"), "{line}");

    publish(&gateway, "sensors/hall", "1", &[]);
    people.await_line("missing/sensors/hall: sensors/hall: no message for 1s");
    // No alarm watches the publications of another alarm.
    publish(
        &gateway,
        "sensors/forged",
        "1",
        &["-D", "publish", "user-property", "alarm", "x"],
    );
    publish(&gateway, "sensors/hall", "", &["-r"]);
    people.await_line("missing/sensors/hall: sensors/hall: messages come again");
    let (_, listed) = admin(&gateway, "", None);
    assert_eq!(listed["alarms"][1]["topics"], 0, "{listed}");
}

#[test]
fn a_value_is_reported_acknowledged_and_kept_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), FREEZER);
    let mut client = Client::subscribe(&gateway, "alarms/#", FORMAT);
    measure(&gateway, "left", 7.9);
    measure(&gateway, "left", 8.5);
    let raised = "alarms/heat/freezer/left: freezer/left: inside.temperature is 8.5, above 8";
    client.await_line(raised);
    await_raised(&gateway, "raised", |raised| raised["value"] == 8.5);

    let acknowledge = json!({ "action": "acknowledge", "topic": "freezer/left" });
    let (status, answer) = admin(&gateway, "/heat", Some(&acknowledge));
    assert_eq!((status.as_str(), &answer["topics"]), ("200", &json!(1)));
    let metrics = text_of(&run("curl", &["-s", &gateway.url("/metrics")], b""));
    assert!(
        metrics.contains("gatepost_alarm_raised{alarm=\"heat\"} 1"),
        "{metrics}"
    );
    assert_eq!(gateway.terminate(), Some(0));

    let gateway = Gateway::start_in(folder.path(), FREEZER);
    await_raised(&gateway, "raised as before", |raised| {
        raised["acknowledged_by"] == "an administrator" && raised["value"] == 8.5
    });
    let mut client = Client::subscribe(&gateway, "alarms/#", FORMAT);
    for degrees in [9.0, 7.5, 7.0] {
        measure(&gateway, "left", degrees);
    }
    client.await_line("inside.temperature is 7 again [0]");
    let lines: Vec<_> = client
        .seen()
        .iter()
        .filter(|line| line.starts_with("alarms"))
        .collect();
    assert_eq!(lines.len(), 2, "raised once, before the restart: {lines:?}");
    assert_eq!(lines[0], &format!("{raised} [1]"));
}

#[test]
fn a_snoozed_alarm_waits_and_requests_that_make_no_sense_are_refused() {
    let gateway = Gateway::start(FREEZER);
    let mut client = Client::subscribe(&gateway, "alarms/#", FORMAT);
    measure(&gateway, "left", 1.0);
    await_some("the topic is watched", || {
        let (_, listed) = admin(&gateway, "", None);
        (listed["alarms"][0]["topics"] == 1).then_some(())
    });
    let snooze = |time: &str| json!({ "action": "snooze", "time": time });
    assert_eq!(
        admin(&gateway, "/heat", Some(&snooze("99999999d"))).0,
        "200"
    );
    measure(&gateway, "left", 9.0);
    await_raised(&gateway, "snoozed", |raised| {
        raised["value"] == 9.0 && raised["snoozed_until_unix_ms"].is_u64()
    });
    assert_eq!(admin(&gateway, "/heat", Some(&snooze("0s"))).0, "200");
    client.await_line("inside.temperature is 9, above 8");

    for (path, body, expected) in [
        ("/none", json!({ "action": "acknowledge" }), "404"),
        ("/heat", json!({ "action": "shout" }), "422"),
        ("/heat", json!({ "action": "snooze" }), "422"),
        ("/heat", json!({ "action": "forget" }), "422"),
    ] {
        let (status, answer) = admin(&gateway, path, Some(&body));
        assert!(
            status == expected || status == "400",
            "{body}: {status} {answer}"
        );
    }
    let forget = json!({ "action": "forget", "topic": "freezer/left" });
    assert_eq!(admin(&gateway, "/heat", Some(&forget)).1["topics"], 1);
    client.await_line("freezer/left: over");
    assert_eq!(admin(&gateway, "/heat", Some(&forget)).1["topics"], 0);
}

#[test]
fn an_alarm_that_is_configured_no_longer_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), FREEZER);
    let mut client = Client::subscribe(&gateway, "alarms/#", FORMAT);
    measure(&gateway, "left", 9.0);
    client.await_line("above 8");
    let config = folder.path().join("gatepost.toml");
    let text = std::fs::read_to_string(&config).expect("the config");
    let (rest, _) = text.split_once("[[alarm]]").expect("an alarm");
    std::fs::write(&config, rest).expect("written");
    gateway.signal("HUP");
    // Its form is not known any more.
    client.await_line("\"text\":\"freezer/left: over\"");
    assert_eq!(admin(&gateway, "", None).1["alarms"], json!([]));
}
