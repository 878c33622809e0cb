//! ntfy's `X-Email`: a message becomes a mail too, where the settings permit it.

use super::PLAIN;
use super::mail_peer::{MailPeer, Reaction};
use super::support::{Gateway, run, text_of};

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
