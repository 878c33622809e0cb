//! STARTTLS and logins of SMTP and POP3 with swaks, Python's smtplib and poplib, and mpop.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::pop3::{Pop3Context, Pop3Settings};
use gatepost_listeners::smtp::{SmtpContext, SmtpSettings};
use gatepost_listeners::tls::{ServerTls, TlsSettings};
use gatepost_message::Listener;
use gatepost_users::{AccessSettings, AnonymousAccess, ListenerAuth, Secret, Users};

use support::Fixture;

/// A certificate for `localhost` that signs itself.
fn tls(folder: &Path) -> ServerTls {
    let names = vec!["localhost".to_owned()];
    let pair = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, pair.cert.pem()).expect("written");
    std::fs::write(&key, pair.signing_key.serialize_pem()).expect("written");
    let settings = TlsSettings {
        cert,
        key,
        ..TlsSettings::default()
    };
    ServerTls::open(&settings, &[]).expect("a certificate that can be used")
}

async fn users(fixture: &Fixture) -> Users {
    let settings = AccessSettings {
        // Each login of the tests would pay for more.
        scram_iterations: 4_096,
        ..AccessSettings::default()
    };
    let users = Users::open(fixture.store.clone(), &settings).expect("users");
    let added = users.add("anna", Secret::from("secret"), false).await;
    added.expect("anna");
    users
}

fn listener_auth(users: &Users, listener: Listener) -> ListenerAuth {
    ListenerAuth::new(users.clone(), listener, AnonymousAccess::No, true)
}

async fn smtp(fixture: &Fixture, folder: &Path, settings: &str) -> SocketAddr {
    let settings: SmtpSettings = toml::from_str(settings).expect("settings");
    let users = users(fixture).await;
    let context = SmtpContext::new(
        settings,
        "gate.example",
        fixture.gateway.clone(),
        &SharedLimits::default(),
    )
    .with_auth(listener_auth(&users, Listener::Smtp))
    .with_tls(Some(tls(folder)));
    fixture.serve_smtp(context)
}

async fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = tokio::process::Command::new(program);
    let output = command.args(arguments).kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{program} does not start ({error})"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

