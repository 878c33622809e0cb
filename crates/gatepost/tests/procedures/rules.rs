//! The rules in a running gateway: the results of sender authentication are written into a mail,
//! and rules are replaced while mail is judged.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::dns::{Server, Zone};
use super::support::{Gateway, await_some, run, swaks, text_of};

fn rules_tests() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gatepost-rules/tests/data")
}

fn zone() -> Zone {
    let mut zone = Zone::new();
    for line in include_str!("../../../gatepost-rules/tests/data/authentication/keys.txt").lines() {
        let (name, value) = line.split_once(" TXT ").expect("a key");
        zone.insert((name, "TXT"), vec![value]);
    }
    zone.insert(("author.example", "TXT"), vec!["v=spf1 ip4:192.0.2.7 -all"]);
    zone.insert(("_dmarc.author.example", "TXT"), vec!["v=DMARC1; p=reject"]);
    zone
}

/// The mail in anna's mailbox of this number, its lines unfolded.
fn mail(gateway: &Gateway, number: usize) -> String {
    let url = format!("pop3://127.0.0.1:{}/{number}", gateway.port("pop3"));
    let output = await_some("the mail is there", || {
        let output = run("curl", &["-s", "-u", "anna:secret", &url], b"");
        output.status.success().then_some(output)
    });
    text_of(&output)
        .replace("\r\n", "\n")
        .replace("\n ", " ")
        .replace("\n\t", " ")
}

