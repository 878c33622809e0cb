//! Acknowledged messages survive a restart, even after `kill -9`.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use support::{Client, Gateway, run, text_of};

/// A start need not load the rules of a whole system here.
const QUICK: &str = "rules.paths = []\n";

fn publish(gateway: &Gateway, arguments: &[&str]) {
    let port = gateway.port("mqtt");
    let mut all = vec!["-p", &port, "-q", "1"];
    all.extend(arguments);
    let output = run("mosquitto_pub", &all, b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn retained_messages_and_history_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), QUICK);
    publish(
        &gateway,
        &["-t", "alarms/fire", "-m", "retained by MQTT", "-r"],
    );
    publish(&gateway, &["-t", "alarms/fire", "-m", "history by MQTT"]);
    publish(&gateway, &["-t", "alarms/gone", "-m", "short-lived", "-r"]);
    publish(&gateway, &["-t", "alarms/gone", "-n", "-r"]);
    let output = run(
        "curl",
        &[
            "-sf",
            "-d",
            "history by HTTP",
            &gateway.url("/topics/alarms/http"),
        ],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), QUICK);
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-v", "-t", "alarms/#", "-d"],
    );
    assert!(
        subscriber
            .await_line("alarms/fire retained")
            .ends_with("retained by MQTT")
    );
    publish(&gateway, &["-t", "alarms/last", "-m", "the last one"]);
    subscriber.await_line("the last one");
    assert!(
        subscriber
            .seen()
            .iter()
            .all(|line| !line.contains("short-lived"))
    );

    let output = run(
        "curl",
        &[
            "-sf",
            "-H",
            "Accept: application/x-ndjson",
            &gateway.url("/topics/alarms/%23?since=all&poll=1"),
        ],
        b"",
    );
    let history = text_of(&output);
    for text in ["history by MQTT", "history by HTTP"] {
        assert!(history.contains(text), "{text} in {history}");
    }
}

/// Lines of mosquitto_sub for a session that outlives its connection.
fn subscribe_as(gateway: &Gateway, client_id: &str, further: &[&str]) -> Vec<String> {
    let port = gateway.port("mqtt");
    let mut all = vec![
        "-p", &port, "-c", "-q", "2", "-i", client_id, "-t", "jobs/#",
    ];
    all.extend(further);
    let output = run("mosquitto_sub", &all, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

/// Publishes these lines, one after the other.
fn publish_lines(gateway: &Gateway, qos: &str, lines: &[String]) {
    let arguments = ["-p", &gateway.port("mqtt"), "-q", qos, "-t", "jobs/a", "-l"];
    let output = run("mosquitto_pub", &arguments, lines.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Whether the server knows a session of this client: the client then remains connected to it, so
/// the connection is returned.
fn session_present(gateway: &Gateway, client_id: &str) -> bool {
    let mut stream = TcpStream::connect(gateway.address("mqtt")).expect("a connection");
    let id_bytes = u8::try_from(client_id.len()).expect("a short name");
    let mut connect = vec![0x10, 12 + id_bytes, 0, 4];
    connect.extend(b"MQTT\x04\x00\x00\x00\x00");
    connect.push(id_bytes);
    connect.extend(client_id.as_bytes());
    stream.write_all(&connect).expect("the CONNECT");
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).expect("the CONNACK");
    assert_eq!([connack[0], connack[1], connack[3]], [0x20, 2, 0]);
    stream.write_all(&[0xE0, 0]).expect("the DISCONNECT");
    connack[2] == 1
}

#[test]
fn sessions_and_their_queues_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), QUICK);
    subscribe_as(&gateway, "first", &["-E"]);
    subscribe_as(&gateway, "second", &["-E"]);
    let lines: Vec<String> = (0..200).map(|number| format!("job {number}")).collect();
    publish_lines(&gateway, "1", &lines[..100]);
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), QUICK);
    publish_lines(&gateway, "2", &lines[100..]);
    assert_eq!(subscribe_as(&gateway, "first", &["-C", "200"]), lines);
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), QUICK);
    assert!(session_present(&gateway, "first"));
    assert!(session_present(&gateway, "second"));
    assert!(!session_present(&gateway, "third"));
    assert_eq!(subscribe_as(&gateway, "second", &["-C", "200"]), lines);
    // Nothing is delivered twice: the next message that each gets is the next one that is
    // published.
    let last = vec!["the last".to_owned()];
    publish_lines(&gateway, "2", &last);
    assert_eq!(subscribe_as(&gateway, "first", &["-C", "1"]), last);
    assert_eq!(subscribe_as(&gateway, "second", &["-C", "1"]), last);
}

