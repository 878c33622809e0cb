//! `gatepost user` beside a running server, and mosquitto's clients that log in to it.

mod support;

use std::process::Output;

use support::{Client, Gateway, await_some, run, send_raw, text_of};

fn user(gateway: &Gateway, arguments: &[&str], input: &str) -> Output {
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let arguments = [&["user"], arguments, &["--set", &data]].concat();
    run(env!("CARGO_BIN_EXE_gatepost"), &arguments, input.as_bytes())
}

fn done(gateway: &Gateway, arguments: &[&str], input: &str) -> String {
    let output = user(gateway, arguments, input);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text_of(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// mosquitto_pub's way to say whether it got in.
fn publish(gateway: &Gateway, arguments: &[&str]) -> Output {
    let port = gateway.port("mqtt");
    let arguments = [&["-p", &port, "-q", "1", "-m", "x"], arguments].concat();
    run("mosquitto_pub", &arguments, b"")
}

#[test]
fn users_created_beside_a_running_server_apply_at_once() {
    let gateway = Gateway::start("rules.paths = []\n");
    assert!(
        publish(&gateway, &["-t", "a"]).status.success(),
        "open as ever"
    );

    done(&gateway, &["add", "anna"], "secret\n");
    // Seen within a second; then every client needs a login.
    await_some("anonymous clients are refused", || {
        (!publish(&gateway, &["-t", "a"]).status.success()).then_some(())
    });
    let refused = publish(&gateway, &["-t", "a", "-u", "anna", "-P", "wrong"]);
    assert!(text_of(&refused).contains("not authorised") || !refused.status.success());
    let anna = ["-u", "anna", "-P", "secret"];
    assert!(
        publish(&gateway, &[&anna[..], &["-t", "a"]].concat())
            .status
            .success()
    );

    done(
        &gateway,
        &["grant", "anna", "publish,subscribe", "home/%u/#"],
        "",
    );
    let port = gateway.port("mqtt");
    let denied = await_some("the rule is in force", || {
        let arguments = [&anna[..], &["-V", "5", "-t", "a", "-d"]].concat();
        let output = text_of(&publish(&gateway, &arguments));
        output.contains("RC:135").then_some(output)
    });
    assert!(denied.contains("PUBACK"), "{denied}");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &[
            "-p",
            &port,
            "-u",
            "anna",
            "-P",
            "secret",
            "-t",
            "home/anna/+",
            "-v",
            "-d",
        ],
    );
    subscriber.await_line("SUBACK");
    let allowed = [&anna[..], &["-t", "home/anna/door"]].concat();
    assert!(publish(&gateway, &allowed).status.success());
    subscriber.await_line("home/anna/door x");

    let token = done(
        &gateway,
        &["token", "add", "anna", "--allow", "publish=home/anna/door"],
        "",
    );
    let by_token = ["-u", "anna", "-P", token.trim(), "-t", "home/anna/door"];
    await_some("the token is known", || {
        publish(&gateway, &by_token).status.success().then_some(())
    });
    let list = done(&gateway, &["list"], "");
    for part in [
        "anna",
        "publish,subscribe home/%u/#",
        "token ",
        "publish home/anna/door",
    ] {
        assert!(list.contains(part), "{part} in {list}");
    }
    let json = done(&gateway, &["list", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["name"], "anna");

    // She is removed while her subscriber is connected, and cannot log in again.
    done(&gateway, &["remove", "anna"], "");
    done(&gateway, &["add", "otto", "--admin"], "others\n");
    await_some("she is gone", || {
        (!publish(&gateway, &allowed).status.success()).then_some(())
    });
    subscriber.await_line("sending CONNECT");
}

#[test]
fn a_later_user_of_the_same_name_finds_no_session_of_the_removed_one() {
    let gateway = Gateway::start("rules.paths = []\n");
    let port = gateway.port("mqtt");
    let logs_in = |password: &str| {
        let login = ["-t", "a", "-u", "anna", "-P", password];
        publish(&gateway, &login).status.success()
    };
    let await_login = |password: &str| {
        // Until the server knows a user, it ignores passwords.
        await_some("a wrong password is refused", || {
            (!logs_in("wrong")).then_some(())
        });
        await_some("the user is known", || logs_in(password).then_some(()));
    };
    let subscribe = |password: &str, further: &[&str]| {
        let session = ["-p", &port, "-i", "kept", "-c", "-q", "1", "-t", "a"];
        let login = ["-u", "anna", "-P", password];
        let arguments = [&session[..], &login, further].concat();
        String::from_utf8_lossy(&run("mosquitto_sub", &arguments, b"").stdout).into_owned()
    };
    done(&gateway, &["add", "anna"], "secret\n");
    await_login("secret");
    subscribe("secret", &["-E"]);
    await_login("secret");
    let queued = subscribe("secret", &["-C", "1"]);
    assert_eq!(
        queued.trim(),
        "x",
        "a session keeps what is published meanwhile"
    );
    await_login("secret");

    done(&gateway, &["remove", "anna"], "");
    done(&gateway, &["add", "anna"], "others\n");
    await_login("others");
    assert_eq!(subscribe("others", &["-E"]).trim(), "");
    assert_eq!(subscribe("others", &["-W", "1"]).trim(), "");
}

/// The dashboard as a browser asks for it, with these further fields.
fn dashboard(gateway: &Gateway, fields: &str) -> String {
    let head = format!("GET / HTTP/1.1\r\nConnection: close\r\n{fields}\r\n\r\n");
    let answer = send_raw(gateway.address("http"), head.as_bytes());
    String::from_utf8_lossy(&answer).into_owned()
}

/// A client's address is the one that a trusted proxy reports: this gives a client of another
/// machine on loopback.
#[test]
fn the_dashboard_is_for_this_machine_until_somebody_can_log_in() {
    let gateway =
        Gateway::start("rules.paths = []\nlisteners.http.trusted_proxies = [\"127.0.0.1\"]\n");
    let afar = "Host: mail.example.org\r\nX-Forwarded-For: 203.0.113.9";
    let here = "Host: localhost";
    assert!(dashboard(&gateway, here).starts_with("HTTP/1.1 200"));
    for stranger in [afar, "Host: mail.example.org"] {
        let answer = dashboard(&gateway, stranger);
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("gatepost user add"), "what to do: {answer}");
        assert!(
            !answer.contains("WWW-Authenticate"),
            "no challenge: {answer}"
        );
    }

    done(&gateway, &["add", "root", "--admin"], "secret\n");
    done(&gateway, &["add", "anna"], "secret\n");
    let refused = await_some("the first user is known", || {
        let answer = dashboard(&gateway, afar);
        answer.starts_with("HTTP/1.1 401").then_some(answer)
    });
    assert!(refused.contains("WWW-Authenticate: Basic"), "{refused}");
    assert!(
        dashboard(&gateway, here).starts_with("HTTP/1.1 401"),
        "from here too"
    );
    await_some("the second user is known", || {
        let login = format!("{afar}\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=");
        dashboard(&gateway, &login)
            .starts_with("HTTP/1.1 403")
            .then_some(())
    });
    // root:secret, root:wrong, anna:secret
    for (login, status) in [
        ("cm9vdDpzZWNyZXQ=", 200),
        ("cm9vdDp3cm9uZw==", 401),
        ("YW5uYTpzZWNyZXQ=", 403),
    ] {
        let answer = dashboard(&gateway, &format!("{afar}\r\nAuthorization: Basic {login}"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn mistakes_are_reported_with_a_fix() {
    let gateway = Gateway::start("rules.paths = []\n");
    for (arguments, input, code, part) in [
        (
            &["add", "an/na"][..],
            "x\n",
            65,
            "a user's name holds no '/'",
        ),
        (&["add", "anna"], "\n", 66, "there is none"),
        (
            &["passwd", "nobody"],
            "x\n",
            65,
            "there is no user 'nobody'",
        ),
        (
            &["grant", "nobody", "all", "a"],
            "",
            65,
            "there is no user 'nobody'",
        ),
        (
            &["grant", "everyone", "all", "a/#/b"],
            "",
            65,
            "'a/#/b' is not a topic filter",
        ),
        (
            &["grant", "everyone", "read", "a"],
            "",
            2,
            "use publish, subscribe, retain or all",
        ),
        (
            &["token", "remove", "abc"],
            "",
            65,
            "there is no token 'abc'",
        ),
    ] {
        let output = user(&gateway, arguments, input);
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

/// A dashboard that listens where others reach it asks even this machine who it is.
#[test]
fn a_dashboard_on_every_address_is_for_who_logs_in() {
    let gateway = Gateway::start("rules.paths = []\nlisteners.http.bind = [\"0.0.0.0:0\"]\n");
    for path in ["/", "/admin/state", "/admin/messages", "/metrics"] {
        let head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n");
        let answer = send_raw(gateway.address("http"), head.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 40"), "{path}: {answer}");
    }
    assert!(dashboard(&gateway, "Host: localhost").contains("gatepost user add"));
    done(&gateway, &["add", "root", "--admin"], "secret\n");
    await_some("the administrator is known, and no other user", || {
        let anonymous = dashboard(&gateway, "Host: localhost");
        // root:secret
        let login = "Host: localhost\r\nAuthorization: Basic cm9vdDpzZWNyZXQ=";
        let admitted = dashboard(&gateway, login).starts_with("HTTP/1.1 200");
        (admitted && anonymous.starts_with("HTTP/1.1 401")).then_some(())
    });
}

/// An address that other machines can reach requires a login, whether or not there is a user.
#[test]
fn the_world_must_log_in() {
    let gateway = Gateway::start("rules.paths = []\nlisteners.mqtt.bind = [\"0.0.0.0:0\"]\n");
    let port = gateway.port("mqtt");
    let refused = run("mosquitto_pub", &["-p", &port, "-t", "a", "-m", "x"], b"");
    assert!(!refused.status.success());
    assert!(
        gateway.log().contains("gatepost user add"),
        "{}",
        gateway.log()
    );
    done(&gateway, &["add", "anna"], "secret\n");
    await_some("she gets in", || {
        let arguments = [
            "-p", &port, "-t", "a", "-m", "x", "-u", "anna", "-P", "secret",
        ];
        run("mosquitto_pub", &arguments, b"")
            .status
            .success()
            .then_some(())
    });
}

#[test]
fn a_first_user_of_the_api_is_one_that_must_not_be_lost() {
    let gateway = Gateway::start("rules.paths = []\n");
    let marker = gateway.folder.join("gatepost-data/users-exist");
    assert!(!marker.exists());
    let kind = "Content-Type: application/json";
    let body = r#"{"name":"root","password":"a long password","admin":true}"#;
    let url = gateway.url("/admin/users");
    let added = run("curl", &["-sf", "-H", kind, "-d", body, &url], b"");
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("the marker is written", || marker.exists().then_some(()));
}
