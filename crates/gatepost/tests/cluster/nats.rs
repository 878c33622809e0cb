//! A real nats-server, which can be ended and started again.

use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{await_some, command};

/// The program, if it is installed; otherwise the output reports this.
pub(crate) fn program() -> Option<PathBuf> {
    let found = command("nats-server").arg("--version").output();
    if found.is_ok() {
        return Some("nats-server".into());
    }
    eprintln!("SKIPPED: nats-server is not installed here (tests/install-peers)");
    None
}

/// A running server.
pub(crate) struct Nats {
    child: Child,
    config: PathBuf,
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
        Self::start_with(free_port(), "2m", more)
    }

    pub(crate) fn start_at(port: u16, more: &str) -> Self {
        Self::start_with(port, "always", more)
    }

    fn start_with(port: u16, sync_interval: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("nats.conf");
        let store = folder.path().join("jetstream");
        let mut text = String::new();
        let _ = write!(
            text,
            "listen: 127.0.0.1:{port}\nserver_name: n{port}\n\
             jetstream {{ store_dir: \"{}\", sync_interval: {sync_interval} }}\n{more}\n",
            store.display()
        );
        std::fs::write(&config, text).expect("written");
        let child = spawn(&config, port);
        Self {
            child,
            config,
            port,
            folder,
        }
    }

    /// Three servers that form a cluster.
    pub(crate) fn cluster() -> [Self; 3] {
        // All listeners exist at the same time, so that no port is given twice.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let ports = listeners
            .each_ref()
            .map(|one| one.local_addr().expect("its address").port());
        drop(listeners);
        let routes = ports
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .join(", ");
        ports.map(|port| {
            Self::start(&format!(
                "cluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            ))
        })
    }

    /// Sends it a signal by this name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = command("kill").args(["-s", name, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// The settings of a node that uses these servers, each of which has a replica.
    pub(crate) fn settings_of_all(servers: &[Self], node: u8) -> String {
        let urls = servers
            .iter()
            .map(|one| format!("\"nats://127.0.0.1:{}\"", one.port));
        let urls: Vec<String> = urls.collect();
        let (list, replicas) = (urls.join(", "), servers.len());
        format!("node = {node}\nbackbone.nats = [{list}]\nbackbone.replicas = {replicas}\n")
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
        self.child = spawn(&self.config, self.port);
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(config: &Path, port: u16) -> Child {
    let child = Command::new("nats-server")
        .arg("--config")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server starts");
    await_some("nats-server listens", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    child
}

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}
