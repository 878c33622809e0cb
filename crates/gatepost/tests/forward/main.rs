//! Forwarding between real mail servers: Postfix on both sides, swaks and Python as clients.

mod connections;
mod release;
#[path = "../support/mod.rs"]
mod support;
mod trust;

use std::path::Path;

use support::authority::Authority;
use support::postfix::Postfix;
use support::{Gateway, await_some, free_port, run, swaks, text_of};

/// A procedure that returns the verdict in the message's field `X-Verdict`.
const JUDGE: &str = r#"
return function(message)
    local asked = message:header("X-Verdict")
    if asked == nil then return "accept" end
    return {action = asked, reason = "asked to " .. asked, tags = {["X-Tag"] = "1"}}
end"#;

/// A gateway that forwards mail for the mailboxes' domain to `next_hop`.
fn gateway(folder: &Path, next_hop: &str, more: &str) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    std::fs::write(procedures.join("judge.luau"), JUDGE).expect("written");
    let settings = format!(
        r#"
{more}
rules.paths = []
listeners.smtp.hostname = "gate.example"
listeners.smtp.domains = ["boxes.example"]
listeners.smtp.verdict_headers.subject = "[SPAM]"
[[listeners.smtp.routes]]
recipients = "*@boxes.example"
forward = "{next_hop}"
[[scope]]
path = "/mail"
listeners = ["smtp"]
run = ["/judge", "/spamcheck"]
"#
    );
    Gateway::start_in(folder, &settings)
}

fn smtp(next_hop: &Postfix) -> String {
    format!("smtp://{}", next_hop.address())
}

fn send(server: &str, to: &str, more: &[&str]) -> String {
    let options = ["--helo", "client.example", "--header", "Subject: hello"];
    text_of(&swaks(
        server,
        "otto@example.org",
        to,
        &[&options, more].concat(),
    ))
}

#[test]
fn the_client_gets_the_reply_of_the_next_hop() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("");
    let gateway = gateway(folder.path(), &smtp(&next_hop), "");
    let server = gateway.address("smtp").to_string();

    let transcript = send(
        &server,
        "anna@boxes.example",
        &["--header", "X-Verdict: tag"],
    );
    assert!(
        transcript.contains("250 2.0.0 Ok: queued as"),
        "{transcript}"
    );
    let mail = next_hop.await_mail("anna", 1);
    assert!(mail[0].contains("\nX-Tag: 1\n"), "{mail:?}");
    assert!(mail[0].contains("\nSubject: [SPAM] hello\n"), "{mail:?}");
    assert!(
        mail[0].contains("\nAuthentication-Results: gate.example; none\n"),
        "{mail:?}"
    );
    assert!(
        mail[0].contains("by gate.example (Gatepost) with ESMTP"),
        "{mail:?}"
    );
    assert!(mail[0].contains("\nX-Spam-Status: No, score="), "{mail:?}");

    // One recipient is refused by the next hop and the other is not.
    let transcript = send(&server, "nobody@boxes.example,bert@boxes.example", &[]);
    assert!(
        transcript.contains("550 5.1.1 <nobody@boxes.example>"),
        "{transcript}"
    );
    assert!(
        transcript.contains("250 2.0.0 Ok: queued as"),
        "{transcript}"
    );
    next_hop.await_mail("bert", 1);

    // A message refused here never gets there, and a foreign recipient is refused.
    let transcript = send(
        &server,
        "bert@boxes.example",
        &["--header", "X-Verdict: reject"],
    );
    assert!(
        transcript.contains("550 5.7.1 asked to reject"),
        "{transcript}"
    );
    let transcript = send(&server, "bert@elsewhere.example", &[]);
    assert!(transcript.contains("550 5.7.1 not a relay"), "{transcript}");
    let transcript = send(&server, "carla@boxes.example", &[]);
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    next_hop.await_mail("carla", 1);
    assert_eq!(next_hop.mailbox("bert").len(), 1);

    let steps = steps_at_next_hop(&gateway, "anna");
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(steps[0].0, "handed_on");
    assert!(
        steps[0].1.starts_with("250 2.0.0 Ok: queued as"),
        "{steps:?}"
    );
}

