//! The log, the settings and the procedures of the server in the dashboard. Administrators may
//! change procedures where that is permitted.

use serde_json::{Value, json};

use super::support::{Gateway, await_some};
use super::{STATUS, curl, json as get, put_json};

const PLAIN: &str = "rules.paths = []\n";
const FILES: &str = "/admin/procedures/files";
const ACCEPTS: &str = "return function(message)\n    return \"accept\"\nend\n";
const REFUSES: &str = "return function(message)\n    if message.body == 'hot' then\n        \
                       return \"reject\", \"too hot\"\n    end\nend\n";

/// The texts of the lines of this level or above.
fn log(gateway: &Gateway, query: &str) -> Vec<String> {
    let found = get(gateway, &format!("/admin/log?{query}"), &[]);
    let lines = found["lines"].as_array().expect("lines").iter();
    lines
        .map(|line| line["text"].as_str().expect("a text").to_owned())
        .collect()
}

fn reload(gateway: &Gateway, query: &str) -> Value {
    get(gateway, &format!("/admin/reload{query}"), &["-X", "POST"])
}

fn setting(gateway: &Gateway, key: &str) -> Value {
    let found = get(gateway, &format!("/admin/settings?search={key}"), &[]);
    let settings = found["settings"].as_array().expect("settings");
    let found = settings.iter().find(|setting| setting["key"] == key);
    found
        .unwrap_or_else(|| panic!("no {key}: {settings:?}"))
        .clone()
}

#[test]
fn a_reload_shows_its_changes_and_the_log_its_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    let config = folder.path().join("gatepost.toml");
    let text = std::fs::read_to_string(&config).expect("a config");
    let change = |line: &str| std::fs::write(&config, format!("{line}\n{text}")).expect("written");

    assert_eq!(setting(&gateway, "node")["origin"], "default");
    let paths = setting(&gateway, "rules.paths");
    assert_eq!(paths["value"], "[]");
    let origin = paths["origin"].as_str().expect("an origin");
    assert!(origin.contains("gatepost.toml:"), "{origin}");

    change("node = 7\nprocedures.queue_max = 9");
    let report = reload(&gateway, "?check=1");
    let changes = json!([
        { "key": "node", "before": "1", "after": "7", "needs_restart": true },
        { "key": "procedures.queue_max", "before": "1024", "after": "9", "needs_restart": true },
    ]);
    assert_eq!(report["settings"], changes, "{report}");
    assert_eq!(setting(&gateway, "node")["after_restart"], Value::Null);
    assert_eq!(reload(&gateway, "")["applied"], true);
    let node = setting(&gateway, "node");
    assert_eq!(
        (&node["value"], &node["after_restart"]),
        (&json!("1"), &json!("7"))
    );

    change("nodde = 7");
    assert_eq!(reload(&gateway, "")["possible"], false);
    let errors = log(&gateway, "level=error&search=nodde");
    assert!(
        errors.iter().any(|text| text.contains("not reloaded")),
        "{errors:?}"
    );
    assert!(log(&gateway, "level=error&search=confined").is_empty());
    assert!(!log(&gateway, "search=reloaded").is_empty());
    let wrong = curl(&gateway, "/admin/log?level=loud", &STATUS);
    assert_eq!(wrong, "400");
}

/// A server whose `/limit` judges publications below `readings`.
fn with_procedure(folder: &std::path::Path, editable: bool) -> Gateway {
    std::fs::create_dir_all(folder.join("procedures")).expect("a folder");
    std::fs::write(folder.join("procedures/limit.luau"), ACCEPTS).expect("written");
    let scope = "[[scope]]\npath = \"/readings\"\ntopics = [\"readings/#\"]\nrun = [\"/limit\"]\n";
    Gateway::start_in(
        folder,
        &format!("{PLAIN}procedures.editable = {editable}\nprocedures.recheck = \"1h\"\n{scope}"),
    )
}