async fn swaks(address: SocketAddr, options: &[&str]) -> (bool, String) {
    let server = address.to_string();
    let base = [
        "--server",
        &server,
        "--from",
        "anna@example.org",
        "--to",
        "alarms@localhost",
    ];
    run("swaks", &[&base[..], options].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaks_logs_in_with_and_without_tls() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let settings = "login_required = true\npayload = \"raw\"";
    let address = smtp(&fixture, folder.path(), settings).await;
    let anna = ["--auth-user", "anna", "--auth-password", "secret"];
    for mechanism in ["PLAIN", "LOGIN"] {
        for (tls, protocol) in [(&["--tls"][..], "ESMTPSA"), (&[], "ESMTPA")] {
            let options = [&["--auth", mechanism], &anna[..], tls].concat();
            let (went, said) = swaks(address, &options).await;
            assert!(went && said.contains("235 2.7.0"), "{mechanism}: {said}");
            let published = fixture.notes.take();
            let mail = String::from_utf8_lossy(&published[0].payload).into_owned();
            assert!(mail.contains(&format!("with {protocol} ")), "{mail}");
        }
    }
    let (went, said) = swaks(address, &["--tls"]).await;
    assert!(!went && said.contains("530 5.7.0 log in first"), "{said}");
    let wrong = [
        "--auth",
        "PLAIN",
        "--auth-user",
        "anna",
        "--auth-password",
        "wrong",
    ];
    let (went, said) = swaks(address, &wrong).await;
    assert!(!went && said.contains("535 5.7.8 wrong user"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smtplib_changes_to_tls_and_logs_in() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let address = smtp(&fixture, folder.path(), "").await;
    let script = format!(
        "import smtplib, ssl\n\
         context = ssl.create_default_context(cafile='{}')\n\
         server = smtplib.SMTP('localhost', {})\n\
         server.ehlo()\n\
         assert server.has_extn('starttls'), server.esmtp_features\n\
         server.starttls(context=context)\n\
         server.ehlo()\n\
         assert not server.has_extn('starttls')\n\
         assert 'SCRAM-SHA-256' in server.esmtp_features['auth']\n\
         server.login('anna', 'secret')\n\
         server.sendmail('a@example.org', ['alarms@localhost'], 'Subject: s\\r\\n\\r\\nx')\n\
         server.quit()\n",
        folder.path().join("cert.pem").display(),
        address.port()
    );
    let (went, said) = run("python3", &["-c", &script]).await;
    assert!(went, "{said}");
    assert_eq!(fixture.notes.take().len(), 1);
}

/// Bytes after STARTTLS in the same packet do not count inside TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_text_behind_starttls_is_forgotten() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let address = smtp(&fixture, folder.path(), "").await;
    let path = folder.path().join("cert.pem").display().to_string();
    let script = format!(
        "import socket, ssl\n\
         sock = socket.create_connection(('localhost', {}))\n\
         file = sock.makefile('rb')\n\
         file.readline()\n\
         sock.sendall(b'EHLO me\\r\\n')\n\
         while file.readline()[3:4] == b'-': pass\n\
         sock.sendall(b'STARTTLS\\r\\nEHLO evil\\r\\nMAIL FROM:<evil@example.org>\\r\\n')\n\
         assert file.readline().startswith(b'220 ')\n\
         context = ssl.create_default_context(cafile='{path}')\n\
         tls = context.wrap_socket(sock, server_hostname='localhost')\n\
         tls.sendall(b'RCPT TO:<alarms@localhost>\\r\\n')\n\
         answer = tls.recv(1000)\n\
         assert answer.startswith(b'503 5.5.1 name the sender first'), answer\n",
        address.port()
    );
    let (went, said) = run("python3", &["-c", &script]).await;
    assert!(went, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_that_are_given_up_or_malformed_have_their_answers() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let address = smtp(&fixture, folder.path(), "").await;
    let answers = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).expect("connected");
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).expect("a greeting");
        let commands = "AUTH PLAIN\r\nEHLO me\r\nAUTH\r\nAUTH GSSAPI\r\nAUTH PLAIN\r\n*\r\n\
            AUTH PLAIN !!!!\r\nAUTH PLAIN AGFubmEAc2VjcmV0\r\nAUTH PLAIN\r\nSTARTTLS x\r\nQUIT\r\n";
        stream.write_all(commands.as_bytes()).expect("sent");
        let mut text = String::from_utf8_lossy(&greeting).into_owned();
        stream.read_to_string(&mut text).expect("answers");
        text
    });
    let answers = answers.await.expect("a client");
    let codes: Vec<&str> = answers
        .lines()
        .filter(|line| line.as_bytes().get(3) == Some(&b' '))
        .map(|line| line.get(..3).unwrap_or_default())
        .collect();
    let expected = [
        "220", "503", "250", "501", "504", "334", "501", "501", "235", "503", "501", "221",
    ];
    assert_eq!(codes, expected, "{answers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poplib_and_mpop_change_to_tls() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let users = users(&fixture).await;
    let context = Pop3Context::new(
        Pop3Settings::default(),
        fixture.store.clone(),
        listener_auth(&users, Listener::Pop3),
        Some(tls(folder.path())),
        &SharedLimits::default(),
    );
    let port = fixture.serve_pop3(context).port();
    let cert = folder.path().join("cert.pem").display().to_string();
    let script = format!(
        "import poplib, ssl\n\
         server = poplib.POP3('localhost', {port})\n\
         assert 'STLS' in server.capa()\n\
         server.stls(ssl.create_default_context(cafile='{cert}'))\n\
         assert 'STLS' not in server.capa()\n\
         server.user('anna')\n\
         server.pass_('secret')\n\
         assert server.stat() == (0, 0)\n\
         server.quit()\n"
    );
    let (went, said) = run("python3", &["-c", &script]).await;
    assert!(went, "{said}");
    let arguments = [
        "--host=localhost",
        &format!("--port={port}"),
        "--user=anna",
        "--passwordeval=echo secret",
        "--auth=scram-sha-256",
        "--tls=on",
        "--tls-starttls=on",
        &format!("--tls-trust-file={cert}"),
        &format!("--uidls-file={}", folder.path().join("uidls").display()),
        "--delivery=mda,cat",
    ];
    let (went, said) = run("mpop", &arguments).await;
    assert!(went, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_send_as_themselves_only_where_that_is_wanted() {
    let (fixture, folder) = (Fixture::new(), tempfile::tempdir().expect("a folder"));
    let settings = r#"
        domains = ["example.org"]
        sender_login = "envelope-and-from"
        sender_addresses = { anna = ["sales@example.org"] }
    "#;
    let settings: SmtpSettings = toml::from_str(settings).expect("settings");
    let users = users(&fixture).await;
    let added = users.add("root", Secret::from("secret"), true).await;
    added.expect("an administrator");
    let context = SmtpContext::new(
        settings,
        "gate.example",
        fixture.gateway.clone(),
        &SharedLimits::default(),
    )
    .with_auth(listener_auth(&users, Listener::Smtp))
    .with_tls(Some(tls(folder.path())));
    let address = fixture.serve_smtp(context);
    let refused_envelope = "553 5.7.1 this sender address belongs to another user";
    let refused_from = "550 5.7.1 the From field must have an address of yours";
    for (user, envelope, from, refusal) in [
        ("anna", "anna@example.org", "anna@example.org", None),
        (
            "anna",
            "sales@example.org",
            "Shop <sales@example.org>",
            None,
        ),
        ("anna", "<>", "anna@example.org", None),
        ("root", "bert@example.org", "carla@example.org", None),
        (
            "anna",
            "bert@example.org",
            "anna@example.org",
            Some(refused_envelope),
        ),
        (
            "anna",
            "anna@evil.example",
            "anna@example.org",
            Some(refused_envelope),
        ),
        (
            "anna",
            "anna@example.org",
            "bert@example.org",
            Some(refused_from),
        ),
        (
            "anna",
            "anna@example.org",
            "anna@example.org, bert@example.org",
            Some(refused_from),
        ),
        (
            "anna",
            "anna@example.org",
            "\"anna@example.org\" <b@evil.example>",
            Some(refused_from),
        ),
    ] {
        let field = format!("From: {from}");
        let login = [
            "--auth",
            "PLAIN",
            "--auth-user",
            user,
            "--auth-password",
            "secret",
        ];
        let mail = ["--tls", "--from", envelope, "--header", &field];
        let (went, said) = swaks(address, &[&login[..], &mail].concat()).await;
        match refusal {
            None => assert!(went, "{user} {envelope} {from}: {said}"),
            Some(refusal) => assert!(!went && said.contains(refusal), "{envelope} {from}: {said}"),
        }
    }
    // A client without a login delivers mail of others, which SPF, DKIM and DMARC check.
    let (went, said) = swaks(address, &["--from", "anna@example.org"]).await;
    assert!(went, "{said}");
    assert_eq!(fixture.notes.take().len(), 5);
}
