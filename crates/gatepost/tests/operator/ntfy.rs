//! A client of ntfy's, and the format of the responses.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json as value};

use super::support::{Client, Gateway, add_user, await_some, command, root, run, text_of};
use super::{STATUS, curl, json};

/// ntfy's own command without its server, as tests/install-peers installs it.
const NTFY: &str = "ntfy-client";

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

#[test]
fn buttons_are_checked_and_returned_in_one_format() {
    let gateway = Gateway::start("rules.paths = []\n");
    let given = "Actions: view, 'Open; now', https://x.example, clear=true; \
        http, Close, https://y.example, headers.a=1, body='{\"b\": 2}'; copy, Copy, 123";
    let expected = value!([
        {"id": "1", "action": "view", "label": "Open; now", "clear": true,
         "url": "https://x.example"},
        {"id": "2", "action": "http", "label": "Close", "clear": false,
         "url": "https://y.example", "headers": {"a": "1"}, "body": "{\"b\": 2}"},
        {"id": "3", "action": "copy", "label": "Copy", "clear": false, "value": "123"},
    ]);
    let sent = json(&gateway, "/door", &["-d", "ring", "-H", given]);
    assert_eq!(sent["actions"], expected);
    let all = json(&gateway, "/topics/door?data=ntfy", &[]);
    assert_eq!(all[0]["actions"], expected);
    let own = json(&gateway, "/topics/door", &[]);
    let kept = own[0]["properties"][0][1].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(kept).ok(), Some(expected));
    for (actions, reason) in [
        ("open, x, https://x", "view, broadcast, http or copy"),
        ("view, x", "url is missing"),
        ("http, x, file:///etc", "http:// or https://"),
        ("view,a,b;view,a,b;view,a,b;view,a,b", "at most 3 actions"),
    ] {
        let field = format!("Actions: {actions}");
        let reply = curl(&gateway, "/door", &["-d", "x", "-H", &field]);
        assert!(reply.contains(reason), "{actions}: {reply}");
    }
    let object = r#"{"topic":"door","actions":[{"action":"copy","label":"Copy"}]}"#;
    let reply = curl(&gateway, "/", &["-d", object]);
    assert!(reply.contains("value is missing"), "{reply}");
}

/// Runs ntfy's own command.
fn ntfy(arguments: &[&str]) -> String {
    let output = run(NTFY, arguments, b"");
    let text = text_of(&output);
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Whether ntfy's command is installed; if not, the test that needs it is skipped.
fn has_ntfy() -> bool {
    let is_there = command(NTFY).arg("--help").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: ntfy's command is not installed (tests/install-peers)");
    }
    is_there
}

/// The message in the output of `ntfy publish`.
fn published(output: &str) -> Value {
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.expect("JSON")).expect("JSON")
}

#[test]
fn ntfys_own_command_publishes_subscribes_and_polls() {
    if !has_ntfy() {
        return;
    }
    let gateway = Gateway::start("rules.paths = []\naccess.default = \"deny\"\n");
    add_user(&gateway, "root", "secret", &["--admin"]);
    let status = |login: &str| {
        let arguments = [&STATUS[..], &["--user", login]].concat();
        curl(&gateway, "/alarms/auth", &arguments)
    };
    await_some("the user is known", || {
        (status("root:secret") == "200" && status("root:wrong") == "401").then_some(())
    });
    let url = gateway.url("/alarms");
    let (login, wrong) = (["-u", "root:secret"], ["-u", "root:wrong"]);
    let subscribe = [&["subscribe"], &login[..], &[&url]].concat();
    let mut subscriber = Client::start(NTFY, &subscribe);
    await_some("the subscription", || {
        let path = "/admin/subscribers?topic=alarms";
        let found = json(&gateway, path, &["--user", "root:secret"]);
        (found["readers"] == 1).then_some(())
    });
    let output = ntfy(
        &[
            &["publish"],
            &login[..],
            &[
                "--title",
                "Hall",
                "--priority",
                "high",
                "--tags",
                "fire,hall",
            ],
            &["--actions", "view, See, https://x.example, clear=true"],
            &["--click", "https://c.example", &url, "Smoke"],
        ]
        .concat(),
    );
    let sent = published(&output);
    assert_eq!(sent["priority"], 4);
    assert_eq!(sent["actions"][0]["clear"], true);
    let received = subscriber.await_line("Smoke");
    for part in [
        "Hall",
        r#""priority":4"#,
        r#"["fire","hall"]"#,
        "https://c.example",
    ] {
        assert!(received.contains(part), "{part}: {received}");
    }
    let id = sent["id"].as_str().expect("an id");
    ntfy(&[&["publish"], &login[..], &[&url, "Second"]].concat());
    let all = ntfy(&[&["subscribe", "--poll"], &login[..], &[&url]].concat());
    assert!(all.contains("Smoke") && all.contains("Second"), "{all}");
    let later = ntfy(&[&["subscribe", "--poll", "--since", id], &login[..], &[&url]].concat());
    assert!(
        !later.contains("Smoke") && later.contains("Second"),
        "{later}"
    );
    let refused = run(
        NTFY,
        &[&["publish"], &wrong[..], &[&url, "x"]].concat(),
        b"",
    );
    assert!(!refused.status.success(), "{}", text_of(&refused));
}

