//! The rights of mail over SMTP and LMTP. LMTP has no login, so all of its mail has the rights of
//! `anonymous`, whatever its client says about its sender.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::support::{Client, Gateway, add_user, await_some, run, send_raw_greeted, text_of};

const SETTINGS: &str = r#"
rules.paths = []
access.default = "deny"
listeners.smtp.domains = ["boxes.example"]
listeners.smtp.routes = [{ recipients = "*@boxes.example", mailbox = "{user}" }]
listeners.smtp.sender_login = "envelope-and-from"
listeners.lmtp.routes = [{ recipients = "*@boxes.example", mailbox = "{user}" }]
"#;

/// The listener and the name that swaks has for its protocol.
const PROTOCOLS: [(&str, &str); 2] = [("smtp", "ESMTP"), ("lmtp", "LMTP")];

fn user(gateway: &Gateway, arguments: &[&str]) {
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let arguments = [&["user"], arguments, &["--set", &data]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Sends one mail from anna's address; returns the conversation.
fn send(gateway: &Gateway, (listener, protocol): (&str, &str), to: &str, more: &[&str]) -> String {
    let server = gateway.address(listener).to_string();
    let envelope = [
        "--server",
        &server,
        "--from",
        "anna@boxes.example",
        "--to",
        to,
    ];
    let arguments = [&envelope[..], &["--protocol", protocol], more].concat();
    text_of(&run("swaks", &arguments, b""))
}

fn gateway() -> Gateway {
    let gateway = Gateway::start(SETTINGS);
    let added = add_user(&gateway, "anna", "secret of anna", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let login = ["--auth", "PLAIN", "--auth-user", "anna"];
    let login = [&login[..], &["--auth-password", "secret of anna"]].concat();
    // Until it knows a user, it serves every client on this machine.
    await_some("the server knows anna", || {
        let said = send(&gateway, PROTOCOLS[0], "home+door@localhost", &[]);
        let knows = said.contains("550 5.7.1 you may not publish");
        let said = send(&gateway, PROTOCOLS[0], "anna@boxes.example", &login);
        (knows && said.contains("235 ")).then_some(())
    });
    gateway
}

#[test]
fn mail_without_a_login_has_the_rights_of_anonymous_over_lmtp_too() {
    let gateway = gateway();
    for protocol in PROTOCOLS {
        let said = send(&gateway, protocol, "home+door@localhost", &[]);
        assert!(said.contains("550 5.7.1 you may not publish"), "{said}");
        // A mailbox belongs to a user that exists, in every spelling of the name.
        let said = send(&gateway, protocol, "bert@boxes.example", &[]);
        assert!(said.contains("550 5.1.1 no such user here"), "{said}");
        let said = send(&gateway, protocol, "Anna+lists@boxes.example", &[]);
        assert!(!said.contains("<** "), "{said}");
    }
    user(&gateway, &["grant", "anonymous", "publish", "home/door"]);
    user(&gateway, &["grant", "anna", "subscribe,publish", "home/#"]);
    let port = gateway.port("mqtt");
    let mut subscriber = await_some("anna subscribes", || {
        let login = ["-u", "anna", "-P", "secret of anna", "-p", &port];
        let more = ["-d", "-V", "5", "-t", "home/#"];
        let mut client = Client::start("mosquitto_sub", &[&login[..], &more].concat());
        let line = client.await_line("Subscribed");
        line.trim_end().ends_with(": 0").then_some(client)
    });
    for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
        let body = format!("mail number {number}");
        let said = send(
            &gateway,
            protocol,
            "home+door@localhost",
            &["--body", &body],
        );
        assert!(!said.contains("<** "), "{said}");
        subscriber.await_line(&body);
        // A right of anna's own is not one of mail with her address.
        let said = send(&gateway, protocol, "home+cellar@localhost", &[]);
        assert!(said.contains("550 5.7.1 you may not publish"), "{said}");
    }
}

#[test]
fn no_command_of_an_lmtp_client_is_a_login() {
    let gateway = gateway();
    user(&gateway, &["grant", "anna", "publish", "home/#"]);
    let greeting = send_raw_greeted(&gateway, "lmtp", b"", b"LHLO x\r\nQUIT\r\n");
    let greeting = String::from_utf8_lossy(&greeting).into_owned();
    assert!(
        greeting.contains("250") && !greeting.contains("AUTH"),
        "{greeting}"
    );
    let plain = BASE64.encode("\0anna\0secret of anna");
    for claim in [
        format!("AUTH PLAIN {plain}\r\nMAIL FROM:<anna@boxes.example>"),
        "MAIL FROM:<anna@boxes.example> AUTH=anna@boxes.example".to_owned(),
        "XCLIENT LOGIN=anna ADDR=127.0.0.1\r\nMAIL FROM:<anna@boxes.example>".to_owned(),
    ] {
        let commands = format!("LHLO x\r\n{claim}\r\nRCPT TO:<home+door@localhost>\r\nQUIT\r\n");
        let said = String::from_utf8_lossy(&send_raw_greeted(
            &gateway,
            "lmtp",
            b"",
            commands.as_bytes(),
        ))
        .into_owned();
        let replies: Vec<&str> = said.lines().collect();
        let refusal = replies[replies.len() - 2];
        assert!(refusal.starts_with('5'), "{claim}: {said}");
    }
    // The same claims mean something over SMTP, once it is a login.
    let login = [
        "--auth",
        "PLAIN",
        "--auth-user",
        "anna",
        "--auth-password",
        "secret of anna",
    ];
    await_some("anna's rule", || {
        let said = send(&gateway, PROTOCOLS[0], "home+door@localhost", &login);
        said.contains(" accepted").then_some(())
    });
    // With a login, the sender must be the user's.
    let address = gateway.address("smtp").to_string();
    let other = ["--server", &address, "--from", "bert@boxes.example"];
    let other = [&other[..], &["--to", "home+door@localhost"], &login].concat();
    let said = text_of(&run("swaks", &other, b""));
    let refusal = "553 5.7.1 this sender address belongs to another user";
    assert!(said.contains(refusal), "{said}");
}
