//! A real nats-server, which can be ended and started again.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::network::Host;
use crate::subscription::NatsSubscription;
use crate::support::{await_some, command, free_port};

/// The partitions of the log of a tested cluster.
pub(crate) const PARTITIONS: u8 = 4;
/// The longest wait for the answer to a request; the servers take up to 4 s for a list.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// The program, if it is installed; otherwise the output reports this.
pub(crate) fn program() -> Option<PathBuf> {
    let found = command("nats-server").arg("--version").output();
    if found.is_ok() {
        return Some("nats-server".into());
    }
    eprintln!("SKIPPED: nats-server is not installed here (tests/install-peers)");
    None
}

/// The program of another version of nats-server, if `GATEPOST_TEST_NATS_OTHER` names one.
pub(crate) fn other_version() -> Option<PathBuf> {
    let named = std::env::var_os("GATEPOST_TEST_NATS_OTHER")?;
    (!named.is_empty()).then(|| named.into())
}

/// A running server.
pub(crate) struct Nats {
    child: Child,
    program: PathBuf,
    config: PathBuf,
    host: Host,
    port: u16,
    folder: TempDir,
}

impl Nats {
    /// Starts with JetStream, and `more` in its configuration.
    pub(crate) fn start(more: &str) -> Self {
        Self::start_at(free_port(), more)
    }

    /// The same, with the engine's default: the disk follows acknowledgements later.
    pub(crate) fn start_without_sync(more: &str) -> Self {
        Self::start_with(Host::loopback(), free_port(), None, "2m", more)
    }

    pub(crate) fn start_at(port: u16, more: &str) -> Self {
        Self::start_with(Host::loopback(), port, None, "always", more)
    }

    /// `disk` is the folder of its data, if it is not one of its own.
    fn start_with(
        host: Host,
        port: u16,
        disk: Option<&Path>,
        sync_interval: &str,
        more: &str,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("nats.conf");
        let store = disk.unwrap_or(folder.path()).join("jetstream");
        let address = &host.address;
        let mut text = String::new();
        let _ = write!(
            text,
            "listen: \"{address}:{port}\"\nserver_name: n{port}\n\
             jetstream {{ store_dir: \"{}\", sync_interval: {sync_interval}, \
             max_file_store: 16GB }}\nlogfile: \"{}/nats.log\"\n{more}\n",
            store.display(),
            folder.path().display()
        );
        std::fs::write(&config, text).expect("written");
        let program = PathBuf::from("nats-server");
        let child = spawn(&program, &config, &host, port);
        Self {
            child,
            program,
            config,
            host,
            port,
            folder,
        }
    }

    /// Three servers that form a cluster.
    pub(crate) fn cluster() -> [Self; 3] {
        Self::cluster_on([(); 3].map(|()| Host::loopback()), [None; 3])
    }

    /// The same on these hosts, with the folders of their data.
    pub(crate) fn cluster_on(hosts: [Host; 3], disks: [Option<&Path>; 3]) -> [Self; 3] {
        let [clients, routes] = [(); 2].map(|()| [(); 3].map(|()| free_port()));
        let addresses = hosts.iter().zip(routes);
        let addresses: Vec<String> = addresses
            .map(|(host, port)| format!("{}:{port}", host.address))
            .collect();
        let list = addresses
            .iter()
            .map(|address| format!("\"nats://{address}\""));
        let list = list.collect::<Vec<String>>().join(", ");
        let mut number = 0..3;
        hosts.map(|host| {
            let number = number.next().expect("three hosts");
            let listen = &addresses[number];
            Self::start_with(
                host,
                clients[number],
                disks[number],
                "always",
                &format!(
                    "cluster {{ name: c, listen: \"{listen}\", routes: [{list}], \
                     ping_interval: 3s, ping_max: 2 }}"
                ),
            )
        })
    }

    /// Sends it a signal by this name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = command("kill").args(["-s", name, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// The settings of a node that uses these servers, each of which has a replica. The log has
    /// several partitions, which is the general case.
    pub(crate) fn settings_of_all(servers: &[Self], node: u8) -> String {
        let urls = servers
            .iter()
            .map(|one| format!("\"nats://{}:{}\"", one.host.address, one.port));
        let urls: Vec<String> = urls.collect();
        let (list, replicas) = (urls.join(", "), servers.len());
        format!(
            "node = {node}\nbackbone.nats = [{list}]\nbackbone.replicas = {replicas}\n\
             backbone.partitions = {PARTITIONS}\n"
        )
    }