#[test]
fn ntfys_own_command_delays_attaches_and_uses_tokens() {
    if !has_ntfy() {
        return;
    }
    let gateway = Gateway::start("rules.paths = []\naccess.default = \"deny\"\n");
    add_user(&gateway, "root", "secret", &["--admin"]);
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let arguments = ["user", "token", "add", "root", "--set", &data];
    let token = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""));
    let token = token
        .split_whitespace()
        .find(|word| word.starts_with("gp_"));
    let login = ["--token", token.expect("a token")];
    let url = gateway.url("/hall");
    await_some("the token is known", || {
        let publish = [&["publish", "--no-cache"], &login[..], &[&url, "present"]].concat();
        run(NTFY, &publish, b"").status.success().then_some(())
    });
    let publish = |more: &[&str]| {
        let arguments = [&["publish"], &login[..], more].concat();
        published(&ntfy(&arguments))
    };
    let poll = |more: &[&str]| {
        let arguments = [&["subscribe", "--poll"], &login[..], more, &[&url]].concat();
        ntfy(&arguments)
    };
    assert_eq!(
        poll(&[]).trim(),
        "",
        "a message without cache is not remembered"
    );

    let later = publish(&["--delay", "25 min", &url, "close the window"]);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let left = later["time"].as_u64().expect("a time") - now.as_secs();
    assert!((1_380..=1_501).contains(&left), "{later}");
    assert!(!poll(&[]).contains("close the window"));
    assert!(poll(&["--scheduled"]).contains("close the window"));

    let file = gateway.folder.join("hall.png");
    std::fs::write(&file, b"\x89PNG\r\n\x1a\n and more").expect("written");
    let path = file.to_str().expect("UTF-8");
    let sent = publish(&["--file", path, "--filename", "hall.png", &url]);
    assert_eq!(sent["attachment"]["name"], "hall.png", "{sent}");
    assert_eq!(sent["attachment"]["type"], "image/png", "{sent}");
    let link = sent["attachment"]["url"].as_str().expect("a link");
    let fetched = run("curl", &["-s", link], b"");
    assert_eq!(fetched.stdout, std::fs::read(&file).expect("the file"));

    let described = publish(&[
        "--title",
        "Hall",
        "--markdown",
        "--icon",
        "https://x.example/i",
        "-m",
        "*now*",
        &url,
    ]);
    assert_eq!(described["content_type"], "text/markdown", "{described}");
    assert_eq!(described["icon"], "https://x.example/i", "{described}");
    let refused = run(
        NTFY,
        &[
            &["publish", "--email", "a@x.example"],
            &login[..],
            &[&url, "x"],
        ]
        .concat(),
        b"",
    );
    assert!(
        text_of(&refused).contains("sends no mail"),
        "{}",
        text_of(&refused)
    );
}
