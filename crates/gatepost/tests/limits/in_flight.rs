//! Bytes of unfinished input: one budget for all listeners.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::postfix::Postfix;
use super::support::{run, send_raw, swaks, text_of};
use super::{connect, connect_packet, converse, holds, mqtt_packet, start};

/// A PUBLISH of QoS 1 to `a`, as long as 900 KB.
fn large_publish() -> Vec<u8> {
    const PAYLOAD_BYTES: usize = 900_000;
    let mut rest = b"\0\x01a\0\x07\0".to_vec();
    rest.resize(rest.len() + PAYLOAD_BYTES, b'x');
    mqtt_packet(0x32, &rest)
}

#[test]
fn unfinished_packets_of_mqtt_leave_room_for_others() {
    let gateway = start("in_flight.bytes_max = \"4MiB\"\n");
    let packet = large_publish();
    let (begin, end) = packet.split_at(packet.len() - 10);
    let enter = |client: &str| {
        let mut stream = connect(gateway.address("mqtt"));
        let connect = connect_packet(&[], client, 0);
        converse(&mut stream, &connect, b"\x20");
        stream
    };
    // Half of the budget is this address's: two packets, and no third.
    let mut begun: Vec<TcpStream> = (0..6).map(|number| enter(&number.to_string())).collect();
    for stream in &mut begun {
        // Requests beyond the budget are ended while they are sent.
        let _ = stream.write_all(begin);
    }
    let mut refused = 0;
    for stream in &mut begun {
        let _ = stream.write_all(end);
        let said = to_the_end_or(stream, b"\x40");
        if holds(&said, b"too many bytes are in flight") || said.is_empty() {
            refused += 1;
        }
    }
    assert!((1..6).contains(&refused), "{refused} of 6");
    let mut later = enter("later");
    // The budget is given back.
    converse(&mut later, &packet, b"\x40");
}

/// Reads until the answer holds `part`, or the end.
fn to_the_end_or(stream: &mut TcpStream, part: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !said.starts_with(part) {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => said.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    said
}

/// A message that is larger than an address's share of the budget, and one that is not.
const MESSAGE_BYTES: [(usize, bool); 2] = [(900_000, false), (9_000, true)];

fn mail(bytes: usize) -> String {
    format!("Subject: x\n\n{}", "filler words\n".repeat(bytes / 13))
}

#[test]
fn a_mail_beyond_the_budget_is_a_temporary_failure_of_spamd() {
    let gateway = start("in_flight.bytes_max = \"1MiB\"\n");
    for (bytes, is_judged) in MESSAGE_BYTES {
        let port = gateway.port("spamd");
        let client = ["-F", "/dev/null", "-x", "-d", "127.0.0.1", "-p", &port];
        let arguments = [&client[..], &["-s", "1000000"]].concat();
        let output = run("spamc", &arguments, mail(bytes).as_bytes());
        // The exit code of spamc for the EX_TEMPFAIL of the server.
        let expected = if is_judged { 0 } else { 74 };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{bytes}: {}",
            text_of(&output)
        );
    }
}

#[test]
fn a_call_beyond_the_budget_fails() {
    let gateway = start("in_flight.bytes_max = \"1MiB\"\n");
    for (bytes, is_judged) in MESSAGE_BYTES {
        let mail = mail(bytes);
        let request = format!("CALL/1 /spamcheck\nsize: {}\n\n{mail}", mail.len());
        let answer = send_raw(gateway.address("call"), request.as_bytes());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let is_refused = answer.contains("too many bytes are in flight");
        assert_eq!(is_refused, !is_judged, "{bytes}: {answer}");
        assert!(!answer.is_empty(), "{bytes}");
    }
}

/// By a real Postfix, which answers its client with the milter's temporary failure.
#[test]
fn a_mail_beyond_the_budget_is_a_temporary_failure_of_the_milter() {
    let gateway = start("in_flight.bytes_max = \"1MiB\"\n");
    // A milter that does not answer would be passed over: this is its own answer.
    let milters = format!(
        "smtpd_milters = inet:127.0.0.1:{}\nmilter_default_action = accept\n",
        gateway.port("milter")
    );
    let postfix = Postfix::start(&milters);
    let file = gateway.folder.join("mail");
    let data = format!("@{}", file.display());
    let server = postfix.address().to_string();
    for (bytes, is_judged) in MESSAGE_BYTES {
        std::fs::write(&file, mail(bytes)).expect("written");
        let sent = swaks(
            &server,
            "otto@example.org",
            "anna@boxes.example",
            &["--data", &data],
        );
        let said = text_of(&sent);
        assert_eq!(
            said.contains("<** 452 4.3.1 "),
            !is_judged,
            "{bytes}: {said}"
        );
        assert_eq!(said.contains("<-  250 2.0.0"), is_judged, "{bytes}: {said}");
    }
}
