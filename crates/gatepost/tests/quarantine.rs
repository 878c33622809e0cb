//! Kept aside, looked at, released: with swaks, curl and mosquitto_sub.

mod support;

use support::{Client, Gateway, await_some, run, text_of};

const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const QUARANTINE: &str = "procedure.\"/spamcheck\".action = \"quarantine\"\n";

fn send(gateway: &Gateway, subject: &str) {
    let server = gateway.address("smtp").to_string();
    let subject = format!("Subject: {subject}");
    let arguments = [
        "--server",
        &server,
        "--from",
        "a@example.org",
        "--to",
        "alarms+fire@localhost",
        "--header",
        &subject,
        "--body",
        GTUBE,
    ];
    let output = run("swaks", &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

fn curl(gateway: &Gateway, path: &str, more: &[&str]) -> String {
    let url = gateway.url(path);
    let arguments = [
        &["--silent", "--show-error", "--max-time", "60"],
        more,
        &[url.as_str()],
    ]
    .concat();
    let output = run("curl", &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(gateway: &Gateway, path: &str, more: &[&str]) -> serde_json::Value {
    let text = curl(gateway, path, more);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

fn kept(gateway: &Gateway) -> Vec<serde_json::Value> {
    let answer = json(gateway, "/admin/quarantine", &[]);
    answer["messages"].as_array().expect("a list").clone()
}

#[test]
fn a_quarantined_mail_is_looked_at_learned_released_and_deleted() {
    let gateway = Gateway::start(QUARANTINE);
    send(&gateway, "First <b>offer</b>");
    send(&gateway, "Second offer");
    let messages = kept(&gateway);
    assert_eq!(messages.len(), 2, "{messages:?}");
    // Newest first.
    let (second, first) = (&messages[0], &messages[1]);
    assert_eq!(first["subject"], "First <b>offer</b>");
    let path = format!("/admin/quarantine/{}", first["id"].as_str().expect("an id"));
    let whole = json(&gateway, &path, &[]);
    assert!(
        whole["text"]
            .as_str()
            .is_some_and(|text| text.contains("GTUBE")),
        "{whole}"
    );
    assert!(
        whole["source"]
            .as_str()
            .is_some_and(|text| text.contains("Received:")),
        "{whole}"
    );
    let source = curl(&gateway, &format!("{path}/source"), &["--include"]);
    assert!(
        source
            .to_lowercase()
            .contains("content-disposition: attachment"),
        "{source}"
    );

    let learned = json(&gateway, &format!("{path}/learn?as=ham"), &["-X", "POST"]);
    assert_eq!(learned["learned"], "new");
    let learned = json(&gateway, &format!("{path}/learn?as=spam"), &["-X", "POST"]);
    assert_eq!(learned["learned"], "changed");

    let port = gateway.port("mqtt");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &port, "-t", "alarms/#", "-q", "1", "-d"],
    );
    subscriber.await_line("Subscribed");
    let released = json(&gateway, &format!("{path}/release"), &["-X", "POST"]);
    assert_eq!(released["verdict"], "accept");
    assert_eq!(released["subscribers"], 1);
    subscriber.await_line("First <b>offer</b>");
    let story = json(&gateway, &path.replace("quarantine", "messages"), &[]);
    assert_eq!(story["action"], "accept");
    assert!(
        story["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("released"))
    );

    let path = format!(
        "/admin/quarantine/{}",
        second["id"].as_str().expect("an id")
    );
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    assert_eq!(
        curl(&gateway, &path, &[&status[..], &["-X", "DELETE"]].concat()),
        "204"
    );
    assert_eq!(
        curl(&gateway, &path, &[&status[..], &["-X", "DELETE"]].concat()),
        "404"
    );
    assert!(kept(&gateway).is_empty());
    let found = json(
        &gateway,
        "/admin/messages?search=SECOND&verdict=quarantine",
        &[],
    );
    assert_eq!(
        found["messages"].as_array().map(Vec::len),
        Some(1),
        "{found}"
    );
}

fn add_user(gateway: &Gateway, name: &str, password: &str, more: &[&str]) {
    let config = gateway.folder.join("gatepost.toml");
    let config = config.display().to_string();
    let arguments = [&["user", "add", name, "--config", &config][..], more].concat();
    let program = env!("CARGO_BIN_EXE_gatepost");
    let output = run(program, &arguments, password.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn from_the_first_user_on_a_login_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    // `gatepost user` runs elsewhere and finds the same data.
    let data = format!(
        "data = {:?}\nrules.paths = []\n",
        folder.path().join("data")
    );
    let gateway = Gateway::start_in(folder.path(), &data);
    assert!(curl(&gateway, "/", &[]).contains("Gatepost"));
    add_user(&gateway, "root", "secret", &["--admin"]);
    add_user(&gateway, "reader", "other", &[]);
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let asked = |path: &str, login: Option<&str>| {
        let login = login.map_or_else(Vec::new, |login| vec!["--user", login]);
        curl(&gateway, path, &[&status[..], &login].concat())
    };
    await_some("the users are known", || {
        (asked("/admin/state", None) == "401").then_some(())
    });
    for path in ["/", "/admin/quarantine", "/metrics", "/status", "/topics/a"] {
        assert_eq!(asked(path, None), "401", "{path}");
        assert_eq!(asked(path, Some("root:wrong")), "401", "{path}");
    }
    for path in ["/", "/admin/quarantine", "/admin/users"] {
        assert_eq!(asked(path, Some("root:secret")), "200", "{path}");
        assert_eq!(asked(path, Some("reader:other")), "403", "{path}");
    }
    assert_eq!(asked("/healthz", None), "200");
    let users = json(&gateway, "/admin/users", &["--user", "root:secret"]);
    assert!(!users.to_string().contains("argon2"), "{users}");
}
