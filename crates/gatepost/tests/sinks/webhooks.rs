//! Webhooks to a web server of the test's own, which refuses, asks to wait, and closes.

use super::support::{Client, Gateway, await_some, command, post, root, run, text_of};
use super::web_peer::{OK, WebPeer, WebRequest, pause};
use super::{PLAIN, lines, publish, sinks};

fn webhook(name: &str, url: &str, more: &str) -> String {
    format!(
        "[[sink]]\nname = \"{name}\"\nfilters = [\"{name}/#\"]\nretry.first = \"20ms\"\n\
         webhook.url = \"{url}\"\nwebhook.allow_private = true\n{more}\n"
    )
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_the_order_stays() {
    let peer = WebPeer::start(|_, _| {
        pause();
        OK
    });
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{PLAIN}{}", webhook("hook", &peer.url("/"), ""));
    let sent = lines(200);
    let gateway = Gateway::start_in(folder.path(), &settings);
    publish(&gateway, "hook/a", "1", &sent);
    let mut kills = 0;
    let mut gateway = Some(gateway);
    for arrived in [20, 60, 120] {
        peer.await_requests(arrived);
        gateway.take().expect("running").kill();
        kills += 1;
        gateway = Some(Gateway::start_in(folder.path(), &settings));
    }
    let got = await_some("the last line", || {
        let requests = peer.requests();
        let is_last = requests
            .last()
            .is_some_and(|last| last.payload() == "line 199");
        is_last.then_some(requests)
    });
    let payloads: Vec<String> = got.iter().map(WebRequest::payload).collect();
    // The message under way at a kill may be repeated, however slow the disk is; each repetition
    // has the message's id.
    let mut seen = std::collections::BTreeSet::new();
    let mut once = payloads.clone();
    once.retain(|line| seen.insert(line.clone()));
    let repeated = payloads.len() - sent.len();
    assert!(repeated <= kills, "{repeated} repeated");
    for line in &sent {
        let ids: std::collections::BTreeSet<_> = got
            .iter()
            .filter(|request| request.payload() == *line)
            .map(|request| request.field("webhook-id").expect("an id"))
            .collect();
        assert_eq!(ids.len(), 1, "{line}");
    }
    let mut sorted = once.clone();
    sorted.sort_by_key(|line| line[5..].parse::<usize>().expect("a number"));
    assert_eq!(once, sorted, "out of order");
    drop(gateway);
}

#[test]
fn responses_decide_whether_a_message_is_repeated_given_up_or_stops_the_sink() {
    let peer = WebPeer::start(|request, before| match (request.path.as_str(), before) {
        ("/later", 0) => "503 Service Unavailable\r\nretry-after: 1",
        ("/later", 1) => "",
        ("/later", 2) => "301 Moved\r\nlocation: /elsewhere",
        ("/refused", _) => "422 Unprocessable Content",
        ("/failing", _) => "500 Internal Server Error",
        ("/gone", _) => "410 Gone",
        _ => OK,
    });
    let sink = |name: &str, more: &str| webhook(name, &peer.url(&format!("/{name}")), more);
    let dead = |name: &str| format!("dead_letter = \"dead/{name}\"");
    let settings = [
        PLAIN.to_owned(),
        sink("later", ""),
        sink("refused", &dead("refused")),
        sink(
            "failing",
            &format!("retry.attempts_max = 3\n{}", dead("failing")),
        ),
        sink("gone", ""),
    ];
    let mut gateway = Gateway::start(&settings.concat());
    let format = "%t %p %P";
    let mut letters = Client::subscribe(&gateway, "dead/#", format);
    let answer = post(&gateway, "later/a", "wait for me");
    assert!(answer.contains("200 OK"), "{answer}");
    let began = std::time::Instant::now();
    let requests = peer.await_requests(4);
    assert!(began.elapsed().as_millis() >= 900, "Retry-After is kept");
    assert!(requests.iter().all(|request| request.path == "/later"));
    post(&gateway, "refused/a", "no thanks");
    let letter = letters.await_line("dead/refused no thanks");
    for part in [
        "sink:refused",
        "reason:422",
        "topic:refused/a",
        "attempts:1",
    ] {
        assert!(letter.contains(part), "{part}: {letter}");
    }
    post(&gateway, "failing/a", "not now");
    let letter = letters.await_line("dead/failing not now");
    assert!(
        letter.contains("attempts:3") && letter.contains("reason:500"),
        "{letter}"
    );
    for number in 0..3 {
        post(&gateway, "gone/a", &format!("gone {number}"));
    }
    let listed = await_some("the sink stops", || {
        let listed = sinks(&gateway);
        let is_gone = |line: &str| line.starts_with("gone ") && line.contains("queued 3");
        listed.lines().any(is_gone).then_some(listed)
    });
    assert!(listed.contains(": 410 Gone"), "{listed}");
    assert!(
        !listed.contains("/gone "),
        "the path of a URL is shown: {listed}"
    );
    let requests = peer
        .requests()
        .iter()
        .filter(|request| request.path == "/gone")
        .count();
    assert_eq!(
        requests, 1,
        "an endpoint that is gone gets no further request"
    );
    let metrics = run("curl", &["-s", &gateway.url("/metrics")], b"");
    for sample in [
        "gatepost_sink_delivered_total{sink=\"later\"} 1",
        "gatepost_sink_failed_attempts_total{sink=\"later\"} 3",
        "gatepost_sink_given_up_total{sink=\"refused\"} 1",
        "gatepost_sink_queued{sink=\"gone\"} 3",
    ] {
        assert!(
            text_of(&metrics).contains(sample),
            "{sample}: {}",
            text_of(&metrics)
        );
    }
    assert!(gateway.is_running());
}

#[test]
fn a_reload_adds_changes_and_removes_sinks_and_a_pause_keeps_the_queue() {
    let (first, second) = (WebPeer::start(|_, _| OK), WebPeer::start(|_, _| OK));
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    let config = folder.path().join("gatepost.toml");
    let base = std::fs::read_to_string(&config).expect("the config");
    let reload = |sinks: &str, expected: &dyn Fn(&str) -> bool| {
        std::fs::write(&config, format!("{base}\n{sinks}")).expect("written");
        gateway.signal("HUP");
        await_some(&format!("the reload of {sinks}"), || {
            expected(&super::sinks(&gateway)).then_some(())
        });
    };
    reload(&webhook("hook", &first.url("/"), ""), &|listed| {
        listed.contains("running")
    });
    publish(&gateway, "hook/a", "1", &lines(3));
    first.await_requests(3);
    reload(
        &webhook("hook", &first.url("/"), "enabled = false"),
        &|listed| listed.contains(" off "),
    );
    publish(&gateway, "hook/a", "1", &lines(5));
    assert!(sinks(&gateway).contains("queued 5"), "{}", sinks(&gateway));
    assert_eq!(first.requests().len(), 3);
    reload(&webhook("hook", &second.url("/"), ""), &|listed| {
        listed.contains("running")
    });
    second.await_requests(5);
    assert_eq!(first.requests().len(), 3);
    reload("", &|listed| listed.trim().is_empty());
    let sessions = ["sessions", "list", "--url", &gateway.url("")];
    await_some("the session is over", || {
        let listed = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &sessions, b""));
        (!listed.contains("$sink/")).then_some(())
    });
    // After a mistake, the running sinks remain.
    reload(&webhook("hook", &second.url("/"), ""), &|listed| {
        listed.contains("running")
    });
    std::fs::write(&config, format!("{base}\n[[sink]]\nname = \"broken\"\n")).expect("written");
    gateway.signal("HUP");
    await_some("the mistake is in the log", || {
        gateway.log().contains("the sink has no kind").then_some(())
    });
    assert!(sinks(&gateway).starts_with("hook "), "{}", sinks(&gateway));
}

