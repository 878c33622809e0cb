//! TLS and the PROXY protocol, with mosquitto's clients, curl and paho at the other end.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;

use support::authority::Authority;
use support::{Client, Gateway, await_some, paho, run, send_raw, send_raw_greeted, swaks, text_of};

fn publish(gateway: &Gateway, message: &str, arguments: &[&str]) -> Output {
    let port = gateway.port("mqtt/tls");
    let arguments = [&["-h", "127.0.0.1", "-p", &port, "-m", message], arguments].concat();
    run("mosquitto_pub", &arguments, b"")
}

const SERVER_NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A gateway that speaks MQTT and HTTP by TLS, and the folder of its certificates.
fn start() -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    Authority::new(folder.path(), "first").sign("server", "localhost", &SERVER_NAMES);
    let (cert, key) = (path("server.pem"), path("server.key"));
    let settings = format!(
        "rules.paths = []\nlisteners.mqtt.tls = {{ bind = [\"127.0.0.1:0\"], cert = '{cert}', key \
         = '{key}' }}\n\
         listeners.http.tls = {{ bind = [\"127.0.0.1:0\"], cert = '{cert}', key = '{key}' }}\n"
    );
    (Gateway::start(&settings), folder)
}

#[test]
fn mqtt_and_http_speak_tls_and_certificates_are_renewed_under_live_connections() {
    let (gateway, folder) = start();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (port, first_ca) = (gateway.port("mqtt/tls"), path("first.pem"));
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &[
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "--cafile",
            &first_ca,
            "-t",
            "a",
            "-d",
            "-q",
            "1",
        ],
    );
    subscriber.await_line("SUBACK");
    let trusting = publish(
        &gateway,
        "x",
        &["-t", "a", "-q", "1", "--cafile", &first_ca],
    );
    assert!(trusting.status.success(), "{}", text_of(&trusting));
    subscriber.await_line("(1 bytes)");

    let https = format!("https://{}/healthz", gateway.address("http/tls"));
    let fetched = run(
        "curl",
        &["-sS", "--fail", "--cacert", &first_ca, &https],
        b"",
    );
    assert!(fetched.status.success(), "{}", text_of(&fetched));
    let websocket = [
        "--websocket",
        "--port",
        &gateway.port("http/tls"),
        "--cafile",
        &first_ca,
    ];
    paho(
        "paho-2",
        &[&["round-trip", "--version", "5"], &websocket[..]].concat(),
    );
    paho(
        "paho-2",
        &[
            "round-trip",
            "--version",
            "4",
            "--port",
            &port,
            "--cafile",
            &first_ca,
        ],
    );

    // Another authority takes over; existing connections stay.
    let second = Authority::new(folder.path(), "second");
    second.sign("server", "localhost", &SERVER_NAMES);
    gateway.signal("HUP");
    let second_ca = path("second.pem");
    await_some("the new certificate is shown", || {
        let renewed = publish(&gateway, "x", &["-t", "b", "--cafile", &second_ca]);
        renewed.status.success().then_some(())
    });
    let stale = publish(&gateway, "x", &["-t", "b", "--cafile", &first_ca]);
    assert!(!stale.status.success(), "the old certificate is gone");
    let renewed = publish(
        &gateway,
        "renewed",
        &["-t", "a", "-q", "1", "--cafile", &second_ca],
    );
    assert!(renewed.status.success(), "{}", text_of(&renewed));
    subscriber.await_line("renewed");
}

#[test]
fn our_own_clients_speak_tls() {
    let (gateway, folder) = start();
    let first_ca = folder.path().join("first.pem").display().to_string();
    let port = gateway.port("mqtt/tls");
    let url = format!("mqtts://localhost:{port}/kept");
    let ours = [&[
        "pub", "-L", &url, "--cafile", &first_ca, "-m", "x", "-r", "-q", "2",
    ][..]]
    .concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &ours, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    let ours = ["sub", "-L", &url, "--cafile", &first_ca, "-C", "1", "-v"];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &ours, b"");
    assert_eq!(text_of(&output), "kept x\n");
    let unknown = ["sub", "-L", &url, "--tls", "-C", "1"];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &unknown, b"");
    assert_eq!(
        output.status.code(),
        Some(69),
        "the system does not know the authority"
    );
}

#[test]
fn users_log_in_by_tls() {
    let (gateway, folder) = start();
    let ca = folder.path().join("first.pem").display().to_string();
    let port = gateway.port("mqtt/tls");
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    for arguments in [
        &["add", "anna"][..],
        &["grant", "anna", "publish,subscribe", "home/%u/#"],
    ] {
        let arguments = [&["user"], arguments, &["--set", &data]].concat();
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(output.status.success(), "{}", text_of(&output));
    }
    let anna = ["-u", "anna", "-P", "secret", "-q", "1", "--cafile", &ca];
    await_some("the rule is in force", || {
        let output = publish(
            &gateway,
            "x",
            &[&anna[..], &["-V", "5", "-d", "-t", "other"]].concat(),
        );
        text_of(&output).contains("RC:135").then_some(())
    });
    for version in ["4", "5"] {
        let options = [
            "users",
            "--version",
            version,
            "--port",
            &port,
            "--cafile",
            &ca,
        ];
        paho("paho-2", &options);
    }
}

