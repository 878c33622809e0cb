//! A NATS server on this machine, for tests.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::Client;
use tempfile::TempDir;

/// The longest wait for the start.
const WAIT_MAX: Duration = Duration::from_mins(1);

pub(crate) struct TestServer {
    url: String,
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
        // It chooses its port itself: tests start several at the same time.
        let mut child = Command::new("nats-server")
            .args(["--addr", "127.0.0.1", "--port", "-1", "--jetstream"])
            .args([Path::new("--store_dir"), folder.path()])
            .args([Path::new("--ports_file_dir"), folder.path()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts");
        let ports = format!("nats-server_{}.ports", child.id());
        let deadline = Instant::now() + WAIT_MAX;
        let url = loop {
            if let Some(url) = url_in(&folder.path().join(&ports)) {
                break url;
            }
            let exit = child.try_wait().expect("a child");
            assert!(exit.is_none(), "nats-server ended: {exit:?}");
            assert!(Instant::now() < deadline, "nats-server does not start");
            std::thread::sleep(Duration::from_millis(20));
        };
        Some(Self {
            url,
            child,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) async fn connect(&self) -> Client {
        async_nats::connect(&self.url).await.expect("connected")
    }
}

/// The address in a file that the server writes when it listens.
fn url_in(ports: &Path) -> Option<String> {
    let text = std::fs::read(ports).ok()?;
    let ports: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(ports["nats"][0].as_str()?.to_owned())
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
