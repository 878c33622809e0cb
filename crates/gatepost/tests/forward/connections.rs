//! Connections to the next hop: reused, and replaced by new ones if the next hop accepts no more
//! messages over them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::postfix::Postfix;
use crate::support::{run, text_of};
use crate::{gateway, send, smtp};

#[test]
fn connections_to_the_next_hop_are_used_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("");
    let gateway = gateway(folder.path(), &smtp(&next_hop), "");
    let server = format!("inet:{}", gateway.address("smtp"));
    // A connection of its own for each message.
    let output = run(
        "smtp-source",
        &[
            "-m",
            "30",
            "-s",
            "2",
            "-f",
            "otto@example.org",
            "-t",
            "anna@boxes.example",
            &server,
        ],
        b"",
    );
    assert!(output.status.success(), "{}", text_of(&output));
    next_hop.await_mail("anna", 30);
    // One was the test's own, to see whether Postfix listens.
    let connections = next_hop.log().matches(": connect from").count();
    assert!(
        connections <= 6,
        "{connections} connections for 30 messages"
    );
}

/// A next hop that takes so many messages over a connection, and answers `452` to the next.
struct LimitedHop {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl LimitedHop {
    fn start(messages_max: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                // A client that leaves ends its thread with an error.
                std::thread::spawn(move || speak(client, messages_max));
            }
        });
        Self {
            address,
            connections,
        }
    }
}

fn speak(mut client: TcpStream, messages_max: usize) -> std::io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    client.write_all(b"220 limited ESMTP\r\n")?;
    let mut messages = 0;
    while let Some(line) = lines.next().transpose()? {
        let reply = match line.get(..4).unwrap_or_default() {
            "MAIL" if messages == messages_max => "452 4.5.3 Too many messages",
            "MAIL" => {
                messages += 1;
                "250 2.1.0 ok"
            }
            "DATA" => {
                client.write_all(b"354 go ahead\r\n")?;
                while lines.next().transpose()?.is_some_and(|line| line != ".") {}
                "250 2.0.0 Ok: taken"
            }
            "QUIT" => return client.write_all(b"221 bye\r\n"),
            _ => "250 ok",
        };
        client.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_connection_that_refuses_further_messages_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = LimitedHop::start(2);
    let hop = format!("smtp://{}", next_hop.address);
    // One worker has one pool of connections.
    let gateway = gateway(folder.path(), &hop, "workers.count = 1");
    let server = gateway.address("smtp").to_string();
    for _ in 0..5 {
        let transcript = send(&server, "anna@boxes.example", &[]);
        assert!(transcript.contains("250 2.0.0 Ok: taken"), "{transcript}");
    }
    assert_eq!(next_hop.connections.load(Ordering::SeqCst), 3);
}

#[test]
fn a_refusal_that_a_new_connection_repeats_reaches_the_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let never = LimitedHop::start(0);
    let gateway_folder = tempfile::tempdir().expect("a folder");
    let first = gateway(folder.path(), &format!("smtp://{}", never.address), "");
    let transcript = send(
        &first.address("smtp").to_string(),
        "anna@boxes.example",
        &[],
    );
    assert!(
        transcript.contains("<** 452 4.5.3 Too many messages"),
        "{transcript}"
    );
    assert_eq!(never.connections.load(Ordering::SeqCst), 1);

    // Postfix counts the messages of a client over all its connections.
    let limited = Postfix::start(
        "smtpd_client_message_rate_limit = 2\nsmtpd_client_event_limit_exceptions =\n\
         anvil_rate_time_unit = 3600s",
    );
    let second = gateway(gateway_folder.path(), &smtp(&limited), "workers.count = 1");
    let server = second.address("smtp").to_string();
    for _ in 0..2 {
        let transcript = send(&server, "anna@boxes.example", &[]);
        assert!(
            transcript.contains("250 2.0.0 Ok: queued as"),
            "{transcript}"
        );
    }
    let transcript = send(&server, "anna@boxes.example", &[]);
    assert!(
        transcript.contains("<** 450 4.7.1 Error: too much mail"),
        "{transcript}"
    );
    let log = limited.await_log("rate limit exceeded: 4");
    // The test's own, the first for two messages, and one more that was tried for the third.
    assert_eq!(log.matches(": connect from").count(), 3, "{log}");
    limited.await_mail("anna", 2);
}
