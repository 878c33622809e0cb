//! The main job with real input: a real client sends mail of the public corpus by SMTP. Spam is
//! refused with its reasons, and wanted mail reaches every kind of subscriber.

mod support;

use std::collections::BTreeSet;

use support::{Client, Gateway, await_some, corpus_message, root, run, swaks, text_of};

/// Marks each message sent, so that it can be recognised wherever it arrives.
fn mark(index: usize) -> String {
    format!("gatepost-main-job-{index:02}")
}

struct Case {
    index: usize,
    accepted: bool,
    id: String,
}

fn cases() -> Vec<Case> {
    let list = include_str!("data/main-job.txt");
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .enumerate()
        .map(|(index, line)| {
            let (verdict, id) = line.split_once(' ').expect("a verdict and an id");
            Case {
                index,
                accepted: verdict == "accept",
                id: id.to_owned(),
            }
        })
        .collect()
}

/// Sends the case's message with swaks; its transcript and exit code.
fn send(gateway: &Gateway, case: &Case) -> (String, Option<i32>) {
    let file = corpus_message(&case.id);
    let server = gateway.address("smtp").to_string();
    let data = format!("@{}", file.display());
    let mark = format!("X-Mark: {}", mark(case.index));
    let more = ["--add-header", &mark, "--data", &data];
    let output = swaks(
        &server,
        "sender@example.org",
        "alarms+fire@localhost",
        &more,
    );
    (text_of(&output), output.status.code())
}

#[test]
fn mail_is_judged_and_pushed_to_every_kind_of_subscriber() {
    let gateway = Gateway::start("listeners.smtp.payload = \"raw\"\n");
    let mut mqtt3 = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-v", "-t", "alarms/#", "-d"],
    );
    let mut mqtt5 = Client::subscribe(&gateway, "alarms/#", "%t %P");
    let mut events = Client::start(
        "curl",
        &[
            "-sN",
            "-H",
            "Accept: text/event-stream",
            &gateway.url("/topics/alarms/%23"),
        ],
    );
    let mut lines = Client::start(
        "curl",
        &[
            "-sN",
            "-H",
            "Accept: application/x-ndjson",
            &gateway.url("/topics/alarms/%23"),
        ],
    );
    mqtt3.await_line("SUBACK");
    // HTTP subscribers get an event as soon as they are subscribed.
    events.await_line("");
    let cases = cases();
    for case in &cases {
        let (transcript, code) = send(&gateway, case);
        if case.accepted {
            assert_eq!(code, Some(0), "{}: {transcript}", case.id);
        } else {
            assert_ne!(code, Some(0), "{}: {transcript}", case.id);
            let refusal = transcript
                .lines()
                .find(|line| line.contains("550 5.7.1"))
                .unwrap_or_else(|| panic!("{}: no 550 in {transcript}", case.id));
            assert!(refusal.contains("of 5.0"), "the score is named: {refusal}");
            let rule = |word: &str| {
                word.len() > 3
                    && word
                        .chars()
                        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            };
            assert!(
                refusal
                    .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .any(rule),
                "the rules are named: {refusal}"
            );
        }
    }
    for case in cases.iter().filter(|case| case.accepted) {
        let mark = mark(case.index);
        for subscriber in [&mut mqtt3, &mut events, &mut lines] {
            subscriber.await_line(&mark);
        }
    }
    mqtt5.await_line("verdict");
    // Refused messages reached no subscriber: everything before the last good message has arrived
    // by now.
    for subscriber in [&mut mqtt3, &mut events, &mut lines] {
        for case in cases.iter().filter(|case| !case.accepted) {
            let mark = mark(case.index);
            assert!(
                subscriber.seen().iter().all(|line| !line.contains(&mark)),
                "{}",
                case.id
            );
        }
    }
    journal_tells_the_reasons(&gateway, &cases);
    assert_eq!(gateway.terminate(), Some(0), "a clean end");
}

fn journal_tells_the_reasons(gateway: &Gateway, cases: &[Case]) {
    let output = run("curl", &["-sf", &gateway.url("/admin/state")], b"");
    let state: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let recent = state["journal"].as_array().expect("the recent messages");
    let rejected: Vec<_> = recent
        .iter()
        .filter(|entry| entry["action"] == "reject")
        .collect();
    assert_eq!(
        rejected.len(),
        cases.iter().filter(|case| !case.accepted).count()
    );
    for entry in rejected {
        assert!(
            entry["score"].as_f64().is_some_and(|score| score >= 5.0),
            "{entry}"
        );
        assert!(
            entry["hits"]
                .as_array()
                .is_some_and(|hits| !hits.is_empty()),
            "{entry}"
        );
        assert!(
            entry["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{entry}"
        );
    }
}

#[test]
fn spamc_prints_the_report() {
    let gateway = Gateway::start("rules.warm_up = true\n");
    await_some("rules are warmed up", || {
        gateway.log().contains("warmed up").then_some(())
    });
    let spam = cases()
        .into_iter()
        .find(|case| !case.accepted)
        .expect("a spam");
    let message = std::fs::read(corpus_message(&spam.id)).expect("the message");
    let port = gateway.port("spamd");
    let output = run("spamc", &["-R", "-p", &port], &message);
    let report = text_of(&output);
    assert!(report.contains("points, 5.0 required"), "{report}");
    let check = run("spamc", &["-c", "-p", &port], &message);
    assert_eq!(check.status.code(), Some(1), "spam: {}", text_of(&check));
}

#[test]
fn the_thin_client_exits_as_documented() {
    let gateway = Gateway::start("[procedure.\"/sizecheck\"]\nmax = \"10KB\"\n");
    let client = root().join("target/call/call/gatepost-call");
    assert!(
        client.exists(),
        "the thin client is not built: run `make call`"
    );
    let client = client.to_str().expect("a path in UTF-8");
    let small = gateway.folder.join("small");
    let large = gateway.folder.join("large");
    std::fs::write(&small, vec![b'a'; 9_999]).expect("a file");
    std::fs::write(&large, vec![b'a'; 10_001]).expect("a file");
    let spooled = gateway.folder.join("spooled");
    let head = "client.example.org;[192.0.2.1]:4711;localhost;[127.0.0.1]:25;Sat, 21 Nov 2026 \
        00:00:00 +0000;XMail\r\n\
        localhost\r\nS1\r\nMAIL FROM:<anna@example.org>\r\n\
        RCPT TO:<bert@localhost> {ra=bert@localhost}\r\n<<MAIL-DATA>>\r\n";
    std::fs::write(&spooled, [head.as_bytes(), &[b'a'; 10_001]].concat()).expect("a file");
    let server = gateway.address("call").to_string();
    for (file, exit, expected) in [
        (&small, "plain", 0),
        (&large, "plain", 1),
        (&spooled, "xmail-smtp", 3),
        (&large, "sysexits", 77),
    ] {
        let file = file.to_str().expect("a path in UTF-8");
        let output = run(
            client,
            &["--server", &server, "--exit", exit, "/sizecheck", file],
            b"",
        );
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{exit} {file}: {}",
            text_of(&output)
        );
    }
    let refusal = std::fs::read_to_string(spooled.with_extension("rej")).expect("the reason");
    assert!(
        refusal.contains("10KB"),
        "XMail passes the reason on: {refusal}"
    );
}

#[test]
fn every_case_is_in_the_corpus_once() {
    let cases = cases();
    let ids: BTreeSet<_> = cases.iter().map(|case| &case.id).collect();
    assert_eq!(ids.len(), cases.len());
    assert!(cases.iter().any(|case| case.accepted) && cases.iter().any(|case| !case.accepted));
}
