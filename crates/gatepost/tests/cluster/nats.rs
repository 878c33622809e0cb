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

    pub(crate) fn start_at(port: u16, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("nats.conf");
        let store = folder.path().join("jetstream");
        let mut text = String::new();
        let _ = write!(
            text,
            "listen: 127.0.0.1:{port}\nserver_name: n{port}\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always }}\n{more}\n",
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

    /// The settings of a node that uses it.
    pub(crate) fn settings(&self, node: u8) -> String {
        format!(
            "node = {node}\nbackbone.nats = [\"nats://127.0.0.1:{}\"]\nbackbone.replicas = 1\n",
            self.port
        )
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
