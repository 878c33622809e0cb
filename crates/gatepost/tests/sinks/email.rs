//! ntfy's `X-Email`: a message becomes a mail too, where the settings permit it.

use super::PLAIN;
use super::mail_peer::{MailPeer, Reaction};
use super::support::{Gateway, await_some, run, text_of};

/// The answer to a message for `/alarms`, and its status in the last line.
fn publish(gateway: &Gateway, fields: &[&str]) -> String {
    let url = gateway.url("/alarms");
    let mut arguments = vec!["-s", "-d", "smoke in room 4", "-w", "\n%{http_code}", &url];
    for field in fields {
        arguments.extend(["-H", field]);
    }
    text_of(&run("curl", &arguments, b""))
}

#[test]
fn a_message_is_sent_to_permitted_addresses_only_and_not_too_often() {
    let peer = MailPeer::start(|command, before| match (command, before) {
        (".", 0) => Reaction::Say("451 4.3.0 try again"),
        _ => Reaction::Take,
    });
    let gateway = Gateway::start(&format!(
        "{PLAIN}smarthost.server = \"smtp://{}\"\n[listeners.http.email]\n\
         from = \"gate@gate.example\"\nrecipients = [\"anna@example.org\", \"*@staff.example\"]\n\
         per_hour = 2\n",
        peer.address
    ));
    let fields = [
        "X-Email: anna@example.org",
        "Title: Fire",
        "Tags: fire,hall",
    ];
    let answer = publish(&gateway, &fields);
    assert!(answer.ends_with("\n200"), "{answer}");
    let taken = peer.await_mail(1).remove(0);
    assert_eq!(taken.recipients, ["anna@example.org"]);
    assert_eq!(taken.field("Subject"), "Fire");
    assert!(taken.body().starts_with("smoke in room 4\r\n"), "{taken:?}");
    for (field, more) in [
        ("Email: eve@example.com", "X-Icon: a"),
        ("Email: eve@example.com,anna@example.org", "X-Icon: a"),
        ("Email: yes", "X-Icon: a"),
        ("Email: bert@staff.example", "Delay: 10m"),
    ] {
        let answer = publish(&gateway, &[field, more]);
        assert!(answer.ends_with("\n400"), "{field}: {answer}");
    }
    for (status, address) in [("\n200", "bert"), ("\n429", "carla")] {
        let answer = publish(&gateway, &[&format!("Email: {address}@staff.example")]);
        assert!(answer.ends_with(status), "{answer}");
    }
    peer.await_mail(2);
    let off = Gateway::start(PLAIN);
    let answer = publish(&off, &["Email: anna@example.org"]);
    assert!(
        answer.contains("sends no mail") && answer.ends_with("\n400"),
        "{answer}"
    );
}

/// The output of a command for quarantined messages.
fn quarantine(gateway: &Gateway, arguments: &[&str]) -> String {
    let url = gateway.url("");
    let arguments = [&["quarantine"], arguments, &["--url", &url]].concat();
    text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""))
}

#[test]
fn a_mail_that_is_given_up_is_in_quarantine_and_a_release_sends_it_again() {
    let peer = MailPeer::start(|command, before| match (command, before) {
        ("RCPT TO:<anna@example.org>", 0) => Reaction::Say("550 5.1.1 unknown"),
        _ => Reaction::Take,
    });
    let gateway = Gateway::start(&format!(
        "{PLAIN}smarthost.server = \"smtp://{}\"\n[listeners.http.email]\n\
         from = \"gate@gate.example\"\nrecipients = [\"anna@example.org\"]\n",
        peer.address
    ));
    let answer = publish(&gateway, &["X-Email: anna@example.org", "Title: Fire"]);
    assert!(answer.ends_with("\n200"), "{answer}");
    let id = await_some("the mail is in quarantine", || {
        let listed = quarantine(&gateway, &["list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).ok()?;
        let messages = listed
            .as_array()
            .or_else(|| listed["messages"].as_array())?;
        let message = messages.first()?;
        assert_eq!(message["subject"], "Fire", "{message}");
        assert!(
            message["reason"].as_str()?.contains("550 5.1.1 unknown"),
            "{message}"
        );
        Some(message["id"].as_str()?.to_owned())
    });
    assert_eq!(peer.taken().len(), 0);
    let released = quarantine(&gateway, &["release", &id]);
    assert!(
        released.contains("smarthost anna@example.org"),
        "{released}"
    );
    let taken = peer.await_mail(1).remove(0);
    assert_eq!(taken.recipients, ["anna@example.org"]);
    assert_eq!(taken.field("Subject"), "Fire");
    let left = quarantine(&gateway, &["list", "--json"]);
    assert!(!left.contains(&id), "{left}");
}
