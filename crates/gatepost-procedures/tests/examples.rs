//! The examples of the documentation, executed.

mod support;

use std::time::Duration;

use gatepost_message::{Action, Message, MessageId, edit};
use gatepost_procedures::Procedures;
use gatepost_settings::ByteSize;
use gatepost_store::{ValueLimits, ValueStore};

use support::{Fixture, judge, mail};

const GREYLIST: &str = include_str!("../../../docs/examples/greylist.luau");
const ATTACHMENTS: &str = include_str!("../../../docs/examples/attachments.luau");
const ALARM: &str = include_str!("../../../docs/examples/alarm.luau");

/// A mail that arrived this many seconds after `first`.
fn later(first: &Message, seconds: u64) -> Message {
    let mut message = first.clone();
    message.id = MessageId::floor_at(first.id.time() + Duration::from_secs(seconds));
    message
}

#[tokio::test]
async fn greylisting_accepts_a_sender_that_tries_again() {
    let fixture = Fixture::new().with("mail/greylist", GREYLIST);
    let fixture = fixture.run(&["/mail/greylist -wait 60"]);
    let procedures = fixture.start();
    let first = mail("Subject: a\r\n\r\nb\r\n");
    let at = async |seconds: u64| judge(&procedures, later(&first, seconds)).await;
    let verdict = at(0).await;
    assert_eq!(verdict.action, Action::Defer, "{}", verdict.reason);
    assert!(
        verdict.reason.contains("in 60 seconds"),
        "{}",
        verdict.reason
    );
    assert_eq!(
        at(10).await.reason,
        "please try again in 50 seconds: this server does not know you yet"
    );
    let taken = at(61).await;
    assert_eq!(taken.action, Action::Accept, "{}", taken.reason);
    let changed = edit::applied(&first, &taken.edits);
    assert!(String::from_utf8_lossy(&changed.body).contains("X-Greylist: delayed 61 seconds\r\n"));
    assert!(at(62).await.edits.is_empty());
    // Another machine of the same network is the same sender; another sender is not.
    let mut neighbour = later(&first, 63);
    neighbour.envelope.peer = gatepost_message::Peer::Address(([192, 0, 2, 99], 25).into());
    assert_eq!(
        judge(&procedures, neighbour.clone()).await.action,
        Action::Accept
    );
    neighbour.envelope.sender = Some("other@example.net".to_owned());
    assert_eq!(
        judge(&procedures, neighbour.clone()).await.action,
        Action::Defer
    );
    neighbour.envelope.user = Some("anna".to_owned());
    assert_eq!(judge(&procedures, neighbour).await.action, Action::Accept);
}

#[tokio::test]
async fn greylisting_defers_nothing_that_it_cannot_remember() {
    let mut fixture = Fixture::new().with("mail/greylist", GREYLIST);
    let limits = ValueLimits {
        count_max: 1,
        bytes_max: ByteSize::mebibytes(1),
    };
    fixture.values = ValueStore::in_memory(limits);
    let procedures = fixture.run(&["/mail/greylist"]).start();
    let mut message = mail("Subject: a\r\n\r\nb\r\n");
    let first = judge(&procedures, message.clone()).await;
    assert_eq!(first.action, Action::Defer, "{}", first.reason);
    message.envelope.sender = Some("other@example.net".to_owned());
    let second = judge(&procedures, message).await;
    assert_eq!(second.action, Action::Accept, "{}", second.reason);
}

async fn with_file(procedures: &Procedures, name: &str, content: &[u8]) -> (Action, String) {
    let mut text = format!(
        "Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\n\r\nhello\r\n--m\r\n\
         Content-Type: application/octet-stream; name=\"{name}\"\r\n\
         Content-Disposition: attachment; filename=\"{name}\"\r\n\r\n"
    )
    .into_bytes();
    text.extend_from_slice(content);
    text.extend_from_slice(b"\r\n--m--\r\n");
    let mut message = mail("");
    message.size = text.len() as u64;
    message.body = text.into();
    let verdict = judge(procedures, message).await;
    (verdict.action, verdict.reason)
}

#[tokio::test]
async fn attachments_are_held_to_the_policy() {
    let fixture = Fixture::new().with("attachments", ATTACHMENTS);
    let fixture = fixture.run(&["/attachments -allow \"iso, img\""]);
    let procedures = fixture.start();
    for (name, content, expected, reported) in [
        ("bill.pdf", &b"%PDF-1.7"[..], Action::Accept, ""),
        ("disk.iso", b"CD001", Action::Accept, ""),
        ("bill.pdf.EXE", b"anything", Action::Reject, "is a program"),
        ("bill.js. .", b"anything", Action::Reject, "is a program"),
        ("sheet.xlsm", b"PK", Action::Reject, "has macros"),
        (
            "bill.pdf",
            b"\x7fELF\x02\x01",
            Action::Reject,
            "under another name",
        ),
        (
            "a.zip",
            b"PK\x03\x04\x14\x00\x01\x00",
            Action::Reject,
            "locked with a password",
        ),
        ("a.zip", b"PK\x03\x04\x14\x00\x00\x00", Action::Accept, ""),
    ] {
        let (action, reason) = with_file(&procedures, name, content).await;
        assert_eq!(action, expected, "{name}: {reason}");
        assert!(reason.contains(reported), "{name}: {reason}");
    }
}

