//! A NATS server on this machine, for tests.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::Client;
use tempfile::TempDir;

pub(crate) struct TestServer {
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl TestServer {
    /// Starts it; `None` where nats-server is not installed, which the output says.
    pub(crate) fn start() -> Option<Self> {
        let version = Command::new("nats-server").arg("--version").output();
        if version.is_err() {
            eprintln!("SKIPPED: nats-server is not installed here (tests/install-peers)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let child = Command::new("nats-server")
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .arg("--jetstream")
            .arg("--store_dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts");
        Some(Self {
            port,
            child,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn connect(&self) -> Client {
        for _ in 0..600 {
            if let Ok(client) = async_nats::connect(self.url()).await {
                return client;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nats-server does not listen");
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