#[test]
fn a_certificate_logs_its_user_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let authority = Authority::new(folder.path(), "ca");
    authority.sign("server", "localhost", &SERVER_NAMES);
    authority.sign("anna", "anna", &[]);
    authority.sign("nobody", "nobody", &[]);
    let ca = path("ca.pem");
    let gateway = Gateway::start(&format!(
        "rules.paths = []\n[listeners.mqtt.tls]\nbind = [\"127.0.0.1:0\"]\ncert = '{cert}'\n\
         key = '{key}'\n\
         client_ca = '{ca}'\nclient_is_user = true\n[listeners.http.tls]\n\
         bind = [\"127.0.0.1:0\"]\n\
         cert = '{cert}'\nkey = '{key}'\nclient_ca = '{ca}'\nclient_is_user = true\n",
        cert = path("server.pem"),
        key = path("server.key"),
    ));
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let user = |arguments: &[&str]| {
        let arguments = [&["user"], arguments, &["--set", &data]].concat();
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
        assert!(output.status.success(), "{}", text_of(&output));
    };
    user(&["add", "anna"]);
    user(&["grant", "anna", "publish", "home/%u"]);
    let by = |who: &str, topic: &str| {
        let (cert, key) = (path(&format!("{who}.pem")), path(&format!("{who}.key")));
        let arguments = ["-V", "5", "-q", "1", "-d", "-t", topic, "--cafile", &ca];
        let output = publish(
            &gateway,
            "x",
            &[&arguments[..], &["--cert", &cert, "--key", &key]].concat(),
        );
        text_of(&output)
    };
    await_some("her rule is in force", || {
        by("anna", "elsewhere").contains("RC:135").then_some(())
    });
    let allowed = by("anna", "home/anna");
    assert!(
        allowed.contains("PUBACK") && !allowed.contains("RC:135"),
        "{allowed}"
    );
    let stranger = by("nobody", "home/anna");
    assert!(!stranger.contains("PUBACK"), "{stranger}");
    let without = publish(&gateway, "x", &["-t", "home/anna", "--cafile", &ca]);
    assert!(!without.status.success());

    // The same by HTTP, in both of its versions.
    let port = gateway.port("http/tls");
    for version in ["--http1.1", "--http2"] {
        for (topic, status) in [("home/anna", "200"), ("elsewhere", "403")] {
            let url = format!("https://localhost:{port}/topics/{topic}");
            let (cert, key) = (path("anna.pem"), path("anna.key"));
            let asked = [
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-d",
                "x",
                version,
            ];
            let shown = ["--cacert", &ca, "--cert", &cert, "--key", &key, &url];
            let output = run("curl", &[&asked[..], &shown].concat(), b"");
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                status,
                "{version} {topic}"
            );
        }
    }
}

#[test]
fn unusable_certificates_are_reported_before_anything_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gatepost.toml");
    let data = folder.path().join("gatepost-data");
    let settings = format!("data = {data:?}\nlisteners.mqtt.tls.cert = \"missing.pem\"\n");
    std::fs::write(&config, settings).expect("written");
    for command in ["check", "serve"] {
        let output = run(
            env!("CARGO_BIN_EXE_gatepost"),
            &[command, "--config", &config.display().to_string()],
            b"",
        );
        assert_eq!(
            output.status.code(),
            Some(78),
            "{command}: {}",
            text_of(&output)
        );
        assert!(
            text_of(&output).contains("listeners.mqtt.tls"),
            "{}",
            text_of(&output)
        );
    }
}

/// Begins with a PROXY header, connects by MQTT 3.1.1, and returns whether that worked.
fn connects_behind(gateway: &Gateway, header: &[u8]) -> bool {
    const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01p";
    let mut stream = TcpStream::connect(gateway.address("mqtt")).expect("a connection");
    stream
        .set_read_timeout(Some(support::PATIENCE))
        .expect("a timeout");
    stream.write_all(header).expect("written");
    stream.write_all(CONNECT).expect("written");
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).is_ok() && connack == [0x20, 2, 0, 0]
}

