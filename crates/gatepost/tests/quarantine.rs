//! What an operator does by the HTTP API, and what is told: with swaks, curl, mosquitto_sub,
//! apprise and promtool.

mod support;

use support::{Client, Gateway, await_some, root, run, text_of};

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
    let story = await_some("the subscriber's acknowledgement", || {
        let story = json(&gateway, &path.replace("quarantine", "messages"), &[]);
        (story["steps"][0]["outcome"] == "acknowledged").then_some(story)
    });
    assert_eq!(story["steps"][0]["topic"], "alarms/fire", "{story}");
    assert_eq!(story["steps"][0]["kind"], "mqtt", "{story}");

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

/// Sends `body` as JSON.
fn put_json<'a>(method: &'a str, body: &'a str) -> [&'a str; 6] {
    let kind = "Content-Type: application/json";
    ["-X", method, "-H", kind, "-d", body]
}

const STATUS: [&str; 4] = ["--output", "/dev/null", "--write-out", "%{http_code}"];

#[test]
fn a_release_reaches_every_topic_and_an_allowed_sender_passes() {
    let gateway = Gateway::start(QUARANTINE);
    let to = "alarms+fire@localhost,alarms+flood@localhost";
    let server = gateway.address("smtp").to_string();
    let mail = [
        "--server",
        &server,
        "--from",
        "Anna@example.org",
        "--to",
        to,
        "--body",
        GTUBE,
    ];
    assert!(run("swaks", &mail, b"").status.success());
    let messages = kept(&gateway);
    let path = format!(
        "/admin/quarantine/{}",
        messages[0]["id"].as_str().expect("an id")
    );
    assert_eq!(
        messages[0]["topics"],
        serde_json::json!(["alarms/fire", "alarms/flood"])
    );
    json(&gateway, &format!("{path}/release"), &["-X", "POST"]);
    for topic in ["alarms/fire", "alarms/flood"] {
        let there = json(&gateway, &format!("/topics/{topic}"), &[]);
        assert_eq!(there.as_array().map(Vec::len), Some(1), "{topic}: {there}");
    }

    assert!(run("swaks", &mail, b"").status.success());
    let path = format!(
        "/admin/quarantine/{}",
        kept(&gateway)[0]["id"].as_str().expect("an id")
    );
    let allowed = json(&gateway, &format!("{path}/allow-sender"), &["-X", "POST"]);
    assert_eq!(allowed["sender"], "Anna@example.org");
    assert!(run("swaks", &mail, b"").status.success());
    assert_eq!(kept(&gateway).len(), 1, "the next mail from there passes");
    let found = json(&gateway, "/admin/messages?search=allowed%20sender", &[]);
    assert_eq!(found["messages"][0]["action"], "accept", "{found}");
    let senders = json(&gateway, "/admin/senders", &[]);
    assert_eq!(senders["senders"], serde_json::json!(["anna@example.org"]));
    let forget = [&STATUS[..], &["-X", "DELETE"]].concat();
    for status in ["204", "404"] {
        assert_eq!(
            curl(&gateway, "/admin/senders/anna@example.org", &forget),
            status
        );
    }
}

#[test]
fn what_nobody_judged_fills_no_journal_and_its_way_is_told_all_the_same() {
    let gateway = Gateway::start("");
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-i", "display", "-t", "hall/#", "-d"];
    let mut subscriber = Client::start("mosquitto_sub", &arguments);
    subscriber.await_line("Subscribed");
    let url = gateway.url("/topics/hall/%23");
    let event_stream = "Accept: text/event-stream";
    let mut reader = Client::start("curl", &["-sN", "-H", event_stream, &url]);
    reader.await_line("retry:");
    let published = json(&gateway, "/topics/hall/door", &["-d", "open"]);
    reader.await_line("open");
    let id = published["id"].as_str().expect("an id");
    let story = await_some("both have it", || {
        let story = json(&gateway, &format!("/admin/messages/{id}"), &[]);
        let steps = story["steps"].as_array()?.clone();
        let sent = steps
            .iter()
            .filter(|step| step["outcome"] == "sent")
            .count();
        (sent == 2).then_some(story)
    });
    let kinds: Vec<_> = story["steps"].as_array().expect("steps").iter().collect();
    assert!(kinds.iter().any(|step| step["kind"] == "sse"), "{story}");
    assert!(
        kinds.iter().any(|step| step["client"] == "display"),
        "{story}"
    );
    let listed = json(&gateway, "/admin/messages", &[]);
    assert_eq!(listed["messages"], serde_json::json!([]), "{listed}");
    let seen = await_some("the reader is listed by what it is", || {
        let state = json(&gateway, "/admin/state", &[]);
        let last = state["stats"].as_array()?.last()?.clone();
        let sessions = last["sessions"].as_array()?.clone();
        sessions
            .into_iter()
            .find(|session| session["kind"] == "sse")
    });
    assert!(
        seen["client"]
            .as_str()
            .is_some_and(|client| client.starts_with("127.0.0.1:")),
        "{seen}"
    );
}

