//! Procedures in use: their changes reach every receiver, they are listed and tried, and another
//! config is tried on received messages.

#[allow(dead_code)] // The tests of the rules use more of it.
#[path = "../../../gatepost-rules/tests/network/server.rs"]
mod dns;
#[path = "../support/mod.rs"]
mod support;

mod depth;
mod https;
mod page_bounds;
mod page_files;
mod page_forms;
mod pages;
mod rules;

use std::path::Path;

use support::{Client, Gateway, await_some, post, run, swaks, text_of};

/// The embedded rules are loaded faster than those of the system.
const SETTINGS: &str = r#"
listeners.smtp.payload = "raw"
rules.paths = []

[[scope]]
path = "/all"
listeners = ["smtp", "http", "spamd", "call"]
run = ["/sizecheck", "/mark -word odd"]
"#;

/// Changes a field and the body, and counts.
const MARK: &str = r#"
return function(message, arguments)
    message.headers:set("X-Marked", `{arguments.word} {store.add("seen", 1, 3600)}`)
    if message.format == "mail" then
        message.headers:set("Subject", "[marked] " .. message.subject)
        message.body = "rewritten\r\n"
    else
        message.body = message.body:upper()
        publish("copies", message.body)
    end
    return "accept"
end"#;

fn start() -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    std::fs::write(folder.path().join("procedures/mark.luau"), MARK).expect("written");
    (Gateway::start_in(folder.path(), SETTINGS), folder)
}

/// Runs a subcommand in the gateway's folder; returns its output and its exit code.
fn gatepost(folder: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("gatepost runs");
    (text_of(&output), output.status.code())
}

fn send(gateway: &Gateway, body: &str) -> String {
    let server = gateway.address("smtp").to_string();
    let options = ["--header", "Subject: hello", "--body", body];
    let (from, to) = ("anna@example.org", "alarms+fire@localhost");
    text_of(&swaks(&server, from, to, &options))
}

#[test]
fn changes_by_procedures_reach_all_recipients() {
    let (gateway, folder) = start();
    let mut subscriber = Client::subscribe(&gateway, "#", "%t|%p|%P");
    assert!(send(&gateway, "original").contains("250 2.0.0"));
    subscriber.await_line("Subject: [marked] hello");
    subscriber.await_line("X-Marked: odd 1");
    subscriber.await_line("rewritten");
    assert!(post(&gateway, "web", "quiet").starts_with("HTTP/1.1 200 "));
    let line = subscriber.await_line("web|QUIET|");
    assert!(line.contains("X-Marked:odd 2"), "{line}");
    subscriber.await_line("copies|QUIET");

    let mail = b"Subject: hello\r\n\r\noriginal\r\n";
    let port = gateway.port("spamd");
    let processed = text_of(&run("spamc", &["-d", "127.0.0.1", "-p", &port], mail));
    assert!(
        processed.contains("[marked] hello") && processed.contains("rewritten"),
        "{processed}"
    );

    // The call protocol, as the thin client speaks it for XMail.
    let call = "CALL/1 /all\nsize: 28\nwant: message\n\nSubject: hello\r\n\r\noriginal\r\n";
    let stream = support::send_raw(gateway.address("call"), call.as_bytes());
    let answer = String::from_utf8_lossy(&stream);
    assert!(answer.contains("DONE accept\n"), "{answer}");
    assert!(answer.contains("Subject: [marked] hello\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nrewritten\r\n"), "{answer}");

    // Values outlive the server.
    assert_eq!(gateway.terminate(), Some(0), "a clean end");
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    let mut subscriber = Client::subscribe(&gateway, "web", "%t|%p|%P");
    post(&gateway, "web", "again");
    let line = subscriber.await_line("web|AGAIN|");
    assert!(line.contains("X-Marked:odd 5"), "{line}");
}

#[test]
fn procedures_are_listed_and_tried_out_without_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::create_dir(folder.join("procedures")).expect("a folder");
    std::fs::write(folder.join("procedures/mark.luau"), MARK).expect("written");
    std::fs::write(folder.join("gatepost.toml"), SETTINGS).expect("written");
    std::fs::write(folder.join("mail"), "Subject: hello\r\n\r\noriginal\r\n").expect("written");
    let (list, code) = gatepost(folder, &["procedures", "list", "--config", "gatepost.toml"]);
    assert_eq!(code, Some(0), "{list}");
    let line = |path: &str| {
        list.lines()
            .find(|line| line.starts_with(path))
            .expect(path)
            .to_owned()
    };
    assert!(
        line("/mark ").contains("procedures/mark.luau") && line("/mark ").ends_with("/all"),
        "{list}"
    );
    assert!(line("/viruscheck ").ends_with("built in"), "{list}");

    let (shown, code) = gatepost(
        folder,
        &[
            "procedures",
            "test",
            "procedures/mark.luau",
            "mail",
            "-word",
            "strange",
        ],
    );
    assert_eq!(code, Some(0), "{shown}");
    for part in [
        "verdict    accept",
        "change     last field X-Marked: strange 1",
        "change     field Subject (1) is now: [marked] hello",
        "change     body of 11 bytes: rewritten\\r\\n",
        "time       ",
        "steps      ",
        "memory     ",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let (shown, _) = gatepost(
        folder,
        &[
            "procedures",
            "test",
            "/all",
            "mail",
            "--topic",
            "a/b",
            "--config",
            "gatepost.toml",
        ],
    );
    assert!(
        shown.contains("publish    copies SUBJECT: HELLO"),
        "{shown}"
    );
    assert!(
        !folder.join("gatepost-data").exists(),
        "a trial keeps nothing"
    );

    // Mistakes name file and line.
    std::fs::write(
        folder.join("broken.luau"),
        "return function(m)\n  return ({}).at.all\nend\n",
    )
    .expect("written");
    let (shown, _) = gatepost(folder, &["procedures", "test", "broken.luau", "mail"]);
    assert!(
        shown.contains("broken.luau:2: ") && shown.contains("verdict    defer"),
        "{shown}"
    );
    std::fs::write(
        folder.join("broken.luau"),
        "return function(m)\n  retrn\nend\n",
    )
    .expect("written");
    let (shown, code) = gatepost(folder, &["procedures", "test", "broken.luau", "mail"]);
    assert_eq!(code, Some(78), "{shown}");
    assert!(shown.contains("broken.luau:"), "{shown}");
    let (shown, code) = gatepost(folder, &["procedures", "test", "/none", "mail"]);
    assert_eq!(code, Some(78), "{shown}");
    let (types, _) = gatepost(folder, &["procedures", "types"]);
    assert!(types.contains("declare class Message"), "{types}");
}

