//! `gatepost pub` and `gatepost sub` with the gateway, with mosquitto's broker, and with
//! mosquitto's clients at the other end.

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod bench;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};

use support::{Client, Gateway, await_some, command, run, text_of};

const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

fn gateway() -> Gateway {
    Gateway::start("rules.paths = []\n")
}

fn publish(port: &str, arguments: &[&str], input: &str) -> Output {
    let arguments = [&["pub", "-p", port], arguments].concat();
    run(GATEPOST, &arguments, input.as_bytes())
}

fn subscriber(port: &str, arguments: &[&str]) -> Client {
    let mut all = vec!["sub", "-h", "localhost", "-p", port];
    all.extend(arguments);
    Client::start(GATEPOST, &all)
}

/// Debian's mosquitto on a free port; ended when dropped.
struct Mosquitto {
    child: Child,
    port: String,
}

impl Mosquitto {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port().to_string();
        drop(free);
        let mosquitto = Self::on(port);
        await_some("mosquitto listens", || {
            let tried = run(
                "mosquitto_pub",
                &["-p", &mosquitto.port, "-t", "a", "-n"],
                b"",
            );
            tried.status.success().then_some(())
        });
        mosquitto
    }

    fn on(port: String) -> Self {
        let child = command("mosquitto")
            .args(["-p", &port])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer mosquitto starts");
        Self { child, port }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the subscriber gets the publications.
fn await_subscriber(port: &str, client: &mut Client) {
    await_some("the subscriber subscribes", || {
        let output = run(
            "mosquitto_pub",
            &["-p", port, "-t", "ready", "-m", "ready"],
            b"",
        );
        assert!(output.status.success(), "{}", text_of(&output));
        client
            .seen()
            .iter()
            .any(|line| line.contains("ready"))
            .then_some(())
    });
}

fn talk_with(port: &str) {
    for version in ["31", "311", "5"] {
        for qos in ["0", "1", "2"] {
            let common = ["-V", version, "-q", qos];
            let to = |topic| [&common[..], &["-t", topic, "-t", "ready", "-v"]].concat();
            let mut ours = subscriber(port, &to("talk/#"));
            let theirs = ["-p", port, "-t", "talk/#", "-t", "ready", "-v", "-q", qos];
            let mut theirs = Client::start("mosquitto_sub", &theirs);
            await_subscriber(port, &mut ours);
            await_subscriber(port, &mut theirs);
            let output = publish(
                port,
                &[&common[..], &["-t", "talk/ours", "-m", qos]].concat(),
                "",
            );
            assert!(
                output.status.success(),
                "{version} {qos}: {}",
                text_of(&output)
            );
            let their = ["-p", port, "-q", qos, "-t", "talk/theirs", "-m", qos];
            assert!(run("mosquitto_pub", &their, b"").status.success());
            for line in [format!("talk/ours {qos}"), format!("talk/theirs {qos}")] {
                ours.await_line(&line);
                theirs.await_line(&line);
            }
        }
    }
}

#[test]
fn they_talk_with_mosquittos_clients_by_the_gateway() {
    talk_with(&gateway().port("mqtt"));
}

#[test]
fn they_talk_with_mosquittos_clients_by_mosquitto() {
    talk_with(&Mosquitto::start().port);
}

#[test]
fn payloads_are_read_from_the_named_source() {
    let gateway = gateway();
    let port = gateway.port("mqtt");
    let file = gateway.folder.join("payload");
    std::fs::write(&file, "of a file").expect("written");
    let mut client = subscriber(&port, &["-t", "from/#", "-t", "ready", "-F", "%t=%p;%l;%r"]);
    await_subscriber(&port, &mut client);
    for (arguments, input, expected) in [
        (&["-t", "from/m", "-m", "text"][..], "", "from/m=text;4;0"),
        (
            &["-t", "from/f", "-f", &file.display().to_string()],
            "",
            "from/f=of a file;9;0",
        ),
        (&["-t", "from/s", "-s"], "all\n", "from/s=all\n;4;0"),
        (
            &["-t", "from/l", "-l", "-q", "1"],
            "one\ntwo\n",
            "from/l=two;3;0",
        ),
        (&["-t", "from/n", "-n"], "", "from/n=;0;0"),
    ] {
        let output = publish(&port, arguments, input);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text_of(&output)
        );
        client.await_line(expected.lines().last().expect("a line"));
    }
    client.await_line("from/l=one;3;0");
}