#[test]
fn users_tokens_and_rules_are_changed_by_the_api() {
    let gateway = Gateway::start("rules.paths = []\n");
    let status = |path: &str, more: &[&str]| curl(&gateway, path, &[&STATUS[..], more].concat());
    let reader = put_json("POST", r#"{"name":"anna","password":"other"}"#);
    assert_eq!(
        status("/admin/users", &reader),
        "409",
        "the first must be an administrator"
    );
    let admin = put_json(
        "POST",
        r#"{"name":"root","password":"secret","admin":true}"#,
    );
    assert_eq!(status("/admin/users", &admin), "201");
    assert_eq!(status("/admin/users", &admin), "401", "in force at once");
    let root = ["--user", "root:secret"];
    let as_root = |path: &str, more: &[&str]| status(path, &[&root[..], more].concat());
    assert_eq!(as_root("/admin/users", &admin), "409");
    assert_eq!(as_root("/admin/users", &reader), "201");
    assert_eq!(as_root("/admin/users", &["-d", "name=otto"]), "415");
    assert_eq!(
        as_root(
            "/admin/users",
            &put_json("POST", r#"{"name":"a/b","password":"x"}"#)
        ),
        "400"
    );
    let rule = put_json("POST", r#"{"access":["publish"],"filter":"home/%u/#"}"#);
    assert_eq!(as_root("/admin/users/anna/rules", &rule), "200");
    let anna = ["--user", "anna:other", "-d", "x"];
    assert_eq!(status("/topics/home/anna/door", &anna), "200");
    assert_eq!(status("/topics/home/otto/door", &anna), "403");
    let gone = "/admin/users/anna/rules?access=publish&filter=home/%25u/%23";
    assert_eq!(as_root(gone, &["-X", "DELETE"]), "200");
    assert_eq!(as_root(gone, &["-X", "DELETE"]), "404");
    assert_eq!(
        status("/topics/home/otto/door", &anna),
        "200",
        "nothing is granted, so all is"
    );

    let wanted =
        r#"{"label":"bell","expires":"1d","allow":[{"access":["publish"],"filter":"bell/#"}]}"#;
    let made = [&root[..], &put_json("POST", wanted)].concat();
    let made = json(&gateway, "/admin/users/anna/tokens", &made);
    let bearer = format!(
        "Authorization: Bearer {}",
        made["token"].as_str().expect("a token")
    );
    assert_eq!(
        status("/topics/bell/front", &["-H", &bearer, "-d", "ring"]),
        "200"
    );
    assert_eq!(
        status("/topics/home/door", &["-H", &bearer, "-d", "x"]),
        "403"
    );
    let users = json(&gateway, "/admin/users", &root);
    let token = users["users"][0]["tokens"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(
        as_root(&format!("/admin/tokens/{token}"), &["-X", "DELETE"]),
        "204"
    );
    assert_eq!(
        status("/topics/bell/front", &["-H", &bearer, "-d", "ring"]),
        "401"
    );

    assert_eq!(
        as_root(
            "/admin/users/anna",
            &put_json("PATCH", r#"{"enabled":false}"#)
        ),
        "200"
    );
    assert_eq!(status("/topics/home/anna/door", &anna), "403");
    let demoted = put_json("PATCH", r#"{"admin":false}"#);
    assert_eq!(
        as_root("/admin/users/root", &demoted),
        "409",
        "somebody must be left"
    );
    assert_eq!(as_root("/admin/users/root", &["-X", "DELETE"]), "409");
    assert_eq!(as_root("/admin/users/anna", &["-X", "DELETE"]), "204");
    assert_eq!(as_root("/admin/users/root", &["-X", "DELETE"]), "204");
    assert_eq!(
        status("/admin/users", &[]),
        "200",
        "nobody is asked any more"
    );
}

#[test]
fn a_name_of_the_worlds_dns_leads_no_web_page_in() {
    let gateway = Gateway::start("rules.paths = []\n");
    let host = |name: &str| {
        let field = format!("Host: {name}");
        curl(
            &gateway,
            "/admin/state",
            &[&STATUS[..], &["-H", &field]].concat(),
        )
    };
    assert_eq!(host("localhost"), "200");
    // No login is asked for, since nobody could have one yet.
    assert_eq!(host("rebound.example"), "403");
}

#[test]
fn a_reload_tells_what_it_changes_and_a_check_changes_nothing() {
    let gateway = Gateway::start("rules.paths = [\"rules\"]\n");
    let rules = gateway.folder.join("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let write = |text: &str| std::fs::write(rules.join("a.cf"), text).expect("written");
    write("body ONE /one/\nscore ONE 1\nbody TWO /two/\nscore TWO 1\n");
    let reload = |path: &str| json(&gateway, path, &["-X", "POST"]);
    assert_eq!(reload("/admin/reload")["applied"], true);
    write("body ONE /one/\nscore ONE 2\nbody THREE /three/\nscore THREE 1\n");
    let config = gateway.folder.join("gatepost.toml");
    let before = std::fs::read_to_string(&config).expect("a config");
    let scope = "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/spamcheck\"]\n";
    std::fs::write(&config, before.clone() + scope).expect("written");
    for (path, applied) in [("/admin/reload?check=1", false), ("/admin/reload", true)] {
        let report = reload(path);
        assert_eq!(report["applied"], applied, "{report}");
        assert_eq!(
            report["rules"]["added"],
            serde_json::json!(["THREE"]),
            "{report}"
        );
        assert_eq!(
            report["rules"]["removed"],
            serde_json::json!(["TWO"]),
            "{report}"
        );
        assert_eq!(
            report["rules"]["changed"],
            serde_json::json!(["ONE"]),
            "{report}"
        );
    }
    let report = reload("/admin/reload");
    assert_eq!(
        report["rules"]["changed"],
        serde_json::json!([]),
        "{report}"
    );
    std::fs::write(
        &config,
        before + "[[scope]]\npath = \"/x\"\nrun = [\"/nothing\"]\n",
    )
    .expect("written");
    let report = reload("/admin/reload");
    assert_eq!(report["possible"], false, "{report}");
    assert!(
        report["problems"].to_string().contains("/nothing"),
        "{report}"
    );
}

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
    let output = support::command("python3")
        .env("PYTHONPATH", folder)
        .args(["-c", program, "-t", "Hall", "-b", "Smoke", &target])
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{}", text_of(&output));
    let told = curl(&gateway, "/alarms/json?poll=1", &[]);
    for part in [
        r#""title":"Hall""#,
        r#""message":"Smoke""#,
        r#""priority":4"#,
        r#""tags":["fire"]"#,
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let filtered = curl(&gateway, "/alarms/json?poll=1&priority=max", &[]);
    assert!(!filtered.contains("Smoke"), "{filtered}");
    let object = r#"{"topic":"alarms","message":"m","actions":[{"action":"view","label":"Open","url":"http://x"}]}"#;
    let told = json(&gateway, "/", &["-d", object]);
    assert_eq!(told["actions"][0]["label"], "Open", "{told}");
    let told = json(&gateway, "/alarms/publish?message=Link&title=T", &[]);
    assert_eq!(told["message"], "Link", "{told}");
    assert_eq!(json(&gateway, "/alarms/auth", &[])["success"], true);
    let later = curl(
        &gateway,
        "/alarms",
        &[&STATUS[..], &["-d", "x", "-H", "X-Delay: 1h"]].concat(),
    );
    assert_eq!(later, "400");
}

#[test]
fn metrics_are_as_prometheus_wants_them_and_grafana_asks_for_no_others() {
    let gateway = Gateway::start("rules.paths = []\n");
    json(&gateway, "/topics/a", &["-d", "x"]);
    let metrics = curl(&gateway, "/metrics", &[]);
    let checked = run("promtool", &["check", "metrics"], metrics.as_bytes());
    assert!(checked.status.success(), "{}", text_of(&checked));
    let board =
        std::fs::read_to_string(root().join("docs/grafana-dashboard.json")).expect("a file");
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let names = board.split(|character| !is_name(character));
    let mut asked = 0;
    for name in names.filter(|name| name.starts_with("gatepost_")) {
        assert!(
            metrics.contains(&format!("# TYPE {name} ")),
            "{name} is no metric of ours"
        );
        asked += 1;
    }
    assert!(asked > 5, "the board asks for {asked}");
}
