//! Starts the real server on free ports, and the real clients beside it.

#![allow(dead_code, unused_imports)] // each test file uses its own part

pub(crate) mod authority;
pub(crate) mod cases;
mod client;
pub(crate) mod name_server;
mod ports;
pub(crate) mod postfix;
pub(crate) mod web_socket;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

pub(crate) use client::Client;
pub(crate) use ports::free_port;

/// The longest wait for anything that is not measured: generous, so that a busy machine fails
/// nothing.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Each listener that can be given an address.
const LISTENERS: [&str; 8] = [
    "smtp", "lmtp", "milter", "pop3", "spamd", "call", "mqtt", "http",
];

/// A running `gatepost serve`, on free ports of the loopback, with a folder of its own.
pub(crate) struct Gateway {
    child: Child,
    addresses: BTreeMap<String, SocketAddr>,
    pub folder: PathBuf,
    lines: Receiver<String>,
    keep: Option<tempfile::TempDir>,
}

impl Gateway {
    /// Starts in a new folder, with `settings` (TOML) after the free ports.
    pub(crate) fn start(settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut gateway = Self::start_in(folder.path(), settings);
        gateway.keep(folder);
        gateway
    }

    /// Starts in this folder, which may hold the data of an earlier start.
    pub(crate) fn start_in(folder: &Path, settings: &str) -> Self {
        Self::started(Self::start_by(
            Command::new(env!("CARGO_BIN_EXE_gatepost")),
            folder,
            settings,
        ))
    }

    /// As [`Gateway::start_in`], with more environment; the log, where the start was refused.
    pub(crate) fn try_start_in(
        folder: &Path,
        settings: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        command.envs(environment.iter().copied());
        Self::start_by(command, folder, settings)
    }

    /// Starts in this folder with so many file descriptors at most.
    pub(crate) fn start_with_descriptors(folder: &Path, descriptors: u32, settings: &str) -> Self {
        Self::start_after(&format!("ulimit -n {descriptors}"), folder, settings)
    }

    /// Starts in this folder, from a shell that runs `script` first.
    pub(crate) fn start_after(script: &str, folder: &Path, settings: &str) -> Self {
        Self::started(Self::try_after(script, folder, settings))
    }

    /// The same; the log, where the start was refused.
    pub(crate) fn try_after(script: &str, folder: &Path, settings: &str) -> Result<Self, String> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{script}; exec \"$@\""), "sh"])
            .arg(env!("CARGO_BIN_EXE_gatepost"));
        Self::start_by(shell, folder, settings)
    }

    fn started(started: Result<Self, String>) -> Self {
        started.unwrap_or_else(|log| panic!("gatepost did not get ready; its log:\n{log}"))
    }

    fn start_by(mut command: Command, folder: &Path, settings: &str) -> Result<Self, String> {
        let config = folder.join("gatepost.toml");
        // A listener whose addresses the settings name is left to them.
        let binds = LISTENERS.map(|listener| {
            let key = format!("listeners.{listener}.bind");
            if settings.contains(&key) {
                String::new()
            } else {
                format!("{key} = [\"127.0.0.1:0\"]\n")
            }
        });
        // Unoptimised, the rules of a folder take a second of one core to warm up.
        let warm_up = if settings.contains("rules.warm_up") || settings.contains("[rules]") {
            ""
        } else {
            "rules.warm_up = false\n"
        };
        let text = binds.concat() + warm_up + settings;
        std::fs::write(&config, text).expect("a config");
        let mut child = command
            .args(["serve", "--config"])
            .arg(&config)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::from(
                std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(folder.join("gatepost.log"))
                    .expect("a log"),
            ))
            .spawn()
            .expect("gatepost starts");
        let lines = read_lines(child.stdout.take().expect("piped"));
        let mut gateway = Self {
            child,
            addresses: BTreeMap::new(),
            folder: folder.to_owned(),
            lines,
            keep: None,
        };
        if gateway.await_ready() {
            Ok(gateway)
        } else {
            Err(gateway.log())
        }
    }

    /// Reads the line of each listener, until the dashboard's, which is the last; returns whether
    /// it was printed.
    fn await_ready(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                return false;
            };
            let mut words = line.split_whitespace();
            if let (Some(name), Some(address)) = (words.next(), words.next()) {
                if name == "dashboard" {
                    return true;
                }
                if let Ok(address) = address.parse() {
                    self.addresses.insert(name.to_owned(), address);
                }
            }
        }
    }

    /// Keeps its folder for as long as the server runs.
    pub(crate) fn keep(&mut self, folder: tempfile::TempDir) {
        self.keep = Some(folder);
    }

    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.addresses[listener]
    }

    pub(crate) fn port(&self, listener: &str) -> String {
        self.address(listener).port().to_string()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address("http"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A line of `/proc/PID/status`.
    pub(crate) fn process_status(&self, name: &str) -> String {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(path).expect("our child");
        let line = status.lines().find(|line| line.starts_with(name));
        line.expect(name).trim_start_matches(name).trim().to_owned()
    }

    /// The most memory that it has held, in kB.
    pub(crate) fn peak_kb(&self) -> u64 {
        let peak = self.process_status("VmHWM:");
        let number = peak.trim_end_matches("kB").trim().parse();
        number.expect("a number")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("gatepost.log")).unwrap_or_default()
    }

    /// SIGTERM, and waits for the end; the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        let status = await_some("gatepost ends", || {
            self.child.try_wait().expect("our child")
        });
        status.code()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of gatepost:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that also finds what Debian keeps in `/usr/sbin`.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// Runs a client to its end, with `input` on its standard input.
