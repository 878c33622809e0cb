//! The milter of a real Postfix: verdicts, header fields, versions, mail of either origin.

mod support;

use std::path::Path;

use support::postfix::Postfix;
use support::{Gateway, free_port, run, swaks, text_of};

/// A procedure that returns the verdict in the message's field `X-Verdict`.
const JUDGE: &str = r#"
return function(message)
    local asked = message:header("X-Verdict")
    if asked == nil then return "accept" end
    if asked == "slow" then
        local sum = 0
        for i = 1, 3e7 do sum = sum + i end
        return "accept"
    end
    return {action = asked, reason = "asked to " .. asked .. " 100%", tags = {["X-Tag"] = "1"}}
end"#;

fn gateway(folder: &Path, settings: &str) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let fixed = |action: &str| format!("return function() return '{action}' end");
    for (name, code) in [
        ("judge", JUDGE.to_owned()),
        ("drop", fixed("drop")),
        ("keep", fixed("quarantine")),
    ] {
        std::fs::write(procedures.join(format!("{name}.luau")), code).expect("written");
    }
    let scope = r#"
rules.paths = []
listeners.milter.hostname = "gate.example"
listeners.milter.verdict_headers.subject = "[SPAM]"
procedures.luau.time_max = "20s"
[[scope]]
path = "/dropped"
recipients = ["bert@boxes.example"]
run = ["/drop"]
[[scope]]
path = "/kept"
recipients = ["carla@boxes.example"]
run = ["/keep"]
[[scope]]
path = "/mail"
listeners = ["milter"]
run = ["/judge", "/spamcheck"]
"#;
    Gateway::start_in(folder, &[settings, scope].concat())
}

fn milters(gateway: &Gateway, more: &str) -> String {
    let port = gateway.port("milter");
    format!(
        "smtpd_milters = inet:127.0.0.1:{port}\nnon_smtpd_milters = inet:127.0.0.1:{port}\n\
         milter_default_action = tempfail\n{more}\n"
    )
}

/// Sends a mail with swaks and gives its transcript.
fn send(postfix: &Postfix, verdict: &str, body: &str) -> String {
    let verdict = format!("X-Verdict: {verdict}");
    let server = postfix.address().to_string();
    let options = [
        "--helo",
        "client.example",
        "--header",
        "Subject: hello",
        "--header",
        &verdict,
        "--header",
        "X-Spam-Status: No, forged",
        "--header",
        "Authentication-Results: gate.example; dkim=pass",
        "--body",
        body,
    ];
    text_of(&swaks(
        &server,
        "otto@example.org",
        "anna@boxes.example",
        &options,
    ))
}

/// The messages in quarantine, as Python prints them.
fn quarantined(folder: &Path) -> String {
    let select = "import sqlite3; c = sqlite3.connect('gatepost-data/gatepost.db'); \
        print(c.execute('select body from quarantine').fetchall())";
    let mut python = std::process::Command::new("python3");
    let output = python.args(["-c", select]).current_dir(folder).output();
    text_of(&output.expect("python3"))
}

#[test]
fn each_recipient_has_its_own_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    let postfix = Postfix::start(&milters(&gateway, ""));
    let server = postfix.address().to_string();
    let all = "anna@boxes.example,bert@boxes.example,carla@boxes.example";
    let body = ["--body", "for all"];
    let transcript = text_of(&swaks(&server, "otto@example.org", all, &body));
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    postfix.await_mail("anna", 1);
    assert!(quarantined(folder.path()).contains("for all"));
    assert!(postfix.queue().contains("empty"), "{}", postfix.queue());
    assert!(postfix.mailbox("bert").is_empty() && postfix.mailbox("carla").is_empty());
}

#[test]
fn postfix_carries_out_each_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    let postfix = Postfix::start(&milters(&gateway, ""));

    for (verdict, reply) in [
        ("reject", "550 5.7.1 asked to reject 100%"),
        ("defer", "451 4.7.1 asked to defer 100%"),
        ("drop", "250 2.0.0"),
        ("quarantine", "250 2.0.0"),
        ("tag", "250 2.0.0"),
        ("accept", "250 2.0.0"),
    ] {
        let transcript = send(&postfix, verdict, verdict);
        assert!(transcript.contains(reply), "{verdict}: {transcript}");
    }
    let mail = postfix.await_mail("anna", 2);
    let with = |verdict: &str| {
        let mark = format!("X-Verdict: {verdict}");
        mail.iter().find(|one| one.contains(&mark)).expect(verdict)
    };
    let tagged = with("tag");
    assert!(tagged.contains("\nX-Tag: 1\n"), "{tagged}");
    assert!(tagged.contains("\nSubject: [SPAM] hello\n"), "{tagged}");
    assert!(
        !tagged.contains("forged") && !tagged.contains("dkim=pass"),
        "{tagged}"
    );
    let accepted = with("accept");
    assert!(
        accepted.contains("\nAuthentication-Results: gate.example; none\n"),
        "{accepted}"
    );
    assert!(accepted.contains("\nSubject: hello\n"), "{accepted}");
    assert!(
        accepted.contains("\nX-Spam-Status: No, score="),
        "{accepted}"
    );
    // Gatepost's fields are above the trace of the server that connected to it.
    let ours = accepted.find("Authentication-Results").expect("ours");
    assert!(
        ours < accepted.find("Received:").expect("Postfix's"),
        "{accepted}"
    );
    // Held: an exclamation mark follows the queue id.
    assert!(postfix.queue().contains('!'), "{}", postfix.queue());
}

