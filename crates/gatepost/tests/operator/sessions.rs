//! An administrator inspects the sessions of clients, disconnects, ends and bans them, with
//! mosquitto's programs as the clients.

use super::support::{Client, Gateway, await_some, run, text_of};

const ROOT: [&str; 4] = ["-u", "root", "-P", "correct horse battery"];

fn gatepost(gateway: &Gateway, arguments: &[&str]) -> String {
    let url = gateway.url("");
    let arguments = [&["sessions"], arguments, &["--url", &url]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

fn refused(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let url = gateway.url("");
    let arguments = [arguments, &["--url", &url]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    (output.status.code(), text_of(&output))
}

/// A server with the administrator `root` and the user `anna`, who may do everything with topics.
fn with_users(folder: &std::path::Path) -> Gateway {
    let gateway = Gateway::start_in(folder, "rules.paths = []\n");
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    for (arguments, password) in [
        (&["add", "anna"][..], "anna has a password\n"),
        (&["grant", "anna", "all", "#"], ""),
        (&["add", "root", "--admin"], "correct horse battery\n"),
    ] {
        let arguments = [&["user"], arguments, &["--set", &data]].concat();
        let output = run(
            env!("CARGO_BIN_EXE_gatepost"),
            &arguments,
            password.as_bytes(),
        );
        assert!(output.status.success(), "{}", text_of(&output));
    }
    await_some("the users are known", || {
        let list = [&["sessions", "list"], &ROOT[..]].concat();
        let known = refused(&gateway, &list).0 == Some(0);
        let open = refused(&gateway, &["sessions", "list"]).0 == Some(0);
        (known && !open).then_some(())
    });
    gateway
}

/// mosquitto_sub with a session that outlives its connection.
fn lasting(gateway: &Gateway, client: &str, more: &[&str]) -> Client {
    let port = gateway.port("mqtt");
    let own = [
        "-p", &port, "-V", "5", "-i", client, "-c", "-x", "604800", "-d",
    ];
    let mut client = Client::start("mosquitto_sub", &[&own, more].concat());
    client.await_line("SUBACK");
    client
}

#[test]
fn a_session_that_an_administrator_ends_is_over() {
    let gateway = Gateway::start("rules.paths = []\n");
    let mut client = lasting(&gateway, "squatter/1", &["-q", "1", "-t", "news"]);
    let listed = gatepost(&gateway, &["list", "--search", "squatter"]);
    assert!(
        listed.contains("squatter/1") && listed.contains("connected"),
        "{listed}"
    );
    let ended = gatepost(&gateway, &["forget", "squatter/1"]);
    assert_eq!(ended.trim(), "1 ended");
    client.await_line("DISCONNECT (152)");
    drop(client);
    // The client may have reconnected before it was stopped.
    await_some("the client is gone", || {
        let listed = gatepost(&gateway, &["list"]);
        (!listed.contains("connected")).then_some(())
    });
    let audit = gateway.folder.join("gatepost-data/audit.log");
    let audit = std::fs::read_to_string(audit).expect("the audit log");
    assert!(
        audit.contains("DELETE /admin/sessions/squatter/1"),
        "{audit}"
    );
    let unknown = refused(&gateway, &["sessions", "end", "unknown"]);
    assert_eq!(unknown.0, Some(65), "{}", unknown.1);
}

#[test]
fn a_session_shows_its_subscriptions_its_queue_and_what_it_waits_for() {
    let gateway = Gateway::start("rules.paths = []\n");
    let filters = [
        "-q",
        "1",
        "-t",
        "news/#",
        "-t",
        "$share/group/jobs/+",
        "-t",
        "plain",
    ];
    let client = lasting(&gateway, "reader", &filters);
    let shown = gatepost(&gateway, &["show", "reader", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let session = &shown[0];
    assert_eq!(session["connected"], true, "{session}");
    assert_eq!(session["connection"]["protocol"], "mqtt 5");
    assert_eq!(session["expiry_seconds"], 604_800);
    assert_eq!(session["stored"], true);
    assert_eq!(session["waits_for"], serde_json::json!([]));
    let address = session["connection"]["address"]
        .as_str()
        .unwrap_or_default();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let filters = session["filters"].as_array().expect("a list");
    let filters: Vec<(&str, u64)> = filters
        .iter()
        .map(|filter| {
            let name = filter["filter"].as_str().unwrap_or_default();
            (name, filter["qos"].as_u64().unwrap_or(9))
        })
        .collect();
    assert_eq!(
        filters,
        [("$share/group/jobs/+", 1), ("news/#", 1), ("plain", 1)]
    );

    drop(client);
    await_some("the session without its client", || {
        let text = gatepost(&gateway, &["show", "reader"]);
        text.contains("none: the client is not connected")
            .then_some(())
    });
    let port = gateway.port("mqtt");
    for text in ["first", "second"] {
        let topic = ["-p", &port, "-q", "1", "-t", "news/x", "-m", text];
        let sent = run("mosquitto_pub", &topic, b"");
        assert!(sent.status.success(), "{}", text_of(&sent));
    }
    let text = gatepost(&gateway, &["show", "reader"]);
    for line in [
        "2 messages, 23 bytes wait",
        "the client: it is not connected",
        "on disk; ends in",
        "news/#  (QoS 1)",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    let listed = gatepost(&gateway, &["list", "--count", "1"]);
    assert!(listed.contains("waits for client"), "{listed}");
}

#[test]
fn a_client_that_acknowledges_nothing_is_named_as_the_cause() {
    let gateway = Gateway::start("rules.paths = []\n[broker]\ninflight_max = 2\n");
    let port = gateway.port("mqtt");
    let client = lasting(&gateway, "stuck", &["-q", "1", "-t", "news"]);
    client.pause();
    for _ in 0..4 {
        let topic = ["-p", &port, "-q", "1", "-t", "news", "-m", "text"];
        assert!(run("mosquitto_pub", &topic, b"").status.success());
    }
    let text = gatepost(&gateway, &["show", "stuck"]);
    assert!(text.contains("2 messages, 16 bytes wait; 2 sent"), "{text}");
    assert!(
        text.contains("acknowledgements: as many are open"),
        "{text}"
    );
    client.resume();
    await_some("everything is acknowledged", || {
        let text = gatepost(&gateway, &["show", "stuck"]);
        text.contains("0 messages, 0 bytes wait; 0 sent")
            .then_some(())
    });
}

#[test]
fn a_kicked_client_keeps_its_session() {
    let gateway = Gateway::start("rules.paths = []\n");
    let mut client = lasting(&gateway, "guest", &["-q", "1", "-t", "news"]);
    let kicked = gatepost(&gateway, &["kick", "guest"]);
    assert_eq!(kicked.trim(), "1 disconnected");
    client.await_line("DISCONNECT (152)");
    drop(client);
    await_some("the session is there, without its client", || {
        let listed = gatepost(&gateway, &["list"]);
        (listed.contains("guest") && listed.contains("disconnected")).then_some(())
    });
    assert_eq!(
        gatepost(&gateway, &["kick", "guest"]).trim(),
        "0 disconnected"
    );
}

#[test]
fn a_banned_user_is_refused_and_its_connections_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = with_users(folder.path());
    let port = gateway.port("mqtt");
    let anna = ["-u", "anna", "-P", "anna has a password"];
    let mut client = lasting(&gateway, "phone", &[&anna[..], &["-t", "news"]].concat());
    let listen = ["--no-buffer", "-sN", "-u", "anna:anna has a password"];
    let stream = Client::start(
        "curl",
        &[&listen[..], &[&gateway.url("/topics/news?events=1")]].concat(),
    );
    let ban = [
        "ban", "phone", "--what", "user", "--time", "1d", "--reason", "abuse",
    ];
    let banned = gatepost(&gateway, &[&ban[..], &ROOT].concat());
    assert!(
        banned.contains("user:anna") && banned.contains("1 disconnected"),
        "{banned}"
    );
    client.await_line("DISCONNECT (152)");
    drop((client, stream));
    let again = ["-p", &port, "-V", "5", "-t", "news", "-m", "x"];
    let again = run("mosquitto_pub", &[&again[..], &anna].concat(), b"");
    assert!(!again.status.success(), "{}", text_of(&again));
    assert!(
        text_of(&again).contains("Banned") || text_of(&again).contains("138"),
        "{}",
        text_of(&again)
    );

    let bans = refused(&gateway, &[&["bans", "list"], &ROOT[..]].concat());
    assert!(
        bans.1.contains("user:anna") && bans.1.contains("abuse"),
        "{}",
        bans.1
    );
    let lifted = refused(
        &gateway,
        &[&["bans", "remove", "user:anna"], &ROOT[..]].concat(),
    );
    assert_eq!(lifted.0, Some(0), "{}", lifted.1);
    let again = ["-p", &port, "-V", "5", "-t", "news", "-m", "x"];
    let again = run("mosquitto_pub", &[&again[..], &anna].concat(), b"");
    assert!(again.status.success(), "{}", text_of(&again));
    let root = refused(
        &gateway,
        &[&["bans", "add", "user:Root"], &ROOT[..]].concat(),
    );
    assert!(root.1.contains("an administrator"), "{}", root.1);
}

#[test]
fn a_banned_address_is_refused() {
    let settings = "rules.paths = []\nbans.exempt_local = false\n";
    let gateway = Gateway::start(settings);
    let port = gateway.port("mqtt");
    let elsewhere = ["-A", "127.0.0.2"];
    let mut client = lasting(&gateway, "far", &[&elsewhere[..], &["-t", "news"]].concat());
    let banned = gatepost(
        &gateway,
        &["ban", "far", "--what", "address", "--time", "1h"],
    );
    assert!(
        banned.contains("127.0.0.2") && banned.contains("1 disconnected"),
        "{banned}"
    );
    client.await_line("DISCONNECT (152)");
    drop(client);
    let publish = ["-p", &port, "-t", "news", "-m", "x"];
    let again = run("mosquitto_pub", &[&publish[..], &elsewhere].concat(), b"");
    assert!(!again.status.success(), "{}", text_of(&again));
    let other = run("mosquitto_pub", &publish, b"");
    assert!(other.status.success(), "{}", text_of(&other));
    let unnamed = refused(&gateway, &["sessions", "ban", "far", "--what", "user"]);
    assert!(unnamed.1.contains("did not log in"), "{}", unnamed.1);
}

#[test]
fn the_subscribers_of_a_topic_are_found_by_their_filters() {
    let gateway = Gateway::start("rules.paths = []\n");
    let _exact = lasting(&gateway, "a-exact", &["-t", "hall/door"]);
    let _several = lasting(
        &gateway,
        "b-several",
        &["-t", "hall/+", "-t", "#", "-t", "attic"],
    );
    let _group = lasting(&gateway, "c-group", &["-t", "$share/night/hall/#"]);
    let _other = lasting(&gateway, "d-other", &["-t", "hall/window"]);
    let stream = gateway.url("/topics/hall/door");
    let mut stream = Client::start("curl", &["-sN", "-H", "Accept: text/event-stream", &stream]);
    stream.await_line("retry");
    let response_to = |query: &str| {
        let url = gateway.url(&format!("/admin/subscribers?{query}"));
        let output = run("curl", &["-s", &url], b"");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let found = response_to("topic=hall/door");
    let named: Vec<(&str, String)> = found["subscribers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            (
                one["client"].as_str().expect("a client"),
                one["filters"].to_string(),
            )
        })
        .collect();
    assert_eq!(
        named,
        [
            ("a-exact", r#"["hall/door"]"#.to_owned()),
            ("b-several", r##"["#","hall/+"]"##.to_owned()),
            ("c-group", r#"["$share/night/hall/#"]"#.to_owned()),
        ]
    );
    assert_eq!((&found["total"], &found["readers"]), (&3.into(), &1.into()));
    let page = response_to("topic=hall/door&skip=1&count=1");
    assert_eq!(page["subscribers"][0]["client"], "b-several");
    assert_eq!(page["total"], 3);
    let beyond = response_to("topic=hall/door&skip=99999999999999999999999");
    assert_eq!(beyond["subscribers"].as_array().map(Vec::len), Some(0));
    assert_eq!(beyond["total"], 3);
    assert_eq!(response_to("topic=hall/door&skip=-1")["code"], 40006);
    assert_eq!(response_to("topic=hall/%2B")["code"], 40005, "no filter");
}
