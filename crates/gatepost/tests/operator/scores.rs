//! Scores of rules that administrators set.

use serde_json::Value;

use super::support::{Gateway, run, swaks, text_of};
use super::{STATUS, curl, json, put_json};

const SETTINGS: &str = "
rules.paths = []
[[scope]]
path = '/mail'
listeners = ['smtp']
run = ['/spamcheck']
";
const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

fn send(gateway: &Gateway) -> String {
    let server = gateway.address("smtp").to_string();
    text_of(&swaks(
        &server,
        "a@example.org",
        "alarms+a@localhost",
        &["--body", GTUBE],
    ))
}

fn rule(gateway: &Gateway) -> Value {
    let found = json(gateway, "/admin/scores?search=gtube", &[]);
    let rules = found["rules"].as_array().expect("a list").iter();
    let mut named = rules.filter(|rule| rule["name"] == "GTUBE").cloned();
    named.next().unwrap_or_else(|| panic!("{found}"))
}

#[test]
fn a_score_is_set_undone_and_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    assert!(send(&gateway).contains("<** 550"), "GTUBE is spam");
    let before = rule(&gateway);
    assert!(
        before["set"].is_null() && before["score"].as_f64() > Some(100.0),
        "{before}"
    );
    assert!(before["description"].is_string(), "{before}");

    let changed = json(
        &gateway,
        "/admin/scores/GTUBE",
        &put_json("PUT", r#"{"score": 0.5}"#),
    );
    assert_eq!(
        changed["rules"]["changed"],
        serde_json::json!(["GTUBE"]),
        "{changed}"
    );
    assert_eq!(
        (
            rule(&gateway)["score"].as_f64(),
            rule(&gateway)["set"].as_f64()
        ),
        (Some(0.5), Some(0.5))
    );
    assert!(!send(&gateway).contains("<** "), "the score is in force");
    // A rule that is switched off stays in the list, and can be switched on again.
    json(
        &gateway,
        "/admin/scores/GTUBE",
        &put_json("PUT", r#"{"score": 0}"#),
    );
    assert_eq!(rule(&gateway)["score"].as_f64(), Some(0.0));
    json(
        &gateway,
        "/admin/scores/GTUBE",
        &put_json("PUT", r#"{"score": 0.5}"#),
    );
    assert_eq!(gateway.terminate(), Some(0));

    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    assert!(!send(&gateway).contains("<** "), "after a restart too");
    json(
        &gateway,
        "/admin/scores",
        &put_json("POST", r#"{"action": "undo"}"#),
    );
    assert_eq!(rule(&gateway)["score"].as_f64(), Some(0.0), "undone");
    json(
        &gateway,
        "/admin/scores",
        &put_json("POST", r#"{"action": "undo"}"#),
    );
    assert_eq!(rule(&gateway)["score"].as_f64(), Some(0.5), "undone twice");
    json(&gateway, "/admin/scores/GTUBE", &["-X", "DELETE"]);
    assert_eq!(rule(&gateway)["score"], before["score"]);
}

#[test]
fn a_mistake_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    assert!(send(&gateway).contains("<** 550"), "GTUBE is spam");
    let status = |method: &str, path: &str, body: &str| {
        curl(
            &gateway,
            path,
            &[&STATUS[..], &put_json(method, body)].concat(),
        )
    };
    for (path, body, expected) in [
        ("/admin/scores/NO_SUCH_RULE", r#"{"score": 1}"#, "404"),
        ("/admin/scores/GTUBE", r#"{"score": 1001}"#, "400"),
        ("/admin/scores/GTUBE", r#"{"score": "much"}"#, "400"),
        ("/admin/scores/GTUBE%0Ascore", r#"{"score": 1}"#, "404"),
    ] {
        assert_eq!(status("PUT", path, body), expected, "{path} {body}");
    }
    assert_eq!(
        status("POST", "/admin/scores", r#"{"action": "undo"}"#),
        "404"
    );
    // The reload finds a mistake of the operator's: the score is not kept either.
    let config = folder.path().join("gatepost.toml");
    let text = std::fs::read_to_string(&config).expect("the config");
    std::fs::write(
        &config,
        format!("{text}\n[[scope]]\npath = '/x'\nrun = ['/no-such']\n"),
    )
    .expect("written");
    assert_eq!(
        status("PUT", "/admin/scores/GTUBE", r#"{"score": 0.5}"#),
        "422"
    );
    std::fs::write(&config, text).expect("written");
    assert!(send(&gateway).contains("<** 550"));
    assert!(rule(&gateway)["set"].is_null());
    let data = folder.path().join("gatepost-data");
    let reloaded = run(
        "curl",
        &["-sf", "-X", "POST", &gateway.url("/admin/reload")],
        b"",
    );
    assert!(reloaded.status.success(), "{}", text_of(&reloaded));
    let scores = std::fs::read_to_string(data.join("scores.cf")).unwrap_or_default();
    assert!(!scores.contains("GTUBE"), "{scores}");
}