#[test]
fn a_replay_shows_whose_verdict_would_change() {
    let (gateway, folder) = start();
    for body in ["short", "a body that is a good deal longer", "tiny"] {
        assert!(post(&gateway, "web", body).starts_with("HTTP/1.1 200 "));
    }
    assert!(send(&gateway, "mail").contains("250 2.0.0"));
    let config = SETTINGS
        .replace("\"/sizecheck\"", "\"/sizecheck -max 20B\"")
        .replace("\"smtp\", ", "");
    std::fs::write(folder.path().join("new.toml"), config).expect("written");
    // Originals are written with a delay; the server keeps running.
    let shown = await_some("all are kept", || {
        let arguments = ["check", "--config", "new.toml", "--replay", "100"];
        let (shown, code) = gatepost(folder.path(), &arguments);
        assert_eq!(code, Some(0), "{shown}");
        shown
            .contains("replayed 4 stored messages")
            .then_some(shown)
    });
    assert!(
        shown.contains("1 would get a different verdict, 3 the same"),
        "{shown}"
    );
    assert!(shown.contains(" http accept -> reject  from "), "{shown}");
    assert!(
        shown.contains("now: /sizecheck: the message has 33 bytes, more than the maximum of 20B"),
        "{shown}"
    );
    let (same, _) = gatepost(
        folder.path(),
        &["check", "--config", "gatepost.toml", "--replay", "2"],
    );
    assert!(
        same.contains("replayed 2 stored messages: 0 would get a different verdict, 2 the same"),
        "{same}"
    );
    // The server saw nothing of it.
    assert!(post(&gateway, "web", "x").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_replay_uses_learned_data_and_does_not_change_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    std::fs::create_dir(folder.path().join("rules")).expect("a folder");
    write(
        "rules/learned.cf",
        "bayes_min_spam_num 1\nbayes_min_ham_num 1\nbayes_auto_learn 0\n\
         body BAYES_99 eval:check_bayes('0.90', '1.00')\nscore BAYES_99 10\n",
    );
    let gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = ['rules']\n[[scope]]\npath = '/mail'\nlisteners = ['smtp']\n\
         run = ['/spamcheck']\n",
    );
    let body = "lottery winners collect jackpot money";
    assert!(send(&gateway, body).contains("250 2.0.0"));
    let replayed = |verdicts: &str| {
        let arguments = ["check", "--config", "gatepost.toml", "--replay", "9"];
        await_some(verdicts, || {
            let (shown, _) = gatepost(folder.path(), &arguments);
            shown.contains(verdicts).then_some(shown)
        })
    };
    replayed("replayed 1 stored messages: 0 would get a different verdict");

    write("spam.eml", &format!("Subject: win\n\n{body}\n"));
    write("ham.eml", "Subject: tea\n\nshall we meet on thursday\n");
    for (class, file) in [("--spam", "spam.eml"), ("--ham", "ham.eml")] {
        let (output, code) = gatepost(folder.path(), &["learn", class, file]);
        assert_eq!(code, Some(0), "{output}");
    }
    let shown = replayed("replayed 1 stored messages: 1 would get a different verdict");
    assert!(shown.contains(" smtp accept -> reject "), "{shown}");
    assert!(shown.contains("BAYES_99"), "{shown}");
}

#[test]
fn a_procedure_dropped_in_is_used_and_one_that_is_broken_is_not() {
    let (gateway, folder) = start();
    let file = folder.path().join("procedures/mark.luau");
    let draft = folder.path().join("draft");
    let install = |source: &str| {
        std::fs::write(&draft, source).expect("written");
        std::fs::rename(&draft, &file).expect("renamed");
    };
    install("return function() return \"reject\", \"new\" end");
    await_some("the new one judges", || {
        post(&gateway, "web", "x").contains("\"new\"").then_some(())
    });
    install("return function() retrn end");
    await_some("the log names it", || {
        let log = gateway.log();
        (log.contains("mark.luau:1") && log.contains("previous procedures remain in use"))
            .then_some(())
    });
    assert!(
        post(&gateway, "web", "x").contains("\"new\""),
        "the last good one stays"
    );
}