pub(crate) fn run(program: &str, arguments: &[&str], input: &[u8]) -> Output {
    feed(command(program).args(arguments), input)
}

/// Runs a command to its end, with `input` on its standard input.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("the peer of {command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A client may end before it has read everything; that is its right.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the client ends");
    writer.join().expect("the writer ends");
    output
}

/// Adds a user by the command, with `more` of its options.
pub(crate) fn add_user(gateway: &Gateway, name: &str, password: &str, more: &[&str]) -> Output {
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let arguments = [&["user", "add", name, "--set", &data][..], more].concat();
    let program = env!("CARGO_BIN_EXE_gatepost");
    run(program, &arguments, format!("{password}\n").as_bytes())
}

/// Sends one mail by swaks, with `more` of its options; its output is the conversation.
pub(crate) fn swaks(server: &str, from: &str, to: &str, more: &[&str]) -> Output {
    let envelope = ["--server", server, "--from", from, "--to", to];
    run("swaks", &[&envelope, more].concat(), b"")
}

/// Runs a scenario of `tests/paho/client.py` with paho `1` or `2`, and asserts that it went well.
pub(crate) fn paho(version: &str, arguments: &[&str]) {
    let packages = root().join(".peers").join(version);
    assert!(
        packages.exists(),
        "{} is missing: run tests/install-peers",
        packages.display()
    );
    let output = command("python3")
        .arg(root().join("tests/paho/client.py"))
        .args(arguments)
        .env("PYTHONPATH", packages)
        .output()
        .unwrap_or_else(|error| panic!("the peer python3 does not start: {error}"));
    let text = text_of(&output);
    assert!(output.status.success(), "{version} {arguments:?}: {text}");
}

/// Standard output and error together, as a person sees them.
pub(crate) fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Sends `bytes` to a listener and reads until it closes or is silent for a moment.
pub(crate) fn send_raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    exchange_raw(TcpStream::connect(address).expect("a connection"), bytes)
}

/// The same to a listener that may speak first: SMTP, LMTP and POP3 refuse a client that does not
/// wait for the greeting. `preface` is sent before it (a PROXY header).
pub(crate) fn send_raw_greeted(
    gateway: &Gateway,
    listener: &str,
    preface: &[u8],
    bytes: &[u8],
) -> Vec<u8> {
    let mut stream = TcpStream::connect(gateway.address(listener)).expect("a connection");
    let _ = stream.write_all(preface);
    let mut greeting = Vec::new();
    if matches!(listener, "smtp" | "lmtp" | "pop3") {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut byte = [0];
        while !greeting.ends_with(b"\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
            greeting.extend_from_slice(&byte);
        }
    }
    [greeting, exchange_raw(stream, bytes)].concat()
}

fn exchange_raw(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a timeout");
    // The server may have closed already; its earlier bytes count.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// All bytes that the server sends until it closes.
pub(crate) fn to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // A reset after the last word is a way of closing, too.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{answer:02x?}");
    }
    answer
}

/// Tries until there is a value.
pub(crate) fn await_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Publishes by curl; the status, the fields and the body of the answer.
pub(crate) fn post(gateway: &Gateway, topic: &str, body: &str) -> String {
    let url = gateway.url(&format!("/topics/{topic}"));
    text_of(&run(
        "curl",
        &["-si", "--data-binary", "@-", &url],
        body.as_bytes(),
    ))
}

/// The thin client as it is built beside the server, or by `make build`.
pub(crate) fn call_client() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_gatepost")).with_file_name("gatepost-call");
    let small = root().join("target/call/call/gatepost-call");
    [beside, small]
        .into_iter()
        .find(|path| path.exists())
        .expect("gatepost-call is built: cargo build -p gatepost-call")
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

/// A message of the public corpus, which `tests/fetch-corpus` fetches.
pub(crate) fn corpus_message(id: &str) -> PathBuf {
    let path = root()
        .join(".corpora/spamassassin")
        .join(format!("{id}.txt"));
    assert!(
        path.exists(),
        "{} is missing: run tests/fetch-corpus",
        path.display()
    );
    path
}

fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}
