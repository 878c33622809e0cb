//! The server as a service manager sees it: the messages of sd_notify(3), sockets that it passes
//! (sd_listen_fds(3)) and credentials. The manager here is the test itself.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};

use support::{Gateway, PATIENCE, run};

/// These tests need no rules, and loading them takes seconds.
const NO_RULES: &str = "rules.paths = []\n";

/// The manager's end of `NOTIFY_SOCKET`.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(socket)
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The next message that is neither a sign of life nor a status.
    fn state(&self) -> String {
        loop {
            let message = self.receive();
            if message != "WATCHDOG=1" && !message.starts_with("STATUS=") {
                return message;
            }
        }
    }

    fn await_start(&self, of_message: &str) {
        while !self.receive().starts_with(of_message) {}
    }
}

#[test]
fn the_manager_learns_each_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = Manager::listen(&path);
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().expect("a path")),
        ("WATCHDOG_USEC", "300000"),
    ];
    let gateway = Gateway::try_start_in(folder.path(), NO_RULES, &environment).expect("started");
    assert_eq!(manager.state(), "READY=1");
    manager.await_start("STATUS=0 sessions");
    for _ in 0..3 {
        manager.await_start("WATCHDOG=1");
    }
    gateway.signal("HUP");
    let reloading = manager.state();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(manager.state(), "READY=1");
    assert_eq!(gateway.terminate(), Some(0));
    let stopping = manager.state();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
}

#[test]
fn the_manager_learns_why_there_was_no_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = Manager::listen(&path);
    let environment = [("NOTIFY_SOCKET", path.to_str().expect("a path"))];
    let settings = "listeners.mqtt.tls.cert = \"missing\"\nlisteners.mqtt.tls.key = \"missing\"\n";
    assert!(Gateway::try_start_in(folder.path(), settings, &environment).is_err());
    let message = manager.receive();
    assert!(
        message.starts_with("STATUS=Not started: listeners.mqtt.tls"),
        "{message}"
    );
}

/// A script for [`Gateway::start_after`]: the listener becomes descriptor 3 and has this name.
fn pass(listener: &TcpListener, name: &str) -> String {
    fcntl_setfd(listener, FdFlags::empty()).expect("inherited");
    let socket = listener.as_raw_fd();
    // A number of two digits is beyond dash.
    format!(
        "exec bash -c 'exec 3<&{socket}; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={name}; \
         exec \"$@\"' bash \"$@\""
    )
}

fn request(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_passed_socket_serves_its_address_and_survives_the_server() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{NO_RULES}listeners.http.bind = [\"{address}\"]\n");
    for name in ["http", "gatepost.socket"] {
        let script = pass(&socket, name);
        // A client that connects before the start is served: the manager listens, not the server.
        let waiting = std::thread::spawn(move || request(address));
        let gateway = Gateway::start_after(&script, folder.path(), &settings);
        assert_eq!(gateway.address("http"), address);
        let answer = waiting.join().expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(gateway.terminate(), Some(0));
    }
}

#[test]
fn a_passed_socket_opens_nothing_that_the_config_does_not_name() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    for (name, settings) in [
        ("http", String::new()),
        ("smtp", format!("listeners.http.bind = [\"{address}\"]\n")),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let script = pass(&socket, name);
        let refused = Gateway::try_after(&script, folder.path(), &settings);
        let log = refused.err().expect("refused");
        // Named after another listener, it is not taken, and its port is in use.
        assert!(
            log.contains("which is in no `bind`") || log.contains("in use"),
            "{log}"
        );
    }
}

#[test]
fn keys_come_as_credentials() {
    let folder = tempfile::tempdir().expect("a folder");
    let credentials = folder.path().join("credentials");
    fs::create_dir(&credentials).expect("a folder");
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = made.signing_key.serialize_pem();
    fs::write(credentials.join("mqtt.key"), key).expect("written");
    fs::write(folder.path().join("mqtt.pem"), made.cert.pem()).expect("written");
    let settings = "listeners.mqtt.tls.cert = \"mqtt.pem\"\n\
                    listeners.mqtt.tls.key = \"credential:mqtt.key\"\n\
                    rules.paths = []\n";
    let path = credentials.to_str().expect("a path");
    let with = [("CREDENTIALS_DIRECTORY", path)];
    let gateway = Gateway::try_start_in(folder.path(), settings, &with).expect("started");
    assert!(gateway.port("mqtt/tls").parse::<u16>().is_ok());
    drop(gateway);
    let log = Gateway::try_start_in(folder.path(), settings, &[]).err();
    let log = log.expect("refused");
    assert!(log.contains("credential:mqtt.key"), "{log}");
}

#[test]
fn a_health_check_asks_the_server_of_the_config() {
    let gateway = Gateway::start(NO_RULES);
    let check = |url: &str| {
        let program = env!("CARGO_BIN_EXE_gatepost");
        let output = run(program, &["healthcheck", "--url", url], b"");
        output.status.code()
    };
    let url = gateway.url("");
    assert_eq!(check(&url), Some(0));
    // It answers, but is not a Gatepost that is ready.
    assert_eq!(check(&gateway.url("").replace("http:", "https:")), Some(69));
    assert_eq!(gateway.terminate(), Some(0));
    assert_eq!(check(&url), Some(69));
}