fn json(gateway: &Gateway, path: &str) -> serde_json::Value {
    let answer = text_of(&run("curl", &["-s", &gateway.url(path)], b""));
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

/// The outcomes of a recipient's mail at the next hop, by the stories of the messages, each with
/// the next hop's text.
fn steps_at_next_hop(gateway: &Gateway, recipient: &str) -> Vec<(String, String)> {
    let found = json(gateway, &format!("/admin/messages?search={recipient}"));
    let stories = found["messages"].as_array().expect("messages");
    let mut steps = Vec::new();
    for story in stories {
        let id = story["id"].as_str().expect("an id");
        let story = json(gateway, &format!("/admin/messages/{id}"));
        for step in story["steps"].as_array().expect("steps") {
            if step["client"] == format!("{recipient}@boxes.example") {
                assert_eq!(step["kind"], "next hop");
                let text = |key: &str| step[key].as_str().expect(key).to_owned();
                steps.push((text("outcome"), text("said")));
            }
        }
    }
    steps
}

#[test]
fn the_story_of_a_refused_mail_contains_the_next_hops_reply() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start(
        "header_checks = regexp:{{/^X-Ask: refuse/ REJECT 5.7.9 not in this house}, \
         {/^X-Ask: defer/ REJECT 4.7.9 come back later}}\n",
    );
    let gateway = gateway(folder.path(), &smtp(&next_hop), "");
    let server = gateway.address("smtp").to_string();
    let mut stories = Vec::new();
    for (recipient, asked, said) in [
        ("anna", "refuse", "550 5.7.9 not in this house"),
        ("bert", "defer", "451 4.7.9 come back later"),
    ] {
        let to = format!("{recipient}@boxes.example");
        let transcript = send(&server, &to, &["--header", &format!("X-Ask: {asked}")]);
        assert!(transcript.contains(&format!("<** {said}")), "{transcript}");
        stories.push((recipient, said.to_owned()));
    }
    for (recipient, said) in stories {
        let steps = steps_at_next_hop(&gateway, recipient);
        assert_eq!(steps, [("refused".to_owned(), said.clone())]);
        let found = json(&gateway, &format!("/admin/messages?search={recipient}"));
        assert_eq!(
            found["messages"][0]["reason"],
            format!("the next hop replied {said}")
        );
    }
}

#[test]
fn mail_stays_with_its_sender_while_the_next_hop_is_unreachable() {
    let folder = tempfile::tempdir().expect("a folder");
    let unused_address = format!("smtp://127.0.0.1:{}", free_port());
    let gateway = gateway(folder.path(), &unused_address, "");
    let transcript = send(
        &gateway.address("smtp").to_string(),
        "anna@boxes.example",
        &[],
    );
    assert!(
        transcript.contains("451 4.4.1 the next hop cannot be reached"),
        "{transcript}"
    );
}

#[test]
fn postfix_asks_before_its_queue_and_names_its_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("smtpd_authorized_xforward_hosts = 127.0.0.0/8");
    let trusted = "listeners.smtp.trusted = [\"127.0.0.1\"]";
    let gateway = gateway(folder.path(), &smtp(&next_hop), trusted);
    let proxy = format!("smtpd_proxy_filter = 127.0.0.1:{}", gateway.port("smtp"));
    let in_front = Postfix::start(&format!(
        "{proxy}\nsmtpd_authorized_xclient_hosts = 127.0.0.0/8"
    ));
    let server = in_front.address().to_string();
    // XCLIENT declares the client of Postfix to be another, as a relay in front of it would.
    let client = ["--xclient", "ADDR=192.0.2.77 HELO=far.example"];
    let transcript = send(&server, "anna@boxes.example", &client);
    assert!(
        transcript.contains("250 2.0.0 Ok: queued as"),
        "{transcript}"
    );
    let mail = next_hop.await_mail("anna", 1);
    assert!(mail[0].contains("[192.0.2.77]"), "{mail:?}");
    next_hop.await_log("client=unknown[192.0.2.77]");
    let refused = send(
        &server,
        "anna@boxes.example",
        &["--header", "X-Verdict: reject"],
    );
    assert!(refused.contains("550 5.7.1 asked to reject"), "{refused}");
}

const MESSAGES: usize = 60;

#[test]
fn no_message_is_lost_when_gatepost_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("");
    let address = smtp(&next_hop);
    let port = free_port();
    let bind = format!("listeners.smtp.bind = [\"127.0.0.1:{port}\"]");
    let first = gateway(folder.path(), &address, &bind);
    let sender = Postfix::start(&format!(
        "virtual_mailbox_domains =\nrelayhost = [127.0.0.1]:{port}"
    ));
    sender.send_numbered(MESSAGES);
    next_hop.await_mail("anna", 3);
    first.kill();
    let _again = gateway(folder.path(), &address, &bind);
    sender.await_numbered(&next_hop, MESSAGES);
}

#[test]
fn no_message_is_lost_when_the_next_hop_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("");
    let gateway = gateway(folder.path(), &smtp(&next_hop), "");
    let sender = Postfix::start(&format!(
        "virtual_mailbox_domains =\nrelayhost = [127.0.0.1]:{}",
        gateway.port("smtp")
    ));
    sender.send_numbered(MESSAGES);
    next_hop.await_mail("anna", 3);
    next_hop.kill();
    next_hop.start_after_kill();
    sender.await_numbered(&next_hop, MESSAGES);
}