#[test]
fn a_will_with_delay_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), QUICK);
    let mut mortal = Client::start(
        "mosquitto_sub",
        &[
            "-p",
            &gateway.port("mqtt"),
            "-V",
            "5",
            "-i",
            "mortal",
            "-d",
            "-t",
            "x",
            "-c",
            "-x",
            "600",
            "-k",
            "600",
            "--will-topic",
            "wills/mortal",
            "--will-payload",
            "gone",
            "--will-qos",
            "1",
            "-D",
            "will",
            "will-delay-interval",
            "3",
        ],
    );
    mortal.await_line("SUBACK");
    subscribe_as(&gateway, "heir", &["-t", "wills/#", "-E"]);
    gateway.kill();
    drop(mortal);

    let gateway = Gateway::start_in(folder.path(), QUICK);
    let heard = subscribe_as(&gateway, "heir", &["-t", "wills/#", "-C", "1", "-W", "60"]);
    assert_eq!(heard, ["gone"]);
}

/// Starts `gatepost serve` in this folder and waits for the end of a start that is refused.
fn refused_start(folder: &Path) -> String {
    // Sockets are opened before the database: no port may be taken by another test.
    let listeners = [
        "mqtt", "http", "smtp", "lmtp", "pop3", "milter", "spamd", "call",
    ];
    let binds = listeners.map(|name| format!("listeners.{name}.bind=[\"127.0.0.1:0\"]"));
    let settings = ["rules.paths=[]", "rules.warm_up=false"];
    let settings = settings.into_iter().chain(binds.iter().map(String::as_str));
    let arguments = ["serve"]
        .into_iter()
        .chain(settings.flat_map(|setting| ["--set", setting]));
    let output = support::command(env!("CARGO_BIN_EXE_gatepost"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("gatepost runs");
    assert_eq!(output.status.code(), Some(69), "{}", text_of(&output));
    text_of(&output)
}

#[test]
fn a_damaged_database_refuses_the_start_until_recovery_is_requested() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("gatepost-data");
    std::fs::create_dir(&data).expect("the data folder");
    std::fs::write(data.join("gatepost.db"), b"no database at all").expect("the damaged file");
    let refused = refused_start(folder.path());
    assert!(
        refused.contains("store.on_damage = \"recover\""),
        "{refused}"
    );

    let settings = format!("{QUICK}store.on_damage = \"recover\"\n");
    let gateway = Gateway::start_in(folder.path(), &settings);
    assert!(
        gateway.log().contains("gatepost.db.damaged-1"),
        "{}",
        gateway.log()
    );
    publish(&gateway, &["-t", "alarms/fire", "-m", "works", "-r"]);
}

#[test]
fn a_second_server_is_refused_while_the_first_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), QUICK);
    let refused = refused_start(folder.path());
    assert!(refused.contains("another gatepost is running"), "{refused}");
    publish(&gateway, &["-t", "alarms/fire", "-m", "works", "-r"]);
}