#[tokio::test]
async fn alarms_of_every_device_are_one_kind_of_json() {
    let fixture = Fixture::new().with("alarm", ALARM).run(&["/alarm"]);
    let procedures = fixture.start();
    for (subject, text, device, severity) in [
        (
            "UPS on battery",
            "Device: ups-1\r\nBattery charge: 41 %\r\nLoad: 23.5 %\r\n",
            "ups-1",
            "critical",
        ),
        (
            "Backup job NIGHTLY completed",
            "Host = db2\r\nDuration: 512 s\r\n",
            "db2",
            "ok",
        ),
        (
            "Motion detected",
            "Camera saw something.\r\n",
            "door",
            "warning",
        ),
        ("Cleared: RAID degraded", "System: nas\r\n", "nas", "ok"),
        ("Daily report", "Status: error\r\n", "door", "error"),
        ("Hello", "Nothing is the matter.\r\n", "door", "info"),
    ] {
        let message = mail(&format!(
            "From: Camera <door@example.net>\r\nSubject: {subject}\r\n\r\n{text}"
        ));
        let verdict = judge(&procedures, message).await;
        assert_eq!(verdict.action, Action::Tag, "{subject}: {}", verdict.reason);
        let (payload, kind) = edit::payload(&verdict.edits).expect("a payload");
        assert_eq!(kind, Some("application/json"));
        let alarm: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
        assert_eq!(alarm["severity"], severity, "{subject}: {alarm}");
        assert_eq!(alarm["device"], device, "{subject}: {alarm}");
        assert_eq!(alarm["event"], subject);
        if subject.starts_with("UPS") {
            assert_eq!(alarm["values"]["battery_charge"], 41.0);
            assert_eq!(alarm["values"]["load"], 23.5);
            let published = fixture.notes.0.lock().pop().expect("a publication");
            assert_eq!(published.topic.as_str(), "alarms/critical");
            assert_eq!(published.payload, *payload);
        }
    }
    assert!(fixture.notes.0.lock().is_empty());
}

/// Every name in the types for editors exists, and every existing name is in the types.
#[tokio::test]
async fn the_types_for_editors_are_those_of_the_host() {
    let types = include_str!("../../../docs/gatepost.d.luau");
    let reference = include_str!("../../../docs/procedures-api.md");
    let fields: Vec<&str> = types
        .split("declare class Message")
        .nth(1)
        .and_then(|rest| rest.split("\nend").next())
        .expect("the class")
        .lines()
        .filter_map(|line| line.trim().split_once(':').map(|(name, _)| name))
        .filter(|name| !name.contains(' '))
        .collect();
    assert!(fields.len() >= 24, "{fields:?}");
    let mut source = "return function(message)\n".to_owned();
    for field in &fields {
        // A field that does not exist is an error; one that has no value is not.
        source += &["local _ = message.", field, "\n"].concat();
        assert!(
            reference.contains(&format!("`{field}`")),
            "{field} is not described"
        );
    }
    for name in [
        "message.header",
        "message.contains",
        "message.set_payload",
        "message.headers.get",
        "message.headers.all",
        "message.headers.names",
        "message.headers.add",
        "message.headers.prepend",
        "message.headers.set",
        "message.headers.remove",
        "store.get",
        "store.set",
        "store.add",
        "store.remove",
        "shared.get",
        "dns.a",
        "dns.aaaa",
        "dns.mx",
        "dns.ptr",
        "dns.txt",
        "http.get",
        "http.post",
        "json.encode",
        "json.decode",
        "publish",
        "log",
    ] {
        source += &["assert(", name, " ~= nil, '", name, "')\n"].concat();
        let last = name.rsplit('.').next().expect("a name");
        assert!(
            types.contains(last) && reference.contains(last),
            "{name} is not described"
        );
    }
    source += "end";
    let procedures = Fixture::new().with("all", &source).start();
    let answer = support::call(&procedures, "/all", mail("Subject: a\r\n\r\nb")).await;
    assert_eq!(
        answer.verdict.action,
        Action::Accept,
        "{}",
        answer.verdict.reason
    );
}
