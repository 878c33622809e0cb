//! A client of ntfy's, and the format of the responses.

use super::support::{Gateway, command, root, text_of};
use super::{STATUS, curl, json};

#[test]
fn a_client_of_ntfys_publishes_and_its_shapes_are_answered() {
    let gateway = Gateway::start("rules.paths = []\n");
    let port = gateway.port("http");
    let folder = root().join(".peers/apprise");
    assert!(
        folder.is_dir(),
        "apprise is missing; tests/install-peers installs it"
    );
    let program = "import sys; from apprise import cli; sys.exit(cli.main())";
    let target = format!("ntfy://127.0.0.1:{port}/alarms?priority=high&xtags=fire");
    let output = command("python3")
        .env("PYTHONPATH", folder)
        .args(["-c", program, "-t", "Hall", "-b", "Smoke", &target])
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{}", text_of(&output));
    let reply = curl(&gateway, "/alarms/json?poll=1", &[]);
    for part in [
        r#""title":"Hall""#,
        r#""message":"Smoke""#,
        r#""priority":4"#,
        r#""tags":["fire"]"#,
    ] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
    let filtered = curl(&gateway, "/alarms/json?poll=1&priority=max", &[]);
    assert!(!filtered.contains("Smoke"), "{filtered}");
    let object = r#"{"topic":"alarms","message":"m",
        "actions":[{"action":"view","label":"Open","url":"http://x"}]}"#;
    let reply = json(&gateway, "/", &["-d", object]);
    assert_eq!(reply["actions"][0]["label"], "Open", "{reply}");
    let reply = json(&gateway, "/alarms/publish?message=Link&title=T", &[]);
    assert_eq!(reply["message"], "Link", "{reply}");
    assert_eq!(json(&gateway, "/alarms/auth", &[])["success"], true);
    let call = curl(
        &gateway,
        "/alarms",
        &[&STATUS[..], &["-d", "x", "-H", "X-Call: yes"]].concat(),
    );
    assert_eq!(call, "400");
}
