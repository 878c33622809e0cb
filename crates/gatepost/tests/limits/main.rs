//! The limits that need a whole server: each is set low, reached, and answered in the protocol's
//! terms; clients below it are served. (Limits of one conversation are cases of the listeners' own
//! tests, those of a mail's structure of the rules'.)

#[path = "../support/mod.rs"]
mod support;

mod bans;
mod connections;
mod drips;
mod http2_uploads;
mod in_flight;
mod judging;
mod memory_at_start;
mod pages;
mod stored;
mod unread_answers;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use support::{
    Client, Gateway, PATIENCE, await_some, post, run, send_raw_greeted, text_of, to_the_end,
};

/// With the small rule set: none of these asks for more.
fn start(settings: &str) -> Gateway {
    Gateway::start(&format!("rules.paths = []\n{settings}"))
}

/// A connection that waits long enough for any answer.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// The same from this address of the loopback.
fn connect_from(client: &str, address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let client: IpAddr = client.parse().expect("an address");
    let client = SocketAddr::new(client, 0);
    socket
        .bind(&client.into())
        .expect("an address of the loopback");
    socket.connect(&address.into()).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    TcpStream::from(socket)
}

/// Writes, and reads until the answer holds `part`.
fn converse(stream: &mut TcpStream, bytes: &[u8], part: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).expect("the server reads");
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !holds(&answer, part) {
        let count = stream
            .read(&mut buffer)
            .expect("an answer within the limit");
        assert!(
            count > 0,
            "closed after {}",
            String::from_utf8_lossy(&answer)
        );
        answer.extend_from_slice(&buffer[..count]);
    }
    answer
}

fn holds(answer: &[u8], part: &[u8]) -> bool {
    part.is_empty() || answer.windows(part.len()).any(|window| window == part)
}

/// An MQTT 5 CONNECT with these properties and this client id.
fn connect_packet(properties: &[u8], client: &str, keep_alive_seconds: u16) -> Vec<u8> {
    let mut rest = b"\0\x04MQTT\x05\x02".to_vec();
    rest.extend(keep_alive_seconds.to_be_bytes());
    rest.push(u8::try_from(properties.len()).expect("few"));
    rest.extend(properties);
    rest.extend(u16::try_from(client.len()).expect("short").to_be_bytes());
    rest.extend(client.as_bytes());
    mqtt_packet(0x10, &rest)
}

/// A packet of MQTT: its first byte, its remaining length, and the rest.
fn mqtt_packet(first: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut length = rest.len();
    while length > 127 {
        packet.push(length as u8 & 0x7f | 0x80);
        length >>= 7;
    }
    packet.push(length as u8);
    packet.extend(rest);
    packet
}

#[test]
fn mqtt_limits() {
    let gateway = start(
        "listeners.mqtt.packet_max = \"100B\"\nlisteners.mqtt.client_id_bytes_max = 8\n\
         listeners.mqtt.receive_max = 3\n\
         listeners.mqtt.topic_alias_max = 2\nlisteners.mqtt.keep_alive_max_seconds = 30\n",
    );
    let address = gateway.address("mqtt");
    let mut stream = connect(address);
    let welcome = converse(
        &mut stream,
        &connect_packet(&[], "short", 600),
        b"\x13\0\x1e",
    );
    // CONNACK reports each limit (section 3.2.2.3): receive maximum 0x21, maximum packet size 0x27,
    // topic alias maximum 0x22, server keep alive 0x13.
    for property in [
        &b"\x21\0\x03"[..],
        b"\x27\0\0\0\x64",
        b"\x22\0\x02",
        b"\x13\0\x1e",
    ] {
        assert!(
            holds(&welcome, property),
            "{property:02x?} in {welcome:02x?}"
        );
    }
    // A packet over the limit: DISCONNECT 0x95, packet too large.
    let mut large = vec![0x30, 0x7f];
    large.extend([0; 127]);
    stream.write_all(&large).expect("the server reads");
    assert!(holds(&to_the_end(&mut stream), b"\x95"));

    // An alias over the limit: DISCONNECT 0x94, topic alias invalid.
    let mut stream = connect(address);
    converse(&mut stream, &connect_packet(&[], "a", 0), b"\x20");
    stream
        .write_all(b"\x30\x07\0\x01a\x03\x23\0\x03")
        .expect("the server reads");
    assert!(holds(&to_the_end(&mut stream), b"\x94"));

    // More QoS 2 publishes without their PUBREL than the receive maximum: DISCONNECT 0x93.
    let mut stream = connect(address);
    converse(&mut stream, &connect_packet(&[], "b", 0), b"\x20");
    for id in 1..=4 {
        // A refusal may come before the last is written.
        let _ = stream.write_all(&[0x34, 6, 0, 1, b'a', 0, id, 0]);
    }
    assert!(holds(&to_the_end(&mut stream), b"\x93"));

    // A client id over the limit: CONNACK 0x85.
    let mut stream = connect(address);
    stream
        .write_all(&connect_packet(&[], "much-too-long", 0))
        .expect("the server reads");
    assert!(holds(&to_the_end(&mut stream), b"\x85"));
}