#[test]
fn no_client_takes_the_session_of_a_sink() {
    let peer = WebPeer::start(|_, _| OK);
    let gateway = Gateway::start(&format!("{PLAIN}{}", webhook("hook", &peer.url("/"), "")));
    let port = gateway.port("mqtt");
    for version in ["311", "5"] {
        let arguments = [
            "-p",
            &port,
            "-V",
            version,
            "-i",
            "$sink/hook",
            "-t",
            "hook/x",
            "-m",
            "mine",
        ];
        let output = run("mosquitto_pub", &arguments, b"");
        assert!(!output.status.success(), "{version}: {}", text_of(&output));
    }
    publish(&gateway, "hook/a", "1", &lines(1));
    assert_eq!(peer.await_requests(1)[0].payload(), "line 0");
}

#[test]
fn another_implementation_of_standard_webhooks_verifies_the_signature() {
    let peer = WebPeer::start(|_, _| OK);
    let folder = tempfile::tempdir().expect("a folder");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    std::fs::write(folder.path().join("secret"), secret).expect("written");
    let more = "webhook.secret_file = \"secret\"\nwebhook.hmac_header = \"X-Hub-Signature-256\"";
    let settings = format!("{PLAIN}{}", webhook("hook", &peer.url("/"), more));
    let gateway = Gateway::start_in(folder.path(), &settings);
    publish(&gateway, "hook/a", "1", &lines(1));
    let request = peer.await_requests(1).remove(0);
    assert!(
        request
            .field("x-hub-signature-256")
            .is_some_and(|value| value.len() == 71)
    );
    let packages = root().join(".peers/standardwebhooks");
    assert!(
        packages.exists(),
        "{} is missing: run tests/install-peers",
        packages.display()
    );
    let fields: std::collections::BTreeMap<_, _> = request.fields.iter().cloned().collect();
    let given = serde_json::json!({ "secret": secret, "body": request.body, "headers": fields });
    let script = "import json, sys, standardwebhooks as s; g = json.load(sys.stdin)\n\
        s.Webhook(g['secret']).verify(g['body'], g['headers'])\n\
        try: s.Webhook(g['secret']).verify(g['body'] + ' ', g['headers'])\n\
        except s.WebhookVerificationError: print('verified')";
    let mut python = command("python3");
    python.args(["-c", script]).env("PYTHONPATH", packages);
    let output = super::support::feed(&mut python, given.to_string().as_bytes());
    assert_eq!(text_of(&output).trim(), "verified");
}

