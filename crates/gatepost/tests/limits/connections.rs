//! The number of connections that a listener accepts, in total and from one address.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::support::{Gateway, await_some, send_raw_greeted};
use crate::{connect, connect_from, converse, holds, start};

/// A listener's name, the bytes that a client sends, and parts of the answer and of the refusal of
/// one connection too many. An empty refusal means that the connection is closed without a reply.
type Listener = (&'static str, &'static [u8], &'static [u8], &'static [u8]);

const LISTENERS: [Listener; 6] = [
    ("smtp", b"NOOP\r\n", b"250 ", b"421 "),
    ("lmtp", b"NOOP\r\n", b"250 ", b"421 "),
    ("spamd", b"PING SPAMC/1.5\r\n\r\n", b"PONG", b"SPAMD/"),
    ("call", b"CALL/1 /noop\n\n", b"DONE accept", b"FAIL "),
    (
        "mqtt",
        b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0",
        b"\x20",
        b"",
    ),
    (
        "http",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"200 OK",
        b"",
    ),
];

/// The server's first bytes. A client that speaks before them is refused.
fn greeting_of(listener: &str) -> &'static [u8] {
    match listener {
        "smtp" | "lmtp" => b"220 ",
        _ => b"",
    }
}

/// Waits until the server has closed one of the connections, removes it and returns what it
/// received; the others have received their greeting. Which one is refused is the server's choice:
/// its workers accept side by side.
fn take_refused(listener: &str, hello: &[u8], streams: &mut Vec<TcpStream>) -> Vec<u8> {
    for stream in streams.iter_mut() {
        if listener == "http" {
            // A web client speaks first, and its connection is not accepted before that.
            stream.write_all(hello).expect("the server reads");
        }
        stream.set_nonblocking(true).expect("a mode");
    }
    let mut received = vec![Vec::new(); streams.len()];
    let refused = await_some("a connection is refused", || {
        streams
            .iter_mut()
            .zip(&mut received)
            .position(|(stream, received)| {
                let mut buffer = [0; 512];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => return true,
                        Ok(count) => received.extend_from_slice(&buffer[..count]),
                        Err(error) => return error.kind() != ErrorKind::WouldBlock,
                    }
                }
            })
    });
    streams.remove(refused);
    let answer = received.remove(refused);
    for (stream, received) in streams.iter_mut().zip(received) {
        stream.set_nonblocking(false).expect("a mode");
        if !holds(&received, greeting_of(listener)) {
            converse(stream, b"", greeting_of(listener));
        }
    }
    answer
}

#[test]
fn connections_max() {
    let settings =
        LISTENERS.map(|(listener, ..)| format!("listeners.{listener}.connections_max = 2\n"));
    let gateway = start(&settings.concat());
    for (listener, hello, welcome, refusal) in LISTENERS {
        let address = gateway.address(listener);
        let mut streams: Vec<_> = (0..3).map(|_| connect(address)).collect();
        let answer = take_refused(listener, hello, &mut streams);
        assert!(
            holds(&answer, refusal),
            "{listener}: {}",
            String::from_utf8_lossy(&answer)
        );
        // The others are served, and a connection slot that becomes free is used again.
        for mut stream in streams {
            converse(&mut stream, hello, welcome);
        }
        await_some(listener, || {
            let answer = send_raw_greeted(&gateway, listener, b"", hello);
            holds(&answer, welcome).then_some(())
        });
    }
}

#[test]
fn connections_per_address_max() {
    let limited = ["smtp", "lmtp", "spamd", "call", "mqtt", "http"];
    let settings =
        limited.map(|listener| format!("listeners.{listener}.connections_per_address_max = 1\n"));
    let counted = "bans.exempt_local = false\n".to_owned();
    let gateway = start(&(counted + &settings.concat()));
    for (listener, hello, welcome, refusal) in LISTENERS {
        let address = gateway.address(listener);
        let mut streams = vec![connect(address), connect(address)];
        let answer = take_refused(listener, hello, &mut streams);
        assert!(
            holds(&answer, refusal),
            "{listener}: {}",
            String::from_utf8_lossy(&answer)
        );
        // Another address of this machine is another client's.
        let mut stream = connect_from("127.0.0.2", address);
        converse(&mut stream, b"", greeting_of(listener));
        converse(&mut stream, hello, welcome);
    }
}

#[test]
fn idle_clients_of_one_listener_leave_descriptors_to_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    // More than enough for the database, logs and listening sockets, and fewer than the clients.
    let gateway = Gateway::start_with_descriptors(folder.path(), 400, "rules.paths = []\n");
    let address = gateway.address("smtp");
    let idle: Vec<TcpStream> = (0..420).map(|_| connect(address)).collect();
    await_some(
        "the idle clients are accepted as far as they may be",
        || {
            gateway
                .log()
                .contains("no more file descriptors")
                .then_some(())
        },
    );
    for listener in ["lmtp", "mqtt", "http"] {
        let (_, hello, welcome, _) = LISTENERS
            .iter()
            .find(|one| one.0 == listener)
            .expect("known");
        let answer = send_raw_greeted(&gateway, listener, b"", hello);
        assert!(holds(&answer, welcome), "{listener}: {answer:?}");
    }
    let warnings = gateway.log().matches("no more file descriptors").count();
    assert!(warnings <= 3, "{warnings} lines about the same");
    assert!(
        !gateway.log().contains("accept failed"),
        "{}",
        gateway.log()
    );
    drop(idle);
}

/// The default of MQTT follows from the descriptors, and leaves the reserves of all others.
#[test]
fn mqtt_accepts_no_more_connections_than_the_descriptors_permit() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_with_descriptors(folder.path(), 400, "rules.paths = []\n");
    let (_, hello, welcome, _) = LISTENERS[4];
    let mut served = Vec::new();
    for _ in 0..300 {
        let mut stream = connect(gateway.address("mqtt"));
        stream.write_all(hello).expect("sent");
        let mut first = [0; 5];
        // Beyond the limit they are refused, or closed unread.
        if stream.read_exact(&mut first).is_ok() && first[3] == 0 && first.starts_with(welcome) {
            served.push(stream);
        }
    }
    // 300 of 400 descriptors are for connections, 9 of them for each other listener.
    assert_eq!(served.len(), 165);
    assert!(!gateway.log().contains("no more file descriptors"));
}

#[test]
fn the_addresses_of_an_ipv6_network_count_as_one() {
    let gateway = start(
        "listeners.smtp.proxy_protocol = [\"127.0.0.1\"]\n\
         listeners.smtp.connections_per_address_max = 2\n",
    );
    let address = gateway.address("smtp");
    let greeting_of = |client: &str| {
        let mut stream = connect(address);
        let header = format!("PROXY TCP6 {client} ::1 4321 25\r\n");
        let greeting = converse(&mut stream, header.as_bytes(), b"\r\n");
        (stream, greeting)
    };
    let (_first, greeting) = greeting_of("2001:db8:0:1::1");
    assert!(holds(&greeting, b"220 "));
    let (_second, greeting) = greeting_of("2001:db8:0:1:ffff::2");
    assert!(holds(&greeting, b"220 "));
    let (_third, refusal) = greeting_of("2001:db8:0:1:1:2:3:4");
    assert!(holds(&refusal, b"421 4.7.0 too many connections"));
    let (_other, greeting) = greeting_of("2001:db8:0:2::1");
    assert!(holds(&greeting, b"220 "));
}