fn publish(gateway: &Gateway, payload: &str) -> String {
    let more = [&STATUS[..], &["-d", payload]].concat();
    curl(gateway, "/topics/readings/oven", &more)
}

/// Sends a change; the status and the answer.
fn send(gateway: &Gateway, method: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let more = [&["-w", "\n%{http_code}"], &put_json(method, &body)[..]].concat();
    let text = curl(gateway, &format!("{FILES}/limit"), &more);
    let (answer, status) = text.rsplit_once('\n').expect("a status");
    (
        status.to_owned(),
        serde_json::from_str(answer).expect("JSON"),
    )
}

#[test]
fn a_procedure_is_tried_on_stored_messages_activated_and_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = with_procedure(folder.path(), true);
    for payload in ["cold", "hot"] {
        assert_eq!(publish(&gateway, payload), "200");
    }
    let listed = get(&gateway, FILES, &[]);
    assert_eq!(listed["editable"], true);
    let file = get(&gateway, &format!("{FILES}/limit"), &[]);
    assert_eq!(
        (&file["text"], &file["scopes"]),
        (&json!(ACCEPTS), &json!(["/readings"]))
    );
    let version = file["version"].clone();

    let tried = await_some("the stored messages", || {
        let (_, tried) = send(
            &gateway,
            "POST",
            &json!({ "action": "try", "text": REFUSES }),
        );
        (tried["messages"] == 2).then_some(tried)
    });
    let changed = tried["changed"].as_array().expect("a list");
    assert_eq!(changed.len(), 1, "{tried}");
    assert_eq!(changed[0]["name"], "readings/oven");
    assert_eq!(changed[0]["after"], json!(["reject", "too hot"]));
    assert_eq!(publish(&gateway, "hot"), "200", "a trial changes nothing");

    let wrong = "return function(message)\n    return 'rejct', message.subjct\nend\n";
    let (status, answer) = send(
        &gateway,
        "PUT",
        &json!({ "text": wrong, "version": version }),
    );
    assert_eq!(
        (status.as_str(), &answer["problems"][0]["line"]),
        ("422", &json!(2)),
        "{answer}"
    );
    let (status, _) = send(
        &gateway,
        "PUT",
        &json!({ "text": REFUSES, "version": "old" }),
    );
    assert_eq!(status, "409");
    let (status, answer) = send(
        &gateway,
        "PUT",
        &json!({ "text": REFUSES, "version": version }),
    );
    assert_eq!(status, "200", "{answer}");
    assert_ne!(publish(&gateway, "hot"), "200");
    let path = folder.path().join("procedures/limit.luau");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), REFUSES);

    let (status, answer) = send(&gateway, "POST", &json!({ "action": "undo" }));
    assert_eq!(status, "200", "{answer}");
    assert_eq!(publish(&gateway, "hot"), "200");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), ACCEPTS);
    let audited = get(&gateway, "/admin/changes", &[]).to_string();
    assert!(
        audited.contains("PUT /admin/procedures/files/limit"),
        "{audited}"
    );
    for outside in ["..%2F..%2Fx", "%2Fetc%2Fx", ".x", "a%00b"] {
        let status = curl(&gateway, &format!("{FILES}/{outside}"), &STATUS);
        assert!(
            ["400", "404"].contains(&status.as_str()),
            "{outside}: {status}"
        );
    }
}

#[test]
fn procedures_are_only_shown_unless_changes_are_permitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = with_procedure(folder.path(), false);
    let file = get(&gateway, &format!("{FILES}/limit"), &[]);
    assert_eq!(file["text"], ACCEPTS);
    let version = &file["version"];
    for (method, body) in [
        ("PUT", json!({ "text": REFUSES, "version": version })),
        ("POST", json!({ "action": "try", "text": REFUSES })),
        ("POST", json!({ "action": "undo" })),
    ] {
        assert_eq!(send(&gateway, method, &body).0, "409");
    }
    let path = folder.path().join("procedures/limit.luau");
    assert_eq!(std::fs::read_to_string(path).expect("a file"), ACCEPTS);
}