#[test]
fn a_gateway_that_lost_its_users_stays_shut() {
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password");
    std::fs::write(&password, "secret\n").expect("a password");
    let user = |arguments: &[&str]| {
        let output = support::command(env!("CARGO_BIN_EXE_gatepost"))
            .args(["user"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("gatepost runs");
        assert!(output.status.success(), "{}", text_of(&output));
    };
    let add = ["add", "anna", "--password-file", "password"];
    user(&add);
    let data = folder.path().join("gatepost-data");
    for entry in std::fs::read_dir(&data).expect("the data folder") {
        let path = entry.expect("an entry").path();
        if path.to_string_lossy().contains("gatepost.db") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    let refused = refused_start(folder.path());
    assert!(
        refused.contains("had users, and its database has none"),
        "{refused}"
    );

    user(&add);
    drop(Gateway::start_in(folder.path(), QUICK));
    // Removed on purpose, users are not missed.
    user(&["remove", "anna"]);
    drop(Gateway::start_in(folder.path(), QUICK));
}

/// Each `gatepost user add` that reports success during the first start has made its user.
#[test]
fn users_added_while_the_first_server_starts_are_kept() {
    for _ in 0..4 {
        let folder = tempfile::tempdir().expect("a folder");
        let password = folder.path().join("password");
        std::fs::write(&password, "secret\n").expect("a password");
        let user = |arguments: &[&str]| {
            support::command(env!("CARGO_BIN_EXE_gatepost"))
                .args(["user"])
                .args(arguments)
                .current_dir(folder.path())
                .output()
                .expect("gatepost runs")
        };
        let gateway = std::thread::scope(|scope| {
            let added = ["anna", "bert", "carl"].map(|name| {
                scope.spawn(move || user(&["add", name, "--password-file", "password"]))
            });
            let gateway = Gateway::start_in(folder.path(), QUICK);
            for output in added {
                let output = output.join().expect("it ends");
                assert!(output.status.success(), "{}", text_of(&output));
            }
            gateway
        });
        let listed = text_of(&user(&["list"]));
        for name in ["anna", "bert", "carl"] {
            assert!(listed.contains(name), "{name} is missing in {listed}");
        }
        assert!(!gateway.log().contains("damaged"), "{}", gateway.log());
    }
}

#[test]
fn terminate_ends_cleanly_while_clients_are_connected() {
    let gateway = Gateway::start(QUICK);
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &gateway.port("mqtt"), "-t", "#", "-d"],
    );
    subscriber.await_line("SUBACK");
    assert_eq!(gateway.terminate(), Some(0));
}

/// A stream of events by curl, whose exit code is 0 only where the stream ended in form.
fn follow(gateway: &Gateway, path: &str) -> Client {
    let url = gateway.url(path);
    let stream = "Accept: text/event-stream";
    let command = "curl -sN --max-time 120 -H \"$1\" \"$2\"; echo exit $?";
    let mut client = Client::start("sh", &["-c", command, "sh", stream, &url]);
    client.await_line("retry:");
    client
}

#[test]
fn streams_of_events_are_finished_before_the_end() {
    let gateway = Gateway::start(QUICK);
    let mut readers = [
        "/topics/jobs/%23",
        // As the live places of a page ask for theirs.
        "/topics?filter=jobs/a&filter=jobs/b&since=",
    ]
    .map(|path| follow(&gateway, path));
    let lines: Vec<_> = (0..500).map(|number| format!("number {number}.")).collect();
    publish_lines(&gateway, "1", &lines);
    assert_eq!(gateway.terminate(), Some(0));
    for reader in &mut readers {
        reader.await_line("exit 0");
        let seen = reader.seen().concat();
        for line in &lines {
            assert!(seen.contains(line), "{line} is missing");
        }
    }
}

#[test]
fn a_stream_behind_a_full_socket_is_finished_or_cut_when_the_time_is_over() {
    const MESSAGES: usize = 250;
    const BYTES: usize = 60_000;
    let settings = format!("{QUICK}listeners.http.drain_timeout = \"5s\"\n");
    let gateway = Gateway::start(&settings);
    let open = || {
        let mut stream = TcpStream::connect(gateway.address("http")).expect("a connection");
        let request =
            "GET /topics/jobs/%23 HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut first = [0; 16];
        stream.read_exact(&mut first).expect("a head");
        stream
    };
    let (mut slow, silent) = (open(), open());
    let lines: Vec<_> = (0..MESSAGES)
        .map(|number| format!("{number:0BYTES$}."))
        .collect();
    publish_lines(&gateway, "1", &lines);
    // Both sockets have long been full.
    gateway.signal("TERM");
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        slow.read_to_end(&mut all).expect("all of the stream");
        all
    });
    assert_eq!(gateway.terminate(), Some(0));
    let all = reading.join().expect("it reads");
    let text = String::from_utf8_lossy(&all);
    let mut rest = &*text;
    for (number, line) in lines.iter().enumerate() {
        let place = rest.find(line.as_str());
        let place = place.unwrap_or_else(|| panic!("no {number} in {} bytes", all.len()));
        rest = &rest[place..];
    }
    assert!(text.ends_with("\r\n0\r\n\r\n"), "it ended in form");
    drop(silent);
}

#[test]
fn a_second_server_names_the_process_that_has_its_ports() {
    let (folder, other) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, other) = (folder.expect("a folder"), other.expect("a folder"));
    let first = Gateway::start_in(folder.path(), QUICK);
    let bind = format!(
        "{QUICK}listeners.smtp.bind = [\"{}\"]\n",
        first.address("smtp")
    );
    let log_of_refusal = |folder: &Path| {
        let started = Gateway::try_start_in(folder, &bind, &[]);
        started.err().expect("the port is in use")
    };
    let hint = "another gatepost serves the data folder gatepost-data already";
    let log = log_of_refusal(folder.path());
    assert!(log.contains(hint), "{log}");
    let log = log_of_refusal(other.path());
    assert!(log.contains("cannot be listened on: Address"), "{log}");
    assert!(!log.contains(hint), "{log}");
}
