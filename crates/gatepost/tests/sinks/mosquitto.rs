//! mosquitto as the other broker, which can be ended and started again.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{await_some, command, free_port};

pub(crate) struct Mosquitto {
    child: Child,
    config: PathBuf,
    port: u16,
}

impl Mosquitto {
    /// Starts with a folder of its own, in which it keeps its state when it is ended.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, "")
    }

    /// The same with more in its configuration.
    pub(crate) fn start_with(folder: &Path, more: &str) -> Self {
        let port = free_port();
        let config = folder.join("mosquitto.conf");
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence true\n\
             persistence_location {}/\nmax_queued_messages 0\n{more}",
            folder.display()
        );
        std::fs::write(&config, text).expect("written");
        let child = spawn(&config, port);
        Self {
            child,
            config,
            port,
        }
    }

    pub(crate) fn port(&self) -> String {
        self.port.to_string()
    }

    /// SIGTERM, by which it keeps its state; and a new start.
    pub(crate) fn restart(&mut self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status();
        assert!(status.expect("kill runs").success());
        self.child.wait().expect("our child");
        self.child = spawn(&self.config, self.port);
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(config: &Path, port: u16) -> Child {
    let child = command("mosquitto")
        .arg("-c")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("the peer mosquitto does not start: {error}"));
    await_some("mosquitto listens", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    child
}
