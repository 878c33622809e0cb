//! Clients that send a byte now and then within each kind of unfinished input: a limit on pauses
//! does not bound it, so each has an absolute deadline or a minimum rate.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::support::authority::Authority;
use super::support::cases::{Block, blocks};
use super::support::{Gateway, add_user, await_some, text_of};
use super::{PATIENCE, connect, converse, holds};

/// Everything may take a second or two.
const SETTINGS: &str = "rules.paths = []
access.default = \"allow\"
listeners.mqtt.anonymous = \"yes\"
listeners.http.anonymous = \"yes\"
listeners.smtp.hello_timeout = \"2s\"
listeners.smtp.command_timeout = \"1s\"
listeners.smtp.data_timeout = \"1s\"
listeners.lmtp.command_timeout = \"1s\"
listeners.lmtp.data_timeout = \"1s\"
listeners.pop3.login_time_max = \"2s\"
listeners.pop3.idle_time_max = \"1s\"
listeners.call.head_time_max = \"1s\"
listeners.call.body_time_max = \"1s\"
listeners.spamd.request_time_max = \"1s\"
listeners.milter.idle_time_max = \"1s\"
listeners.mqtt.connect_timeout = \"2s\"
listeners.mqtt.packet_timeout = \"1s\"
listeners.mqtt.tls.handshake_timeout = \"1s\"
listeners.mqtt.tls.bind = [\"127.0.0.1:0\"]
listeners.http.head_timeout = \"1s\"
listeners.http.body_timeout = \"1s\"
listeners.http.idle_timeout = \"1s\"
";

/// Sends the case's bytes, and then its drip until the server ends the connection; returns the
/// server's bytes.
fn drip(address: SocketAddr, case: &Block) -> Vec<u8> {
    let listener = case.field("listener");
    let mut stream = connect(address);
    if matches!(listener.as_str(), "smtp" | "lmtp" | "pop3") {
        converse(&mut stream, b"", b"\r\n");
    }
    stream.write_all(&case.bytes("begin")).expect("sent");
    let pause = Some(Duration::from_millis(50));
    stream.set_read_timeout(pause).expect("a timeout");
    let (drip, until) = (case.bytes("drip"), Instant::now() + PATIENCE);
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while Instant::now() < until {
        match stream.read(&mut buffer) {
            Ok(0) => return said,
            Ok(count) => said.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return said,
            Err(_) => {
                // The server may have closed meanwhile, which the next read shows.
                let _ = stream.write_all(&drip);
            }
        }
    }
    panic!("{}: still open after {}", case.name, said.escape_ascii());
}

#[test]
fn a_drip_holds_no_connection_of_any_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    Authority::new(folder.path(), "authority").sign("mx", "mx.example", &["mx.example"]);
    let path = |file: &str| folder.path().join(file).display().to_string();
    let tls = format!(
        "listeners.mqtt.tls.cert = \"{}\"\nlisteners.mqtt.tls.key = \"{}\"\n",
        path("mx.pem"),
        path("mx.key")
    );
    let gateway = Gateway::start_in(folder.path(), &(SETTINGS.to_owned() + &tls));
    let added = add_user(&gateway, "anna", "secret of anna", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("the server knows the user", || {
        let mut stream = connect(gateway.address("pop3"));
        converse(&mut stream, b"", b"\r\n");
        let login = b"USER anna\r\nPASS secret of anna\r\nQUIT\r\n";
        let said = converse(&mut stream, login, b"good bye");
        holds(&said, b"+OK 0 messages").then_some(())
    });
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/drips.txt");
    let cases = blocks(&cases);
    assert!(cases.len() > 20, "the cases are there");
    std::thread::scope(|scope| {
        for case in &cases {
            let address = gateway.address(&case.field("listener"));
            scope.spawn(move || {
                let (began, said) = (Instant::now(), drip(address, case));
                assert!(
                    holds(&said, &case.bytes("expect")),
                    "{}: {}",
                    case.name,
                    said.escape_ascii()
                );
                // A refusal of the sent bytes would arrive immediately.
                let waited = began.elapsed();
                assert!(
                    waited > Duration::from_millis(800),
                    "{}: {waited:?}",
                    case.name
                );
            });
        }
    });
}
