//! Scopes of the config judge messages by web request, by MQTT and from spamc, with the clients
//! that people use.

mod support;

use support::{Client, Gateway, await_some, post, run, text_of};

const JUDGE: &str = r#"
return function(message)
    local asked = string.match(message.text, "%a+")
    local reason, tags = "asked to " .. asked, {found = "yes"}
    return {action = asked, reason = reason, tags = tags, score = 3, required = 2}
end"#;

const SETTINGS: &str = r#"
[[scope]]
path = "/web"
listeners = ["http", "mqtt"]
topics = ["judged/+"]
run = ["/sizecheck", "/judge"]

[[scope]]
path = "/spam"
listeners = ["spamd"]
run = ["/judge"]

[procedure."/sizecheck"]
max = "100B"
"#;

fn start() -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    std::fs::write(folder.path().join("procedures/judge.luau"), JUDGE).expect("written");
    (Gateway::start_in(folder.path(), SETTINGS), folder)
}

#[test]
fn a_web_request_is_answered_with_the_verdict() {
    let (gateway, _folder) = start();
    let mut subscriber = Client::subscribe(&gateway, "#", "%t %p %P");
    for (body, status, parts) in [
        (
            "reject",
            "422",
            ["\"verdict\":\"reject\"", "\"procedure\":\"/judge\""],
        ),
        (
            "defer",
            "503",
            ["\"reason\":\"asked to defer\"", "retry-after: "],
        ),
        (
            "quarantine",
            "202",
            ["\"verdict\":\"quarantine\"", "\"id\":"],
        ),
        ("drop", "202", ["\"verdict\":\"drop\"", "\"score\":3"]),
        (
            "tag",
            "200",
            ["\"tags\":[[\"found\",\"yes\"]]", "\"subscribers\":1"],
        ),
        (
            "accept",
            "200",
            ["\"verdict\":\"accept\"", "\"required\":2"],
        ),
    ] {
        let answer = post(&gateway, "judged/one", body);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{body}: {answer}"
        );
        let plain = answer
            .replace("\": ", "\":")
            .replace("Retry-After", "retry-after");
        for part in parts {
            assert!(plain.contains(part), "{body}: no {part} in {answer}");
        }
    }
    let large = post(&gateway, "judged/one", &"x".repeat(101));
    assert!(large.contains("more than the maximum of 100B"), "{large}");
    assert!(post(&gateway, "other/one", "reject").starts_with("HTTP/1.1 200 "));
    subscriber.await_line("other/one");
    let seen: Vec<&String> = subscriber
        .seen()
        .iter()
        .filter(|line| line.starts_with("judged/"))
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen[0].starts_with("judged/one tag ") && seen[0].contains("found:yes"),
        "{seen:?}"
    );
    assert!(seen[1].starts_with("judged/one accept "), "{seen:?}");
    assert_eq!(gateway.terminate(), Some(0), "a clean end");
}

#[test]
fn mosquitto_pub_is_answered_with_the_verdict() {
    let (gateway, _folder) = start();
    let publish = |version: &str, payload: &str| {
        let port = gateway.port("mqtt");
        let arguments = [
            "-p", &port, "-V", version, "-q", "1", "-t", "judged/x", "-m", payload,
        ];
        text_of(&run("mosquitto_pub", &arguments, b""))
    };
    assert!(publish("5", "reject").contains("Not authorized"));
    assert!(publish("5", "defer").contains("Quota exceeded"));
    assert!(publish("5", &"x".repeat(101)).contains("Not authorized"));
    for payload in ["accept", "tag", "quarantine", "drop"] {
        assert_eq!(publish("5", payload), "", "{payload}");
    }
    // MQTT 3.1.1 knows no refusal of a publication: it is taken and not delivered.
    assert_eq!(publish("311", "reject"), "");
    let quarantined = await_some("the quarantine shows", || {
        let journal = text_of(&run("curl", &["-s", &gateway.url("/admin/state")], b""));
        journal.contains("asked to quarantine").then_some(journal)
    });
    assert!(
        quarantined.contains("\"listener\":\"mqtt\""),
        "{quarantined}"
    );
}

#[test]
fn a_scope_that_names_spamd_decides_the_answer_to_spamc() {
    let (gateway, _folder) = start();
    let ask = |body: &str| {
        let mail = format!("Subject: hello\n\n{body}\n");
        let port = gateway.port("spamd");
        let output = run(
            "spamc",
            &["-d", "127.0.0.1", "-p", &port, "-c"],
            mail.as_bytes(),
        );
        (text_of(&output).trim().to_owned(), output.status.code())
    };
    assert_eq!(ask("accept").1, Some(0));
    assert_eq!(ask("tag").1, Some(0));
    for action in ["reject", "quarantine", "drop"] {
        assert_eq!(ask(action).1, Some(1), "{action}");
    }
    // A message that cannot be judged now gets EX_TEMPFAIL, which spamc's -x exits with.
    let mail = b"Subject: hello\n\ndefer\n";
    let port = gateway.port("spamd");
    let output = run("spamc", &["-d", "127.0.0.1", "-p", &port, "-x", "-c"], mail);
    assert_ne!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_ne!(output.status.code(), Some(1), "{}", text_of(&output));
}
