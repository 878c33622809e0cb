//! The listeners under clients that we did not write: spamc, swaks, Python's smtplib, miltertest.

mod support;

use std::net::SocketAddr;
use std::process::{Output, Stdio};

use support::World;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const HAM: &str = "From: anna@example.org\r\nTo: bert@example.org\r\nSubject: lunch\r\n\
    Date: Sat, 21 Nov 2026 04:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\nat noon?\r\n";

/// The string that every SpamAssassin scores with 1,000.
fn spam() -> String {
    let gtube = [
        "XJS*C4JDBQADN1.NSBN3*2IDNEN",
        "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL",
        "C.34X",
    ];
    HAM.replace("at noon?", &gtube.join("*"))
}

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

/// Exit code and output of spamc.
async fn spamc(address: SocketAddr, options: &[&str], input: &str) -> (Option<i32>, String) {
    let port = address.port().to_string();
    // -F: no config of this machine; -x: errors show in the exit code.
    let mut arguments = vec!["-F", "/dev/null", "-x", "-d", "127.0.0.1", "-p", &port];
    arguments.extend(options);
    let output = run("spamc", &arguments, input).await;
    (output.status.code(), text(&output.stdout))
}

#[tokio::test]
async fn spamc_asks_in_every_way() {
    let world = World::new();
    let address = world.listen("spamd", "");
    let spam = spam();

    let (code, out) = spamc(address, &["-K"], "").await;
    assert_eq!(code, Some(0), "ping: {out}");
    assert!(out.starts_with("SPAMD/1.5 0"), "{out}");

    let (code, out) = spamc(address, &["-c"], &spam).await;
    assert_eq!(code, Some(1), "check: {out}");
    let (score, required) = out.trim().split_once('/').expect("score/required");
    assert!(score.parse::<f64>().expect("a number") >= 1000.0, "{out}");
    assert_eq!(required, "5.0");
    let (code, _) = spamc(address, &["-c"], HAM).await;
    assert_eq!(code, Some(0));

    let (_, out) = spamc(address, &["-y"], &spam).await;
    assert!(
        out.split([',', '\n']).any(|name| name == "GTUBE"),
        "symbols: {out}"
    );

    let (_, out) = spamc(address, &["-R"], &spam).await;
    assert!(
        out.contains("GTUBE") && out.contains("points"),
        "report: {out}"
    );
    let (_, out) = spamc(address, &["-r"], &spam).await;
    assert!(out.contains("GTUBE"), "report if spam: {out}");
    let (_, out) = spamc(address, &["-r"], HAM).await;
    assert!(!out.contains("points"), "no report of ham: {out}");

    let (code, out) = spamc(address, &[], &spam).await;
    assert_eq!(code, Some(0), "process: {out}");
    assert!(out.contains("X-Spam-Flag: YES"), "{out}");
    let (_, out) = spamc(address, &[], HAM).await;
    assert!(
        out.contains("X-Spam-Status: No") && out.contains("at noon?"),
        "{out}"
    );
    let (_, out) = spamc(address, &["--headers"], HAM).await;
    assert!(
        out.contains("X-Spam-Status: No") && out.contains("at noon?"),
        "{out}"
    );

    let (code, _) = spamc(address, &["-L", "spam"], &spam).await;
    // The answer is 69, unavailable, in the one line that the protocol has for errors; spamc takes
    // any such line for a broken answer (74, input/output error). What counts: not for success.
    assert_eq!(code, Some(74), "learning is not offered");

    let journal = world.store.journal_recent(50).expect("the journal");
    assert!(
        journal
            .iter()
            .any(|entry| entry.subject.as_deref() == Some("lunch"))
    );
}

#[tokio::test]
async fn swaks_sends_and_is_refused() {
    let world = World::new();
    let address = world.listen("smtp", "payload = \"json\"");
    let server = address.to_string();
    let base = ["--server", &server, "--from", "anna@example.org"];
    let send = async |to: &str, header: &str| {
        let arguments = [&base[..], &["--to", to, "--header", header, "--pipeline"]].concat();
        run("swaks", &arguments, "").await
    };
    let output = send("alarms+fire@localhost", "Subject: smoke").await;
    assert!(output.status.success(), "{}", text(&output.stdout));
    let publications = world.notes.take();
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
    assert!(world.notes.take().is_empty());
}

#[tokio::test]
async fn swaks_speaks_lmtp_and_learns_of_each_recipient() {
    let world = World::new();
    let server = world.listen("lmtp", "").to_string();
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
    let publications = world.notes.take();
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
    let world = World::new();
    let address = world.listen("smtp", "payload = \"raw\"");
    let port = address.port().to_string();
    let output = run("python3", &["-c", SMTPLIB, &port], "").await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let publications = world.notes.take();
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
    world.shut_down().await;
}

#[tokio::test]
async fn miltertest_finds_every_step_and_verdict() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/milter");
    for (script, settings) in [
        ("steps.lua", ""),
        (
            "verdicts.lua",
            "message_max = \"50KB\"\nmarks.subject = \"[SPAM]\"",
        ),
    ] {
        let world = World::new();
        let port = format!("port={}", world.listen("milter", settings).port());
        let script = format!("{folder}/{script}");
        let output = run("miltertest", &["-D", &port, "-s", &script], "").await;
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{script}: {said}");
    }
}