#[test]
fn kept_messages_properties_and_counts_work_as_with_mosquitto() {
    let gateway = gateway();
    let port = gateway.port("mqtt");
    let arguments = [
        "-t",
        "state/door",
        "-m",
        "open",
        "-r",
        "-q",
        "1",
        "-D",
        "publish",
        "content-type",
        "text/plain",
        "-D",
        "publish",
        "user-property",
        "colour",
        "red",
    ];
    let output = publish(&port, &arguments, "");
    // Without a subscriber: that is a success.
    assert!(output.status.success(), "{}", text_of(&output));
    let get = |arguments: &[&str]| {
        let all = [
            &["sub", "-p", &port, "-t", "state/+", "-C", "1", "-W", "60"],
            arguments,
        ]
        .concat();
        run(GATEPOST, &all, b"")
    };
    let printed = get(&["-F", "%t %r %C %P %p"]);
    assert_eq!(
        text_of(&printed),
        "state/door 1 text/plain colour:red open\n"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&get(&["--json"]).stdout).expect("a line of JSON");
    assert_eq!(
        (&json["topic"], &json["payload"]),
        (&"state/door".into(), &"open".into())
    );
    let url = format!("mqtt://127.0.0.1:{port}/state/door");
    let by_url = run(GATEPOST, &["sub", "-L", &url, "-C", "1", "-v"], b"");
    assert_eq!(text_of(&by_url), "state/door open\n");
    let waited = run(
        GATEPOST,
        &["sub", "-p", &port, "-t", "never", "-W", "1"],
        b"",
    );
    assert_eq!(waited.status.code(), Some(27));
}

#[test]
fn a_lost_will_arrives() {
    let gateway = gateway();
    let port = gateway.port("mqtt");
    let mut watcher = subscriber(&port, &["-t", "will", "-t", "ready"]);
    await_subscriber(&port, &mut watcher);
    let will = [
        "-t",
        "x",
        "--will-topic",
        "will",
        "--will-payload",
        "gone",
        "-t",
        "ready",
    ];
    let mut lost = subscriber(&port, &will);
    await_subscriber(&port, &mut lost);
    drop(lost);
    watcher.await_line("gone");
}

#[test]
fn a_subscriber_reconnects_when_the_broker_is_back() {
    let first = Mosquitto::start();
    let port = first.port.clone();
    let mut client = subscriber(&port, &["-t", "ready", "-F", "%p"]);
    await_subscriber(&port, &mut client);
    drop(first);
    let _second = Mosquitto::on(port.clone());
    await_some("it is back", || {
        run(
            "mosquitto_pub",
            &["-p", &port, "-t", "ready", "-m", "again"],
            b"",
        );
        client
            .seen()
            .iter()
            .any(|line| line == "again")
            .then_some(())
    });
}

/// The next packet of a client: its first byte, and what follows its length.
fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    let first = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7F) << shift;
        shift += 7;
        if byte[0] < 0x80 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((first, body))
}

/// A broker's end of a connection that has just begun.
fn greeted(listener: &TcpListener) -> (TcpStream, Vec<u8>) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream
        .set_read_timeout(Some(support::PATIENCE))
        .expect("a timeout");
    let (first, connect) = packet(&mut stream).expect("a CONNECT");
    assert_eq!(first, 0x10);
    stream
        .write_all(&[0x20, 2, 0, 0])
        .expect("the client reads");
    (stream, connect)
}