    /// The settings of a node that uses it.
    pub(crate) fn settings(&self, node: u8) -> String {
        Self::settings_of_all(std::slice::from_ref(self), node)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.config, &self.host, self.port);
    }

    /// The next start is that of the other version, see [`other_version`].
    pub(crate) fn change_version(&mut self) {
        let other = other_version().expect("another version");
        self.program = if self.program == other {
            "nats-server".into()
        } else {
            other
        };
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(&mut self) {
        self.signal("TERM");
        self.child.wait().expect("our child");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("nats.log")).unwrap_or_default()
    }

    /// Removes all messages of a stream, as its limits do.
    pub(crate) fn purge(&self, stream: &str) {
        let answer = self.request(&format!("$JS.API.STREAM.PURGE.{stream}"), "");
        assert!(answer.contains("\"success\":true"), "{answer}");
    }

    /// Pauses all consumers of a stream: they deliver nothing more, but remain. Returns how many.
    pub(crate) fn pause_consumers(&self, stream: &str) -> usize {
        let answer = self.request(&format!("$JS.API.CONSUMER.NAMES.{stream}"), "");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let names = answer["consumers"].as_array().expect("names");
        for name in names {
            let name = name.as_str().expect("a name");
            let subject = format!("$JS.API.CONSUMER.PAUSE.{stream}.{name}");
            let answer = self.request(&subject, r#"{"pause_until":"2100-01-01T00:00:00Z"}"#);
            assert!(answer.contains("\"paused\":true"), "{answer}");
        }
        names.len()
    }

    /// Changes the config of a stream.
    pub(crate) fn update(&self, stream: &str, change: impl Fn(&mut Value)) {
        let answer = self.request(&format!("$JS.API.STREAM.INFO.{stream}"), "");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let mut config = answer["config"].clone();
        change(&mut config);
        let subject = format!("$JS.API.STREAM.UPDATE.{stream}");
        let answer = self.request(&subject, &config.to_string());
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["config"], config, "{answer}");
    }

    /// A subscription of a client that is no node.
    pub(crate) fn subscribe(&self, subject: &str) -> NatsSubscription {
        let connection = TcpStream::connect((&*self.host.address, self.port)).expect("open");
        NatsSubscription::start(connection, subject)
    }

    /// The streams that have no leader, fewer replicas than these, or a replica that has not got
    /// all messages yet.
    pub(crate) fn incomplete_streams(&self, replicas: u64) -> Vec<String> {
        let names = |answer: &Value, field: &str| -> Vec<Value> {
            answer[field].as_array().cloned().unwrap_or_default()
        };
        let Some(answer) = self.try_request("$JS.API.STREAM.LIST", b"") else {
            return vec!["no answer".to_owned()];
        };
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        if !answer["error"].is_null() {
            return vec![answer["error"].to_string()];
        }
        let without_answer = names(&answer, "missing");
        let incomplete = names(&answer, "streams").into_iter().filter(|stream| {
            let of_cluster = &stream["cluster"];
            let others = names(of_cluster, "replicas");
            let current = others.iter().filter(|other| other["current"] == true);
            // The config has a number that the servers may be about to reach.
            of_cluster["leader"].is_null() || (current.count() as u64) < replicas - 1
        });
        let incomplete = incomplete.map(|stream| stream["config"]["name"].clone());
        let all = without_answer.into_iter().chain(incomplete);
        all.map(|name| name.to_string()).collect()
    }

    /// Waits until all replicas of all streams have all messages.
    pub(crate) fn await_replicas(&self, replicas: u64) {
        await_some("all replicas are complete", || {
            self.incomplete_streams(replicas).is_empty().then_some(())
        });
    }

    /// The version that it has at present.
    pub(crate) fn version(&self) -> String {
        let connection = TcpStream::connect((&*self.host.address, self.port)).expect("open");
        let mut greeting = String::new();
        let read = BufReader::new(connection).read_line(&mut greeting);
        read.expect("a greeting");
        let (_, version) = greeting.split_once("\"version\":").expect("a version");
        version.split('"').nth(1).expect("a text").to_owned()
    }

    /// The answer to a request of a client that is no node.
    pub(crate) fn request(&self, subject: &str, payload: &str) -> String {
        let answer = self.try_request(subject, payload.as_bytes());
        answer.expect("an answer")
    }

    /// Publishes to a subject that a stream stores.
    pub(crate) fn store(&self, subject: &str, payload: &[u8]) {
        let answer = self.try_request(subject, payload).expect("an answer");
        assert!(answer.contains("\"seq\""), "{answer}");
    }

    /// The same; `None` if no answer comes, such as from servers without a leader.
    fn try_request(&self, subject: &str, payload: &[u8]) -> Option<String> {
        let mut connection = TcpStream::connect((&*self.host.address, self.port)).expect("open");
        let timeout = connection.set_read_timeout(Some(ANSWERED_WITHIN));
        timeout.expect("a timeout");
        let length = payload.len();
        let begin = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n"
        );
        let request = [begin.as_bytes(), payload, b"\r\n"].concat();
        connection.write_all(&request).expect("sent");
        let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
        lines.find(|line| line.starts_with('{'))
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}:{}", self.host.address, self.port)
    }

    pub(crate) fn name(&self) -> String {
        format!("n{}", self.port)
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, config: &Path, host: &Host, port: u16) -> Child {
    let program = program.display().to_string();
    let words = [host.prefix(), vec![program]].concat();
    let child = command(&words[0])
        .args(&words[1..])
        .arg("--config")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server starts");
    await_some("nats-server listens", || {
        TcpStream::connect((&*host.address, port)).ok()
    });
    child
}
