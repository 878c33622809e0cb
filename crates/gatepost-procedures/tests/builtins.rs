//! The built-in procedures, as scopes run them.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use gatepost_message::{Action, Peer, edit};
use gatepost_procedures::{DedupeSettings, ProblemSeverity, ProcedureCallError};
use gatepost_settings::{Bind, Period};

use support::{Fixture, PATIENCE, judge, mail, payload, until};

#[tokio::test]
async fn members_of_a_scope_take_arguments() {
    let fixture = Fixture::new()
        .with(
            "who",
            r#"return function(m, arguments)
                return "tag", arguments.user .. " " .. arguments.list
            end"#,
        )
        .run(&[
            "/sizecheck -max 10B",
            "/who -user anna -list \"all of them\"",
        ]);
    let procedures = fixture.start();
    assert_eq!(
        judge(&procedures, payload("a", "0123456789")).await.reason,
        "anna all of them"
    );
    let verdict = judge(&procedures, payload("a", "0123456789x")).await;
    assert_eq!(
        (verdict.action, verdict.procedure.as_str()),
        (Action::Reject, "/sizecheck")
    );
}

#[test]
fn mistaken_members_are_named() {
    let problems = |member: &str| {
        let problems = Fixture::new()
            .run(&[member])
            .try_start()
            .err()
            .expect(member);
        assert!(
            problems
                .iter()
                .all(|one| one.severity == ProblemSeverity::Error)
        );
        problems[0].to_string()
    };
    for (member, results) in [
        (
            "/sizecheck -max much",
            "scope.0.run: '/sizecheck -max much': -max much: ",
        ),
        ("/sizecheck -most 1MB", "unknown field `most`"),
        ("/sizecheck max", "write -name value"),
        ("/noop -a b", "the procedure takes no arguments"),
        ("/ratelimit -by weather", "unknown variant `weather`"),
        (
            "/ratelimit -messages 0",
            "messages and per must be greater than 0",
        ),
        (
            "/jsoncheck -schema /no/such/file",
            "/no/such/file: No such file",
        ),
        ("/nothing -a b", "there is no procedure /nothing"),
    ] {
        let problem = problems(member);
        assert!(problem.contains(results), "{problem}");
    }
}

#[tokio::test]
async fn rates_are_limited_by_what_is_set_and_outlive_a_reload() {
    let fixture = Fixture::new().run(&[
        "/ratelimit -by topic -messages 3 -per 1h",
        "/ratelimit -by address -messages 5 -per 1h -action reject",
    ]);
    let procedures = fixture.start();
    for number in 0..3 {
        assert_eq!(
            judge(&procedures, payload("a", "x")).await.action,
            Action::Accept,
            "{number}"
        );
    }
    procedures
        .reload(
            fixture.configuration.clone(),
            Arc::new(gatepost_rules::RuleSet::embedded()),
        )
        .expect("reloaded");
    let verdict = judge(&procedures, payload("a", "x")).await;
    assert_eq!(verdict.action, Action::Defer);
    assert_eq!(
        verdict.reason,
        "more than 3 messages in 1h from topic a; try again in 1200 s"
    );
    assert_eq!(
        judge(&procedures, payload("b", "x")).await.action,
        Action::Accept
    );
    for number in 0..5 {
        let mut message = mail("x");
        message.topic = gatepost_message::Topic::new(&format!("t{number}")).ok();
        assert_eq!(judge(&procedures, message).await.action, Action::Accept);
    }
    let mut message = mail("x");
    message.topic = gatepost_message::Topic::new("t9").ok();
    let verdict = judge(&procedures, message).await;
    assert_eq!(verdict.action, Action::Reject, "{}", verdict.reason);
    assert!(
        verdict.reason.contains("from 192.0.2.1"),
        "{}",
        verdict.reason
    );
}