/// RFC 3463, section 3.4: the mail system, not its policy.
#[test]
fn a_copy_that_cannot_be_stored_stays_with_the_client() {
    for (settings, remove, reply) in [
        ("", true, "451 4.3.0 "),
        ("store.reserve = \"9000000GB\"\n", false, "452 4.3.1 "),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let own = "listeners.milter.quarantine = \"gatepost\"\n";
        let gateway = gateway(folder.path(), &[settings, own].concat());
        let postfix = Postfix::start(&milters(&gateway, ""));
        if remove {
            std::fs::remove_dir_all(folder.path().join("gatepost-data")).expect("removed");
        }
        let transcript = send(&postfix, "quarantine", "kept");
        assert!(transcript.contains(reply), "{reply}: {transcript}");
        assert!(postfix.queue().contains("empty"), "{}", postfix.queue());
    }
}

#[test]
fn spam_is_refused_by_its_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    let postfix = Postfix::start(&milters(&gateway, ""));
    let gtube = [
        "XJS*C4JDBQADN1.NSBN3*2IDNEN",
        "*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X",
    ];
    let transcript = send(&postfix, "accept", &gtube.concat());
    assert!(transcript.contains("550 5.7.1 spam score "), "{transcript}");
    assert!(transcript.contains("GTUBE"), "{transcript}");
    let metrics = text_of(&run("curl", &["-sf", &gateway.url("/metrics")], b""));
    let expected = "gatepost_messages_total{listener=\"milter\",verdict=\"reject\"} 1";
    assert!(metrics.contains(expected), "{metrics}");
}

#[test]
fn every_version_that_postfix_speaks_is_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    for version in ["2", "3", "4", "6"] {
        let version = format!("milter_protocol = {version}");
        let postfix = Postfix::start(&milters(&gateway, &version));
        let transcript = send(&postfix, "tag", "one");
        assert!(transcript.contains("250 2.0.0"), "{version}: {transcript}");
        let refused = send(&postfix, "reject", "two");
        assert!(refused.contains("550 5.7.1 asked"), "{version}: {refused}");
        let mail = postfix.await_mail("anna", 1);
        assert!(mail[0].contains("\nX-Tag: 1\n"), "{version}: {mail:?}");
        assert!(
            mail[0].contains("\nSubject: [SPAM] hello\n"),
            "{version}: {mail:?}"
        );
    }
}

#[test]
fn mail_of_the_machine_itself_is_judged_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    let postfix = Postfix::start(&milters(&gateway, ""));
    let message = b"Subject: cron\nX-Verdict: tag\nFrom: root@boxes.example\n\nwent well\n";
    let output = postfix.sendmail(&["anna@boxes.example"], message);
    assert!(output.status.success(), "{}", text_of(&output));
    let mail = postfix.await_mail("anna", 1);
    assert!(mail[0].contains("X-Tag: 1"), "{mail:?}");
    assert!(mail[0].contains("Subject: [SPAM] cron"), "{mail:?}");
}

#[test]
fn many_messages_pass_over_few_connections_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "");
    let postfix = Postfix::start(&milters(&gateway, ""));
    let server = format!("inet:{}", postfix.address());
    let output = run(
        "smtp-source",
        &[
            "-d",
            "-m",
            "40",
            "-s",
            "4",
            "-l",
            "4096",
            "-f",
            "otto@example.org",
            "-t",
            "anna@boxes.example",
            &server,
        ],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    let mail = postfix.await_mail("anna", 40);
    assert!(
        mail.iter()
            .all(|one| one.contains("Authentication-Results: gate.example"))
    );
}

#[test]
fn a_slow_scan_keeps_the_mail_server_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(
        folder.path(),
        "listeners.milter.progress_interval = \"20ms\"\n",
    );
    let postfix = Postfix::start(&milters(&gateway, "milter_content_timeout = 60s"));
    let transcript = send(&postfix, "slow", "patience");
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    postfix.await_mail("anna", 1);
}

#[test]
fn gateposts_quarantine_keeps_mail_that_the_mail_server_discards() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(
        folder.path(),
        "listeners.milter.quarantine = \"gatepost\"\n",
    );
    let postfix = Postfix::start(&milters(&gateway, ""));
    let transcript = send(&postfix, "quarantine", "odd");
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    let listed = quarantined(folder.path());
    assert!(listed.contains("X-Verdict: quarantine"), "{listed}");
    assert!(postfix.queue().contains("empty"), "{}", postfix.queue());
}

#[test]
fn without_gatepost_the_sender_keeps_its_mail() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = gateway(folder.path(), "");
    let port = first.port("milter");
    let postfix = Postfix::start(&milters(&first, ""));
    first.kill();
    let transcript = send(&postfix, "accept", "later");
    assert!(transcript.contains(" 451 4."), "{transcript}");
    let bind = format!("listeners.milter.bind = [\"127.0.0.1:{port}\"]\n");
    let _again = gateway(folder.path(), &bind);
    let transcript = send(&postfix, "accept", "now");
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    postfix.await_mail("anna", 1);
}

#[test]
fn no_message_is_lost_when_gatepost_is_killed() {
    const MESSAGES: usize = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let bind = format!("listeners.milter.bind = [\"127.0.0.1:{}\"]\n", free_port());
    let first = gateway(folder.path(), &bind);
    let asking = Postfix::start(&milters(&first, ""));
    let sender = Postfix::start(&format!(
        "virtual_mailbox_domains =\nrelayhost = [127.0.0.1]:{}",
        asking.address().port()
    ));
    sender.send_numbered(MESSAGES);
    asking.await_mail("anna", 3);
    first.kill();
    let _again = gateway(folder.path(), &bind);
    sender.await_numbered(&asking, MESSAGES);
}