#[test]
fn sender_authentication_is_written_into_the_mail() {
    let server = Server::start(zone());
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!(
        r#"
rules.paths = ["{}"]
rules.network = true
rules.dns_server = "{}"
listeners.smtp.hostname = "gate.example"
listeners.smtp.trusted = ["127.0.0.1"]
listeners.smtp.domains = ["people.example"]
[[listeners.smtp.routes]]
recipients = "*@people.example"
mailbox = "{{user}}"
[[scope]]
path = "/mail"
listeners = ["smtp"]
run = ["/spamcheck"]
[procedure."/spamcheck"]
action = "tag"
"#,
        rules_tests().join("network/senders.cf").display(),
        server.address
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let data = format!("data={}", folder.path().join("gatepost-data").display());
    let arguments = ["user", "add", "anna", "--set", &data];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
    assert!(output.status.success(), "{}", text_of(&output));

    await_some("the server knows the user", || {
        let server = gateway.address("smtp").to_string();
        let until_rcpt = ["--quit-after", "RCPT"];
        let output = swaks(&server, "a@b.example", "anna@people.example", &until_rcpt);
        output.status.success().then_some(())
    });

    let signed = include_str!("../../../gatepost-rules/tests/data/authentication/signed.eml");
    let forged = "Authentication-Results: gate.example; spf=pass; dmarc=pass\n\
        Authentication-Results: far.example; spf=fail\n";
    let send = |from: &str, address: &str, body: String| {
        let file = folder.path().join("message");
        std::fs::write(&file, body).expect("written");
        let client = format!("ADDR={address} NAME=mail.author.example HELO=mail.author.example");
        let data = format!("@{}", file.display());
        let options = ["--xclient", &client, "--data", &data];
        let server = gateway.address("smtp").to_string();
        let output = swaks(&server, from, "anna@people.example", &options);
        assert!(output.status.success(), "{}", text_of(&output));
    };
    send("anna@author.example", "192.0.2.7", signed.to_owned());
    let good = mail(&gateway, 1);
    let ours: Vec<&str> = good
        .lines()
        .filter(|line| line.starts_with("Authentication-Results:"))
        .collect();
    let [results] = ours[..] else {
        panic!("one field, ours: {good}");
    };
    let proven = "Authentication-Results: gate.example; spf=pass \
        smtp.mailfrom=anna@author.example; dkim=pass header.d=author.example header.s=simple; ";
    assert!(results.starts_with(proven), "{results}");
    assert!(
        results.ends_with("; dmarc=pass header.from=author.example"),
        "{results}"
    );

    // From elsewhere, and changed: nothing is proven, and the fields in which the sender claims
    // results are removed.
    send(
        "anna@author.example",
        "198.51.100.1",
        format!("{forged}{}", signed.replace("Hello", "Hallo")),
    );
    let bad = mail(&gateway, 2);
    let disproven = "Authentication-Results: gate.example; spf=fail \
        smtp.mailfrom=anna@author.example; dkim=fail header.d=author.example";
    assert!(bad.contains(disproven), "{bad}");
    assert!(
        bad.contains("; dmarc=fail header.from=author.example\n"),
        "{bad}"
    );
    assert_eq!(
        bad.matches("gate.example; ").count(),
        1,
        "the forged one is gone: {bad}"
    );
    assert!(
        bad.contains("Authentication-Results: far.example; spf=fail"),
        "{bad}"
    );

    // A bounce belongs to the name of its server's greeting.
    send(
        "<>",
        "192.0.2.7",
        "From: x@nowhere.example\nSubject: bounce\n\nx\n".to_owned(),
    );
    let bounce = mail(&gateway, 3);
    let unproven = "Authentication-Results: gate.example; spf=none \
        smtp.helo=mail.author.example; dkim=none; dmarc=none header.from=nowhere.example\n";
    assert!(bounce.contains(unproven), "{bounce}");
}

/// The rules that hit, as spamc prints them.
fn symbols(port: &str) -> Option<String> {
    let output = run(
        "spamc",
        &["-d", "127.0.0.1", "-p", port, "-y"],
        b"Subject: x\n\nword\n",
    );
    output
        .status
        .success()
        .then(|| text_of(&output).trim().to_owned())
}

#[test]
fn rules_are_exchanged_while_mail_is_judged_and_kept_when_the_new_ones_are_broken() {
    const RELOADS: usize = 12;
    let gateway = Gateway::start("rules.paths = [\"rules\"]\n");
    let rules = gateway.folder.join("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let write = |text: &str| std::fs::write(rules.join("a.cf"), text).expect("written");
    let reload = |what: &str| {
        let url = gateway.url("/admin/reload");
        let answer = text_of(&run("curl", &["-s", "-X", "POST", &url], b""));
        assert!(answer.contains(what), "{answer}");
        answer
    };
    write("body SET_0 /word/\nscore SET_0 1\n");
    reload("\"applied\":true");
    let port = gateway.port("spamd");
    let is_over = AtomicBool::new(false);
    let judged = AtomicUsize::new(0);
    let (failed, seen) = std::thread::scope(|scope| {
        let judge = || {
            let (mut failed, mut seen) = (0, BTreeSet::new());
            while !is_over.load(Ordering::Relaxed) {
                if let Some(names) = symbols(&port) {
                    seen.insert(names);
                } else {
                    failed += 1;
                }
                judged.fetch_add(1, Ordering::Relaxed);
            }
            (failed, seen)
        };
        let judges = [scope.spawn(judge), scope.spawn(judge)];
        // At least one message is judged by each set, the first included.
        let await_judged = || {
            let before = judged.load(Ordering::Relaxed);
            await_some("mail is judged", || {
                (judged.load(Ordering::Relaxed) > before + 3).then_some(())
            });
        };
        await_judged();
        for number in 1..=RELOADS {
            write(&format!("body SET_{number} /word/\nscore SET_{number} 1\n"));
            reload("\"applied\":true");
            await_judged();
        }
        write("body SET_X /word/\nscore SET_X 1\nbody BROKEN /(word/\nscore BROKEN 1\n");
        let refused = reload("\"possible\":false");
        assert!(
            refused.contains("a.cf:3") && refused.contains("BROKEN"),
            "{refused}"
        );
        await_judged();
        is_over.store(true, Ordering::Relaxed);
        let both = judges.map(|judge| judge.join().expect("a judge ends"));
        let failed: usize = both.iter().map(|(failed, _)| failed).sum();
        let seen: BTreeSet<String> = both.into_iter().flat_map(|(_, seen)| seen).collect();
        (failed, seen)
    });
    assert_eq!(failed, 0, "requests failed");
    let expected: BTreeSet<String> = (0..=RELOADS)
        .map(|number| format!("SET_{number}"))
        .collect();
    assert!(seen.is_subset(&expected), "{seen:?}");
    assert!(seen.len() > RELOADS, "each set has judged: {seen:?}");
    assert_eq!(
        symbols(&port),
        Some(format!("SET_{RELOADS}")),
        "the last good set stays"
    );
    // The status shows the refused reload until a later reload succeeds.
    let status_of = |path: &str| text_of(&run("curl", &["-s", &gateway.url(path)], b""));
    for path in ["/admin/procedures", "/admin/rules"] {
        let status = status_of(path);
        let document: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let refused = &document["in_force"]["refused"][0];
        assert_eq!(refused["what"], "reload", "{status}");
        let problem = refused["problems"][0].as_str().expect("a problem");
        assert!(problem.contains("a.cf:3"), "{status}");
    }
    let log = gateway.log();
    assert!(
        log.contains("not reloaded: ") && log.contains("a.cf:3"),
        "{log}"
    );
    write("body SET_Y /word/\nscore SET_Y 1\n");
    reload("\"applied\":true");
    assert_eq!(symbols(&port).as_deref(), Some("SET_Y"));
    for path in ["/admin/procedures", "/admin/rules"] {
        let status = status_of(path);
        assert!(status.contains(r#""refused":[]"#), "{status}");
    }
}

#[test]
fn a_list_that_does_not_answer_is_named() {
    let server = Server::start(Zone::new());
    let folder = tempfile::tempdir().expect("a folder");
    let rules = "util_rb_tld example\nurirhssub LISTED list.example. A 127.0.0.2\n\
        body LISTED eval:check_uridnsbl('LISTED')\n";
    std::fs::write(folder.path().join("list.cf"), rules).expect("written");
    let settings = format!(
        "rules.paths = ['{}']\nrules.network = true\nrules.dns_server = '{}'\n\
         rules.network_time_max = '100ms'\nrules.list_unanswered_max = 2\nrules.list_pause = '1h'\n\
         [[scope]]\npath = '/mail'\nrun = ['/spamcheck']\n",
        folder.path().join("list.cf").display(),
        server.address
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let silent = || {
        let url = gateway.url("/admin/rules");
        let output = run("curl", &["--silent", "--fail", &url], b"");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["silent_lists"].clone()
    };
    let port = gateway.port("spamd");
    let judge = |host: &str| {
        let mail = format!("Subject: hello\n\nhttp://{host}/\n");
        let output = run("spamc", &["-d", "127.0.0.1", "-p", &port], mail.as_bytes());
        assert!(output.status.success(), "{}", text_of(&output));
    };
    judge("talks.example");
    assert_eq!(silent(), serde_json::json!([]));
    // Each is another question; the list answers none of them.
    for number in 0..5 {
        judge(&format!("silent{number}.example"));
    }
    let expected = serde_json::json!([{ "list": "list.example", "skipped": 3 }]);
    assert_eq!(silent(), expected);
}
