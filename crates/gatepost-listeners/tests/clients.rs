//! The listeners with clients of other projects: swaks, Python's smtplib, miltertest.

mod support;

use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use support::Fixture;

async fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program} does not start ({error}); is it installed?"));
    let mut stdin = child.stdin.take().expect("a pipe");
    // A client that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    child.wait_with_output().await.expect("an exit")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn swaks_sends_and_is_refused() {
    let fixture = Fixture::new();
    let address = fixture.listen("smtp", "payload = \"json\"");
    let server = address.to_string();
    let base = ["--server", &server, "--from", "anna@example.org"];
    let send = async |to: &str, header: &str| {
        let arguments = [&base[..], &["--to", to, "--header", header, "--pipeline"]].concat();
        run("swaks", &arguments, "").await
    };
    let output = send("alarms+fire@localhost", "Subject: smoke").await;
    assert!(output.status.success(), "{}", text(&output.stdout));
    let publications = fixture.notes.take();
    let [publication] = &publications[..] else {
        panic!("{publications:?}")
    };
    assert_eq!(publication.topic.as_str(), "alarms/fire");
    let mail: serde_json::Value = serde_json::from_slice(&publication.payload).expect("JSON");
    assert_eq!(mail["subject"], "smoke");
    let properties = publication.properties.as_deref().expect("properties");
    assert_eq!(properties.user_property("subject"), Some("smoke"));

    let output = send("alarms@localhost", "X-Verdict: reject").await;
    assert!(text(&output.stdout).contains("550 5.7.1 asked to reject"));
    assert_eq!(
        output.status.code(),
        Some(26),
        "swaks' code for a refused message"
    );
    let output = send("someone@example.net", "Subject: relay").await;
    assert_eq!(
        output.status.code(),
        Some(24),
        "swaks' code for refused recipients"
    );
    assert!(fixture.notes.take().is_empty());
}

#[tokio::test]
async fn swaks_speaks_lmtp_and_learns_of_each_recipient() {
    let fixture = Fixture::new();
    let server = fixture.listen("lmtp", "").to_string();
    let arguments = [
        "--protocol",
        "LMTP",
        "--server",
        &server,
        "--from",
        "anna@example.org",
    ];
    let to = [
        "--to",
        "a@localhost,b@strict.example",
        "--header",
        "X-Verdict: reject",
    ];
    let output = run("swaks", &[&arguments[..], &to[..]].concat(), "").await;
    let transcript = text(&output.stdout);
    let replies: Vec<&str> = transcript
        .lines()
        .filter(|line| line.contains("550 5.7.1 asked to reject") || line.contains("250 2.0.0"))
        .collect();
    assert!(
        replies.len() >= 2 && replies[replies.len() - 2].contains("550"),
        "{transcript}"
    );
    let publications = fixture.notes.take();
    let topics: Vec<&str> = publications.iter().map(|one| one.topic.as_str()).collect();
    assert_eq!(topics, ["b"], "{transcript}");
}

const SMTPLIB: &str = r#"
import smtplib, sys
server = smtplib.SMTP("127.0.0.1", int(sys.argv[1]), timeout=60)
server.ehlo("client.example")
for name in ("size", "8bitmime", "smtputf8", "pipelining", "enhancedstatuscodes"):
    assert server.has_extn(name), name
for number in range(20):
    text = f"Subject: {number}\r\n\r\n.\r\n..dots\r\n" + "x" * number * 1000
    refused = server.sendmail("anna@example.org",
        ["alarms@localhost", "b@example.net"], text)
    assert list(refused) == ["b@example.net"] and refused["b@example.net"][0] == 550
server.sendmail("anna@example.org", ["b\u00fcro@localhost"],
    "Subject: \u00fc\r\n\r\ngr\u00fc\u00df".encode(), ["SMTPUTF8", "BODY=8BITMIME"])
assert server.noop()[0] == 250 and server.verify("anna")[0] == 252
server.quit()
"#;

#[tokio::test]
async fn smtplib_sends_many_over_one_connection() {
    let fixture = Fixture::new();
    let address = fixture.listen("smtp", "payload = \"raw\"");
    let port = address.port().to_string();
    let output = run("python3", &["-c", SMTPLIB, &port], "").await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let publications = fixture.notes.take();
    assert_eq!(publications.len(), 21);
    for (number, publication) in publications.iter().take(20).enumerate() {
        let mail = text(&publication.payload);
        let expected = format!(
            "Subject: {number}\r\n\r\n.\r\n..dots\r\n{}",
            "x".repeat(number * 1000)
        );
        assert!(mail.trim_end().ends_with(expected.trim_end()), "{number}");
    }
    let utf8 = publications
        .iter()
        .any(|one| one.topic.as_str() == "b\u{fc}ro");
    assert!(utf8, "the mail with SMTPUTF8");
    fixture.shut_down().await;
}

#[tokio::test]
async fn miltertest_finds_every_step_and_verdict() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/milter");
    for (script, settings) in [
        ("steps.lua", ""),
        ("recipients.lua", "recipients_max = 2"),
        (
            "verdicts.lua",
            "message_max = \"50KB\"\nverdict_headers.subject = \"[SPAM]\"",
        ),
    ] {
        let fixture = Fixture::new();
        let port = format!("port={}", fixture.listen("milter", settings).port());
        let script = format!("{folder}/{script}");
        let output = run("miltertest", &["-D", &port, "-s", &script], "").await;
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{script}: {said}");
    }
}