#[test]
fn check_connects_to_each_sink_and_sends_nothing() {
    let peer = WebPeer::start(|_, _| OK);
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gatepost.toml");
    let check = |settings: &str| {
        std::fs::write(&config, settings).expect("written");
        let path = config.display().to_string();
        let arguments = ["check", "--config", &path, "--connect"];
        run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"")
    };
    let good = check(&webhook("hook", &peer.url("/"), ""));
    assert!(good.status.success(), "{}", text_of(&good));
    assert!(
        text_of(&good).contains("1 of 1 sinks can be reached"),
        "{}",
        text_of(&good)
    );
    let closed = webhook("closed", "http://127.0.0.1:1/", "");
    let guarded =
        webhook("guarded", &peer.url("/"), "").replace("allow_private = true", "rate_max = 0");
    let bad = check(&format!("{closed}{guarded}"));
    let text = text_of(&bad);
    assert_eq!(bad.status.code(), Some(69), "{text}");
    assert!(
        text.contains("refused") && text.contains("is not a public address"),
        "{text}"
    );
    assert!(peer.requests().is_empty());
    let wrong = check("[[sink]]\nname = \"x\"\nfilters = [\"a\"]\nwebhook.url = \"x\"\n");
    assert!(
        text_of(&wrong).contains("gatepost.toml:4: sink.0.webhook.url"),
        "{}",
        text_of(&wrong)
    );
}

/// The JSON form names an event of a message's sequence; a template has words for messages only.
#[test]
fn events_of_a_sequence_are_sent_as_json_and_fill_no_template() {
    let peer = WebPeer::start(|_, _| OK);
    let folder = tempfile::tempdir().expect("a folder");
    let template = "{\"text\": {{ payload }}}";
    std::fs::write(folder.path().join("text.json"), template).expect("written");
    let sink = |name: &str, path: &str, more: &str| {
        webhook(name, &peer.url(path), more).replace(&format!("\"{name}/#\""), "\"hook/#\"")
    };
    let settings = [
        PLAIN.to_owned(),
        sink("plain", "/plain", ""),
        sink("filled", "/filled", "webhook.template = \"text.json\""),
    ];
    let gateway = Gateway::start_in(folder.path(), &settings.concat());
    let put = |path: &str| {
        let url = gateway.url(path);
        text_of(&run("curl", &["-s", "-d", "50 %", "-X", "PUT", &url], b""))
    };
    put("/hook/7");
    put("/hook/7/clear");
    put("/hook/8");
    let requests = peer.await_requests(5);
    let of = |path: &str| -> Vec<&str> {
        let own = requests.iter().filter(|request| request.path == path);
        own.map(|request| request.body.as_str()).collect()
    };
    assert_eq!(of("/filled").len(), 2, "{requests:?}");
    let plain = of("/plain");
    assert_eq!(plain.len(), 3, "{requests:?}");
    assert!(plain[1].contains("message_clear"), "{plain:?}");
    let listed = sinks(&gateway);
    assert!(
        !listed.contains("queued 1"),
        "an event stays queued: {listed}"
    );
}
