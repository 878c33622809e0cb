//! Mail that was not judged completely because of a limit: the verdict reports it, and defers if
//! configured.

use super::support::{self, Gateway, run, text_of};

/// An HTML mail whose end, beyond the limit, is the text that every filter knows for spam.
fn message() -> String {
    let gtube = [
        "XJS*C4JDBQADN1.NSBN3*2IDNEN",
        "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL",
        "C.34X",
    ];
    format!(
        "From: anna@example.org\nTo: alarms@localhost\nSubject: lunch\n\
         Date: Sat, 21 Nov 2026 04:00:00 +0000\nMessage-ID: <1@example.org>\nMIME-Version: 1.0\n\
         Content-Type: text/html\n\n{}\n{}\n",
        "<p>noon</p>".repeat(200),
        gtube.join("*")
    )
}

fn start(folder: &std::path::Path, more: &str) -> Gateway {
    let rules = folder.join("rules.cf");
    let text = "body GTUBE /GTUBE-STANDARD/\nscore GTUBE 1000\nclear_headers\n\
        add_header all Status _YESNO_, score=_SCORE_ tests=_TESTS_\n";
    std::fs::write(&rules, text).expect("written");
    let settings = format!(
        "rules.paths = [\"{}\"]\nrules.mail.html_size_max = \"1kB\"\n{more}\n\
         [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/spamcheck\"]\n",
        rules.display()
    );
    Gateway::start_in(folder, &settings)
}

fn send(gateway: &Gateway, folder: &std::path::Path) -> String {
    let file = folder.join("message");
    std::fs::write(&file, message()).expect("written");
    let data = format!("@{}", file.display());
    let server = gateway.address("smtp").to_string();
    let sent = support::swaks(
        &server,
        "a@example.org",
        "alarms@localhost",
        &["--data", &data],
    );
    text_of(&sent)
}

fn spamc(gateway: &Gateway) -> (Option<i32>, String) {
    let port = gateway.address("spamd").port().to_string();
    let arguments = ["-F", "/dev/null", "-x", "-d", "127.0.0.1", "-p", &port];
    let output = run("spamc", &arguments, message().as_bytes());
    (output.status.code(), text_of(&output))
}

#[test]
fn abandoned_scans_are_reported_and_scored() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = start(folder.path(), "");
    let sent = send(&gateway, folder.path());
    assert!(sent.contains("<-  250 2.0.0"), "{sent}");
    let (code, marked) = spamc(&gateway);
    assert_eq!(code, Some(0));
    assert!(
        marked.contains("X-Spam-Status: No, score=0.0 tests=GATEPOST_GIVEN_UP"),
        "{marked}"
    );
    let metrics = text_of(&run("curl", &["-s", &gateway.url("/metrics")], b""));
    assert!(
        metrics.contains("\ngatepost_messages_given_up_total 2\n"),
        "{metrics}"
    );

    // With a score that makes spam of it.
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = start(folder.path(), "rules.given_up_score = 6.5\n");
    let sent = send(&gateway, folder.path());
    assert!(sent.contains("<** 550 5.7.1"), "{sent}");
    assert!(sent.contains("GATEPOST_GIVEN_UP"), "{sent}");
}

#[test]
fn mail_that_was_given_up_is_deferred_by_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let defer = "procedure.\"/spamcheck\".given_up = \"defer\"\n";
    let gateway = start(folder.path(), defer);
    let sent = send(&gateway, folder.path());
    assert!(sent.contains("<** 451 "), "{sent}");
    assert!(
        sent.contains("not judged completely: limit of size"),
        "{sent}"
    );
    let (code, _) = spamc(&gateway);
    // The exit code of spamc for the server's EX_TEMPFAIL.
    assert_eq!(code, Some(74));
    assert!(
        gateway
            .log()
            .contains("Temporary failure: not judged completely")
    );
}

#[test]
fn a_scan_reports_the_limits_that_it_reached() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.cf");
    std::fs::write(&rules, "body HEAVY /^(?=(?:a|aa)+$)/\n").expect("written");
    let message = format!("Subject: x\n\n{}!\n", "a".repeat(1000));
    let scan = |how: &[&str]| {
        let rules = rules.display().to_string();
        let arguments = [&["scan", "--rules", &rules], how].concat();
        let program = env!("CARGO_BIN_EXE_gatepost");
        text_of(&run(program, &arguments, message.as_bytes()))
    };
    let line = scan(&["--format", "jsonl"]);
    assert!(line.contains("\"given_up\":\"steps\""), "{line}");
    assert!(line.contains("\"GATEPOST_GIVEN_UP\":0.001"), "{line}");
    let why = scan(&["--why"]);
    assert!(
        why.contains("not judged completely: limit of steps"),
        "{why}"
    );
}