/// A bound that is reached shows in the answer, the log, the metrics and under `$SYS`; a drop in
/// the last two, under its cause.
#[test]
fn a_limit_and_a_drop_are_reported_everywhere() {
    let gateway =
        start("broker.subscriptions_per_session_max = 1\nbroker.sys_interval = \"100ms\"\n");
    let mut stream = connect(gateway.address("mqtt"));
    // It takes no packet of more than 30 bytes (section 3.1.2.11.4).
    let narrow = connect_packet(b"\x27\0\0\0\x1e", "narrow", 0);
    converse(&mut stream, &narrow, b"\x20");
    let first = b"\x82\x07\0\x01\0\0\x01a\0";
    converse(&mut stream, first, b"\x90\x04\0\x01\0\0");
    let second = b"\x82\x07\0\x02\0\0\x01b\0";
    let answer = converse(&mut stream, second, b"\x97");
    assert!(holds(&answer, b"\x90"), "a SUBACK: {answer:02x?}");
    post(&gateway, "a", &"x".repeat(100));

    let expected = [
        (
            "gatepost_limit_reached_total{limit=\"subscriptions\"} 1",
            "limits/subscriptions",
        ),
        (
            "gatepost_dropped_total{cause=\"too_large\"} 1",
            "publish/messages/dropped/too_large",
        ),
    ];
    for (metric, topic) in expected {
        await_some(metric, || {
            let metrics = text_of(&run("curl", &["-sf", &gateway.url("/metrics")], b""));
            metrics.lines().any(|line| line == metric).then_some(())
        });
        let topic = format!("$SYS/broker/{topic}");
        Client::subscribe(&gateway, &topic, "%t %p").await_line(&format!("{topic} 1"));
    }
    let log = gateway.log();
    let is_warning = |line: &str| {
        let parts = ["a limit is reached", "subscriptions", "narrow"];
        parts.iter().all(|part| line.contains(part))
    };
    assert_eq!(
        log.lines().filter(|line| is_warning(line)).count(),
        1,
        "{log}"
    );
}

#[test]
fn mqtt_connect_timeout() {
    let gateway = start("listeners.mqtt.connect_timeout = \"50ms\"\n");
    let mut silent = connect(gateway.address("mqtt"));
    silent.write_all(b"\x10").expect("the server reads");
    assert_eq!(
        to_the_end(&mut silent),
        b"",
        "closed, since no CONNECT came"
    );
}

#[test]
fn smtp_line_max_and_message_timeout() {
    let gateway =
        start("listeners.smtp.line_max = \"1KiB\"\nlisteners.lmtp.message_timeout = \"50ms\"\n");
    let begin = b"EHLO x\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<alarms@localhost>\r\nDATA\r\n";
    let line = |length: usize| {
        [
            &begin[..],
            b"Subject: x\r\n\r\n",
            &vec![b'x'; length],
            b"\r\n.\r\nQUIT\r\n",
        ]
        .concat()
    };
    let taken = send_raw_greeted(&gateway, "smtp", b"", &line(1000));
    assert!(
        holds(&taken, b"\r\n250 2."),
        "{}",
        String::from_utf8_lossy(&taken)
    );
    let refused = send_raw_greeted(&gateway, "smtp", b"", &line(2000));
    let refused = String::from_utf8_lossy(&refused);
    assert!(refused.contains("line"), "{refused}");

    // A message that drips for longer than a whole message may take.
    let mut stream = connect(gateway.address("lmtp"));
    // The server speaks first.
    converse(&mut stream, b"", b"220 ");
    let begin = String::from_utf8_lossy(begin).replace("EHLO", "LHLO");
    converse(&mut stream, begin.as_bytes(), b"354 ");
    drip(&mut stream, b"x\r\n");
}

#[test]
fn a_command_that_drips_is_not_waited_for() {
    let gateway = start(
        "listeners.smtp.command_timeout = \"50ms\"\nlisteners.pop3.idle_time_max = \"50ms\"\n\
         listeners.milter.idle_time_max = \"50ms\"\n",
    );
    for listener in ["smtp", "pop3"] {
        let mut stream = connect(gateway.address(listener));
        converse(&mut stream, b"", b"\r\n");
        drip(&mut stream, b"N");
    }
    // The beginning of a packet that is long, and not too long.
    let mut stream = connect(gateway.address("milter"));
    stream.write_all(b"\0\0\xff\xff").expect("sent");
    drip(&mut stream, b"B");
}

/// Writes `piece` again and again, until the other side has enough of it.
fn drip(stream: &mut TcpStream, piece: &[u8]) {
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(20));
        if stream.write_all(piece).is_err() {
            return;
        }
    }
    panic!("a drip is read without end");
}

#[test]
fn rules_read_a_message_up_to_their_limit() {
    let gateway = start("rules.max_size = \"64KiB\"\n");
    // GTUBE is 100,000 bytes into the message, or near its begin.
    let gtube = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
    for (filler, spam) in [(100_000, false), (10_000, true)] {
        let text = "filler words\n".repeat(filler / 13);
        let message = format!("Subject: x\n\n{text}\n{gtube}\n");
        let output = run(
            "spamc",
            &["-c", "-p", &gateway.port("spamd"), "-s", "1000000"],
            message.as_bytes(),
        );
        assert_eq!(
            output.status.code(),
            Some(i32::from(spam)),
            "{}",
            text_of(&output)
        );
    }
}