#[test]
fn a_proxy_in_front_tells_who_the_client_is() {
    let gateway = Gateway::start(
        "rules.paths = []\nlisteners.mqtt.proxy_protocol = [\"127.0.0.1\"]\n\
         listeners.http.proxy_protocol = [\"127.0.0.1\"]\n\
         listeners.smtp.proxy_protocol = [\"127.0.0.1\"]\n\
         listeners.mqtt.anonymous = \"yes\"\nlog.level = \"info,mqtt=debug\"\n",
    );
    assert!(connects_behind(
        &gateway,
        b"PROXY TCP4 192.0.2.7 127.0.0.1 4321 1883\r\n"
    ));
    let second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x10\xe1\x07\x5b";
    assert!(connects_behind(&gateway, second));
    await_some("both clients are in the log", || {
        let log = gateway.log();
        let both = log.contains("192.0.2.7:4321") && log.contains("192.0.2.8:4321");
        both.then_some(())
    });
    assert!(!connects_behind(&gateway, b""), "a header is asked for");
    // Mail shows the client in its Received field.
    let proxy = b"PROXY TCP4 192.0.2.9 127.0.0.1 4321 25\r\n";
    let mail = b"EHLO client.example\r\n\
        MAIL FROM:<a@example.org>\r\nRCPT TO:<alarms@localhost>\r\nDATA\r\n\r\nx\r\n.\r\nQUIT\r\n";
    let said = send_raw_greeted(&gateway, "smtp", proxy, mail);
    assert!(
        String::from_utf8_lossy(&said).contains("\r\n250 2.0.0"),
        "{said:?}"
    );
    await_some("the client of the proxy", || {
        gateway.log().contains("peer=192.0.2.9:4321").then_some(())
    });
    let unannounced = send_raw(gateway.address("smtp"), b"EHLO client.example\r\nQUIT\r\n");
    assert_eq!(unannounced, b"", "a header is asked for");
    let url = gateway.url("/healthz");
    let fetched = run("curl", &["-sS", "--fail", "--haproxy-protocol", &url], b"");
    assert!(fetched.status.success(), "{}", text_of(&fetched));
}

#[test]
fn mail_is_received_encrypted_by_starttls_and_implicit_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("server", "localhost", &SERVER_NAMES);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let listeners = ["smtp", "lmtp", "pop3"].map(|listener| {
        format!(
            "[listeners.{listener}.tls]\nbind = [\"127.0.0.1:0\"]\ncert = '{}'\nkey = '{}'\n",
            path("server.pem"),
            path("server.key"),
        )
    });
    let gateway = Gateway::start(&format!("rules.paths = []\n{}", listeners.concat()));
    let ca = path("authority.pem");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-t", "secret/#", "-v", "-d"],
    );
    subscriber.await_line("SUBACK");
    for (listener, manner, number) in [
        ("smtp", "--tls", 1),
        ("smtp/tls", "--tls-on-connect", 2),
        ("lmtp", "--tls", 3),
        ("lmtp/tls", "--tls-on-connect", 4),
    ] {
        let server = format!("localhost:{}", gateway.port(listener));
        let protocol = if listener.starts_with("lmtp") {
            "LMTP"
        } else {
            "ESMTP"
        };
        let to = format!("secret+{number}@localhost");
        let body = format!("number {number}");
        let mut options = vec!["--protocol", protocol, manner, "--body", &body];
        options.extend(["--tls-verify", "--tls-ca-path", &ca]);
        let output = swaks(&server, "otto@example.org", &to, &options);
        let transcript = text_of(&output);
        assert!(output.status.success(), "{listener}: {transcript}");
        assert!(
            transcript.contains("=== TLS started with cipher TLSv1.3"),
            "{transcript}"
        );
        // Within TLS it is not offered again.
        let (_, within) = transcript.split_once("=== TLS started").expect("TLS");
        assert!(!within.contains("250-STARTTLS"), "{within}");
        subscriber.await_line(&format!("number {number}"));
    }

    let script = format!(
        "import poplib, ssl\n\
         trust = ssl.create_default_context(cafile={ca:?})\n\
         server = poplib.POP3('localhost', {})\n\
         print(server.capa())\n\
         print(server.stls(trust))\n\
         print(server.capa())\n\
         print(poplib.POP3_SSL('localhost', {}, context=trust).getwelcome())",
        gateway.port("pop3"),
        gateway.port("pop3/tls"),
    );
    let output = run("python3", &["-c", &script], b"");
    let lines: Vec<String> = text_of(&output).lines().map(str::to_owned).collect();
    assert!(output.status.success() && lines.len() == 4, "{lines:?}");
    assert!(
        lines[0].contains("STLS") && !lines[2].contains("STLS"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("+OK") && lines[3].contains("+OK"),
        "{lines:?}"
    );
}

#[test]
fn spamc_asks_through_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("server", "localhost", &SERVER_NAMES);
    std::fs::write(
        folder.path().join("rules.cf"),
        "header BAD Subject =~ /^BAD/\nscore BAD 12.5\n",
    )
    .expect("written");
    let settings = format!(
        "rules.paths = ['{}']\nlisteners.spamd.tls = {{ bind = [\"127.0.0.1:0\"], cert = '{}', key \
         = '{}' }}\n",
        path("rules.cf"),
        path("server.pem"),
        path("server.key")
    );
    let gateway = Gateway::start(&settings);
    let (port, ca) = (gateway.port("spamd/tls"), path("authority.pem"));
    let ask = |ca: &str| {
        let arguments = format!("-S --ssl-ca-file {ca} -x -d 127.0.0.1 -p {port} -c");
        let arguments: Vec<&str> = arguments.split(' ').collect();
        run("spamc", &arguments, b"Subject: BAD news\n\ntext\n")
    };
    let output = ask(&ca);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "12.5/5.0");
    // A client that does not know the authority gives up before a word of the mail is sent.
    let output = ask("/etc/ssl/certs/ca-certificates.crt");
    assert_ne!(output.status.code(), Some(1), "{output:?}");
}