#[test]
fn mail_is_forwarded_with_the_encryption_that_the_settings_require() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("hop", "hop.example", &["127.0.0.1", "hop.example"]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let encrypting = Postfix::start(&format!(
        "smtpd_tls_security_level = may\nsmtpd_tls_cert_file = {}\nsmtpd_tls_key_file = {}\n\
         smtpd_tls_received_header = yes",
        path("hop.pem"),
        path("hop.key"),
    ));
    let plain = Postfix::start("");
    let checked = format!(
        "listeners.smtp.forward.tls = \"required\"\nlisteners.smtp.forward.tls_ca = '{}'",
        path("authority.pem"),
    );
    let said = |next_hop: &Postfix, settings: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = gateway(folder.path(), &smtp(next_hop), settings);
        let server = gateway.address("smtp").to_string();
        send(&server, "anna@boxes.example", &[])
    };

    // The issuer of the certificate does not matter unless TLS is required.
    for settings in [
        "",
        &checked,
        &format!("{checked}\nlisteners.smtp.forward.tls_name = 'hop.example'"),
    ] {
        let transcript = said(&encrypting, settings);
        assert!(
            transcript.contains("250 2.0.0 Ok: queued"),
            "{settings}: {transcript}"
        );
    }
    let transcript = said(&encrypting, "listeners.smtp.forward.tls = 'off'");
    assert!(transcript.contains("250 2.0.0 Ok: queued"), "{transcript}");
    let mail = encrypting.await_mail("anna", 4);
    let encrypted = mail
        .iter()
        .filter(|mail| mail.contains("(using TLSv1.3 with cipher"))
        .count();
    assert_eq!(encrypted, 3, "{mail:?}");

    let other_name = format!("{checked}\nlisteners.smtp.forward.tls_name = 'other.example'");
    let stranger = "listeners.smtp.forward.tls = 'required'";
    for (next_hop, settings, refusal) in [
        (&encrypting, other_name.as_str(), "451 4.7.5 TLS with"),
        (&encrypting, stranger, "451 4.7.5 TLS with"),
        (
            &plain,
            &checked,
            "451 4.7.5 127.0.0.1 does not offer STARTTLS, which forward.tls requires",
        ),
    ] {
        let transcript = said(next_hop, settings);
        assert!(transcript.contains(refusal), "{settings}: {transcript}");
    }
    assert_eq!(encrypting.mailbox("anna").len(), 4);
    assert!(plain.mailbox("anna").is_empty());
}

#[test]
fn mail_is_forwarded_by_lmtp() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("lmtp");
    let kept = folder.path().join("kept");
    let listen = format!("unix:{}", socket.display());
    // Keeps each message in a file and refuses nothing.
    let mut next_hop = support::command("smtp-sink")
        .args(["-L", "-u", "root", "-D"])
        .arg(&kept)
        .args([listen.as_str(), "10"])
        .spawn()
        .expect("smtp-sink");
    await_some("smtp-sink listens", || socket.exists().then_some(()));
    let gateway = gateway(folder.path(), &format!("lmtp://{listen}"), "");
    let server = gateway.address("smtp").to_string();
    let transcript = send(&server, "anna@boxes.example,bert@boxes.example", &[]);
    next_hop.kill().expect("it runs");
    next_hop.wait().expect("it ends");
    assert!(transcript.contains("<-  250 2."), "{transcript}");
    let mail = std::fs::read_to_string(&kept).expect("a message");
    for part in [
        "X-Client-Proto: LMTP",
        "X-Rcpt-Args: <anna@boxes.example>",
        "X-Rcpt-Args: <bert@boxes.example>",
        "Subject: hello",
        "X-Spam-Status: No",
    ] {
        assert!(mail.contains(part), "{part} is missing in {mail}");
    }
}

#[test]
fn no_unauthenticated_client_relays_through_a_trusting_next_hop() {
    let folder = tempfile::tempdir().expect("a folder");
    // It takes mail to anywhere from this machine, and follows routes inside addresses.
    let next_hop = Postfix::start(
        "mynetworks = 127.0.0.0/8\n\
         smtpd_relay_restrictions = permit_mynetworks, reject\n\
         swap_bangpath = yes\nallow_percent_hack = yes\nresolve_dequoted_address = yes\n\
         default_transport = hold:\n",
    );
    let settings = r#"
rules.paths = []
listeners.smtp.domains = ["boxes.example"]
"#;
    let route = format!(
        "[[listeners.smtp.routes]]\nrecipients = \"*\"\nforward = \"{}\"\n",
        smtp(&next_hop)
    );
    let gateway = Gateway::start_in(folder.path(), &[settings, &route].concat());
    let server = gateway.address("smtp").to_string();
    for recipient in [
        "victim@[203.0.113.5]",
        "victim%far.example@boxes.example",
        "far.example!victim@boxes.example",
        "\"victim@far.example\"@boxes.example",
        "@boxes.example:victim@far.example",
        "@far.example:anna@boxes.example",
    ] {
        let said = send(&server, recipient, &[]);
        assert!(
            said.contains("<** 550 5.7.1 not a relay"),
            "{recipient}: {said}"
        );
    }
    let queue = text_of(&next_hop.program("postqueue", &["-p"]));
    assert!(queue.contains("Mail queue is empty"), "{queue}");
    // Ordinary recipients still pass.
    let said = send(&server, "anna@boxes.example", &[]);
    assert!(said.contains("250 2.0.0 Ok: queued as"), "{said}");
    next_hop.await_mail("anna", 1);
}