#[tokio::test]
async fn payloads_are_held_to_their_schema() {
    let fixture = Fixture::new();
    let file = fixture.folder.path().join("reading.json");
    std::fs::write(&file, r#"{"type": "object", "required": ["celsius"]}"#).expect("written");
    let member = format!("/jsoncheck -schema {}", file.display());
    let procedures = fixture.run(&[&member]).start();
    let good = judge(&procedures, payload("a", r#"{"celsius": 1}"#)).await;
    assert_eq!(good.action, Action::Accept, "{}", good.reason);
    let bad = judge(&procedures, payload("a", r#"{"kelvin": 1}"#)).await;
    assert_eq!(
        (bad.action, bad.procedure.as_str()),
        (Action::Reject, "/jsoncheck")
    );
    assert!(
        bad.reason.contains("reading.json: at the top: \"celsius\""),
        "{}",
        bad.reason
    );
    assert_eq!(
        judge(&procedures, mail("no JSON")).await.action,
        Action::Accept
    );
}

#[tokio::test]
async fn a_storm_of_alarms_is_two_messages_and_a_count() {
    let mut fixture = Fixture::new().run(&["/dedupe"]);
    fixture.configuration.table.dedupe = DedupeSettings {
        numbers: false,
        window: Period::milliseconds(1500),
        ..DedupeSettings::default()
    };
    let procedures = fixture.start();
    let first = judge(&procedures, payload("alarms/load", "load is 91")).await;
    assert_eq!(first.action, Action::Accept);
    for load in 92..=99 {
        let one = judge(
            &procedures,
            payload("alarms/load", &format!("load is {load}")),
        )
        .await;
        assert_eq!(one.action, Action::Drop, "{load}: {}", one.reason);
    }
    assert_eq!(
        judge(&procedures, payload("alarms/load", "disk is full"))
            .await
            .action,
        Action::Accept
    );
    assert_eq!(
        judge(&procedures, payload("alarms/other", "load is 91"))
            .await
            .action,
        Action::Accept
    );
    let summary = until("a summary", || fixture.notes.0.lock().pop());
    assert_eq!(summary.topic.as_str(), "alarms/load");
    assert_eq!(&summary.payload[..], b"load is 99");
    let properties = summary.properties.expect("properties");
    assert_eq!(properties.user_property("repeated"), Some("8"));
    // A new window.
    assert_eq!(
        judge(&procedures, payload("alarms/load", "load is 91"))
            .await
            .action,
        Action::Accept
    );
    assert!(
        fixture.notes.0.lock().is_empty(),
        "one summary for one storm"
    );
}

#[tokio::test]
async fn unknown_senders_are_deferred_and_users_and_payloads_are_not() {
    let fixture = Fixture::new().run(&["/greylist -spf false"]);
    let procedures = fixture.start();
    let text = "Subject: a\r\n\r\nhello\r\n";
    let deferred = judge(&procedures, mail(text)).await;
    assert_eq!(
        (deferred.action, deferred.reason.as_str()),
        (Action::Defer, "greylisted: try again in 300 s")
    );
    let mut of_user = mail(text);
    of_user.envelope.user = Some("bert".to_owned());
    let mut local = mail(text);
    local.envelope.peer = Peer::Local;
    for exempt in [of_user, local, payload("a", "x")] {
        let verdict = judge(&procedures, exempt).await;
        assert_eq!(verdict.action, Action::Accept, "{}", verdict.reason);
    }
    assert_eq!(procedures.status().greylist["first"], 1);
    let mistake = Fixture::new().run(&["/greylist -delay 3d"]).try_start();
    let problems = mistake.err().expect("refused");
    let text = problems[0].to_string();
    assert!(text.contains("retry_within must be longer"), "{text}");
}

/// The harmless file by which scanners are tried out, in two pieces, so that no scanner finds it
/// in the source.
const EICAR: [&str; 2] = [
    r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-",
    "ANTIVIRUS-TEST-FILE!$H+H*",
];

/// Implements clamd's INSTREAM as documented: finds the EICAR file, and refuses streams over
/// 100,000 bytes while they arrive.
fn clamd() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut command = [0; 10];
            stream.read_exact(&mut command).expect("a command");
            assert_eq!(&command, b"zINSTREAM\0");
            let mut whole = Vec::new();
            let answer = loop {
                let mut length = [0; 4];
                stream.read_exact(&mut length).expect("a length");
                let length = u32::from_be_bytes(length) as usize;
                if length == 0 {
                    let found = whole
                        .windows(68)
                        .any(|part| part == EICAR.concat().as_bytes());
                    break if found {
                        "stream: Eicar-Signature FOUND\0"
                    } else {
                        "stream: OK\0"
                    };
                }
                let start = whole.len();
                whole.resize(start + length, 0);
                stream.read_exact(&mut whole[start..]).expect("a piece");
                if whole.len() > 100_000 {
                    break "INSTREAM size limit exceeded. ERROR\0";
                }
            };
            stream.write_all(answer.as_bytes()).expect("answered");
        }
    });
    address
}

#[tokio::test]
async fn infected_mail_is_rejected_and_mail_that_clamd_cannot_scan_is_deferred() {
    let mut fixture = Fixture::new().run(&["/viruscheck"]);
    fixture.configuration.table.viruscheck.server = Bind::Tcp(clamd());
    let procedures = fixture.start();
    assert_eq!(
        judge(&procedures, mail("Subject: a\r\n\r\nclean\r\n"))
            .await
            .action,
        Action::Accept
    );
    let infected = judge(&procedures, mail(&format!("\r\n{}", EICAR.concat()))).await;
    assert_eq!(
        (infected.action, infected.reason.as_str()),
        (Action::Reject, "virus found: Eicar-Signature")
    );
    assert_eq!(
        infected.tags,
        [("X-Virus".to_owned(), "Eicar-Signature".to_owned())]
    );
    let large = judge(&procedures, mail(&"x".repeat(200_000))).await;
    assert_eq!(
        (large.action, large.procedure.as_str()),
        (Action::Defer, "/viruscheck")
    );

    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a socket")
        .local_addr()
        .expect("an address");
    fixture.configuration.table.viruscheck.server = Bind::Tcp(free);
    assert_eq!(
        judge(&fixture.start(), mail("x")).await.action,
        Action::Defer
    );
    fixture.configuration.table.viruscheck.on_error = Action::Tag;
    assert_eq!(judge(&fixture.start(), mail("x")).await.action, Action::Tag);
}

#[tokio::test]
async fn people_are_answered_once_and_programs_never() {
    let mut fixture = Fixture::new().run(&["/autoreply"]);
    let mails = fixture.mails();
    fixture.configuration.table.autoreply.text = "I am away.\n.\nBack on Monday.".to_owned();
    let procedures = fixture.start();
    let head = "To: anna@example.org\r\nMessage-ID: <1@example.net>\r\n\
        Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n";
    let automatic = format!("{head}Auto-Submitted: auto-generated\r\n\r\nhi\r\n");
    let plain = format!("{head}\r\nhi\r\n");
    for text in [&automatic, &plain, &plain] {
        assert_eq!(judge(&procedures, mail(text)).await.action, Action::Accept);
    }
    let sent = mails.recv_timeout(PATIENCE).expect("a reply");
    assert_eq!(
        (sent.sender.as_str(), &sent.recipients[..]),
        ("", &["bert@example.net".to_owned()][..])
    );
    let text = sent.text;
    for part in [
        "From: <anna@example.org>\r\n",
        "To: <bert@example.net>\r\n",
        "Auto-Submitted: auto-replied\r\n",
        "In-Reply-To: <1@example.net>\r\n",
        "Subject: =?utf-8?B?",
        "\r\n\r\nI am away.\r\n.\r\nBack on Monday.\r\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // Another sender is answered, which shows that the second mail was not.
    let mut other = mail(&plain);
    other.envelope.sender = Some("carl@example.net".to_owned());
    judge(&procedures, other).await;
    let sent = mails.recv_timeout(PATIENCE).expect("a reply");
    assert_eq!(sent.recipients, ["carl@example.net"]);
}

#[tokio::test]
async fn no_more_senders_are_answered_than_are_remembered() {
    let mut fixture = Fixture::new().run(&["/autoreply"]);
    let mails = fixture.mails();
    fixture.configuration.table.autoreply.senders_max = 2;
    let procedures = fixture.start();
    let before = fixture.values.count();
    for number in 0..5 {
        let mut message = mail("To: anna@example.org\r\n\r\nhi\r\n");
        message.envelope.sender = Some(format!("bert{number}@example.net"));
        let verdict = judge(&procedures, message).await;
        assert_eq!(verdict.action, Action::Accept, "{}", verdict.reason);
    }
    assert_eq!(mails.try_iter().count(), 2);
    assert_eq!(fixture.values.count(), before + 2);
}

#[tokio::test]
async fn a_signature_is_placed_below_the_text() {
    let fixture = Fixture::new().run(&["/signature -text \"Anna, Office\""]);
    let procedures = fixture.start();
    let message = mail("Subject: a\r\n\r\nhello\r\n");
    let verdict = judge(&procedures, message.clone()).await;
    let signed = edit::applied(&message, &verdict.edits);
    assert_eq!(
        signed.body,
        "Subject: a\r\n\r\nhello\r\n-- \r\nAnna, Office\r\n"
    );
    assert!(
        judge(&procedures, signed).await.edits.is_empty(),
        "only once"
    );
    assert!(judge(&procedures, payload("a", "x")).await.edits.is_empty());
}

#[tokio::test]
async fn the_status_is_mailed_on_its_schedule() {
    let mut fixture = Fixture::new();
    let mails = fixture.mails();
    let status = &mut fixture.configuration.table.status;
    status.mail_to = vec!["admin@example.org".to_owned()];
    status.every = Period::milliseconds(50);
    let _procedures = fixture.start();
    let sent = mails.recv_timeout(PATIENCE).expect("a report");
    assert_eq!(sent.sender, "gatepost@localhost");
    assert_eq!(sent.recipients, ["admin@example.org"]);
    let text = sent.text;
    assert!(
        text.contains("last 24 hours") && text.contains("/spamcheck"),
        "{text}"
    );
}

#[test]
fn a_judge_continues_the_chain_after_a_scan_and_a_full_queue_is_reported_at_once() {
    let mut fixture = Fixture::new();
    fixture.configuration.procedures.judges = 1;
    fixture.configuration.procedures.queue_max = 1;
    let procedures = fixture.start();
    let message = || Arc::new(mail("Subject: hello\r\n\r\nhello\r\n"));
    let (results, received) = channel();
    let (end, ended) = channel::<()>();
    let begun = results.clone();
    procedures.scan_then(message(), move |report| {
        let thread = thread::current().name().map(str::to_owned);
        begun.send((thread, report.is_ok())).expect("awaited");
        let _ = ended.recv();
    });
    let first = received.recv_timeout(PATIENCE).expect("a judge has time");
    assert_eq!(first, (Some("judge-0".to_owned()), true));
    // One is scanned still, one waits.
    let waiting = results.clone();
    procedures.scan_then(message(), move |report| {
        waiting.send((None, report.is_ok())).expect("awaited");
    });
    procedures.scan_then(message(), move |report| {
        let is_busy = report.err() == Some(ProcedureCallError::Busy);
        results.send((None, !is_busy)).expect("awaited");
    });
    assert_eq!(received.try_recv().ok(), Some((None, false)));
    end.send(()).expect("it waits");
    let second = received.recv_timeout(PATIENCE).expect("the judge has time");
    assert_eq!(second, (None, true));
}