#[test]
fn unacknowledged_messages_are_sent_again_over_the_next_connection() {
    for qos in ["1", "2"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let arguments = ["pub", "-p", &port, "-V", "311", "-q", qos, "-t", "a", "-l"];
        let client = std::thread::spawn({
            let arguments = arguments.map(str::to_owned);
            move || {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                run(GATEPOST, &arguments, b"one\ntwo\nthree\n")
            }
        });
        let (mut stream, _) = greeted(&listener);
        let sent: Vec<_> = (0..3).filter_map(|_| packet(&mut stream)).collect();
        assert_eq!(sent.len(), 3);
        // The first is acknowledged, of the others nothing is known when the connection breaks.
        let level = u8::from(qos == "2");
        let acknowledge = |stream: &mut TcpStream, body: &[u8]| {
            let answer = [0x40 + 0x10 * level, 2, body[3], body[4]];
            stream.write_all(&answer).expect("the client reads");
            if level == 1 {
                let (first, released) = packet(stream).expect("a PUBREL");
                assert_eq!((first, &released[..]), (0x62, &body[3..5]));
                let done = [0x70, 2, body[3], body[4]];
                stream.write_all(&done).expect("the client reads");
            }
        };
        acknowledge(&mut stream, &sent[0].1);
        // Sent after the acknowledgement, so that the client has read it when the end comes.
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        while packet(&mut stream).is_some() {}
        drop(stream);

        let (mut stream, connect) = greeted(&listener);
        assert_eq!(connect[7] & 2, 0, "the session goes on");
        for (first, body) in &sent[1..] {
            let again = packet(&mut stream).expect("a PUBLISH");
            assert_eq!(again, (first | 8, body.clone()), "the same, with DUP");
        }
        for (_, body) in &sent[1..] {
            acknowledge(&mut stream, body);
        }
        let (first, _) = packet(&mut stream).expect("a DISCONNECT");
        assert_eq!(first, 0xE0, "nothing is sent a third time");
        drop(stream);
        let output = client.join().expect("it ends");
        assert!(output.status.success(), "{}", text_of(&output));
    }
}

#[test]
fn a_connection_that_waits_for_lines_is_kept_and_renewed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let mut client = command(GATEPOST)
        .args(["pub", "-p", &port, "-V", "311", "-k", "1", "-t", "a", "-l"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("gatepost runs");
    let mut input = client.stdin.take().expect("piped");
    let (mut stream, _) = greeted(&listener);
    let (first, _) = packet(&mut stream).expect("a PINGREQ");
    assert_eq!(first, 0xC0);
    // The end of the connection is noticed before there is a line to publish.
    drop(stream);
    let (mut stream, _) = greeted(&listener);
    input.write_all(b"caf\xe9\n").expect("the client reads");
    drop(input);
    let mut packets = std::iter::from_fn(|| packet(&mut stream));
    let published = packets.find(|(first, _)| *first == 0x30);
    let (_, body) = published.expect("a PUBLISH");
    assert_eq!(body, b"\0\x01acaf\xe9");
    assert!(client.wait().expect("it ends").success());
}

#[test]
fn refusals_and_mistakes_have_their_codes() {
    let gateway = gateway();
    let port = gateway.port("mqtt");
    let refused = publish(&port, &["-t", "$SYS/x", "-m", "x", "-q", "1"], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text_of(&refused).contains("0x87"), "{}", text_of(&refused));
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let unused_port = free.local_addr().expect("bound").port().to_string();
    drop(free);
    for (arguments, code, part) in [
        (
            &["pub", "-p", &unused_port, "-t", "a", "-m", "x"][..],
            69,
            "refused",
        ),
        (&["pub", "-p", &port, "-m", "x"], 64, "-t TOPIC"),
        (&["pub", "-L", "http://x/y", "-m", "x"], 64, "mqtt://"),
        (
            &["sub", "-p", &port, "-t", "a/#/b"],
            64,
            "not a topic filter",
        ),
        (
            &["sub", "-p", &port, "-t", "a", "-F", "%y"],
            64,
            "no field %y",
        ),
        (
            &[
                "pub", "-p", &port, "-t", "a", "-m", "x", "-D", "publish", "colour", "red",
            ],
            64,
            "no such property",
        ),
        (&["pub", "-p", &port, "-t", "a"], 2, "--message"),
    ] {
        let output = run(GATEPOST, arguments, b"");
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}
