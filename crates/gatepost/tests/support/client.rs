//! Programs of other projects that run beside the server.

use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::{Gateway, PATIENCE, command, read_lines};

/// A client of someone else that runs beside the server and prints lines; ended when dropped.
pub(crate) struct Client {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Client {
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        // Written to a pipe, most programs keep their lines back until there are many.
        let mut child = command("stdbuf")
            .args(["-oL", program])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("the peer {program} does not start: {error}"));
        let lines = read_lines(child.stdout.take().expect("piped"));
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// `mosquitto_sub` speaking MQTT 5, which prints messages in its `format`; returns when it has
    /// subscribed.
    pub(crate) fn subscribe(gateway: &Gateway, filter: &str, format: &str) -> Self {
        let port = gateway.port("mqtt");
        let arguments = ["-p", &port, "-V", "5", "-F", format, "-t", filter, "-d"];
        let mut client = Self::start("mosquitto_sub", &arguments);
        client.await_line("SUBACK");
        client
    }

    /// Waits for a line that holds `part`, and returns it.
    pub(crate) fn await_line(&mut self, part: &str) -> String {
        if let Some(line) = self.seen.iter().find(|line| line.contains(part)) {
            return line.clone();
        }
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.seen.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
        panic!("no line with '{part}' came; there were {:#?}", self.seen);
    }

    /// Stops the program where it is: it reads nothing and answers nothing.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it continue.
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = command("kill").args([signal, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// All lines until the client ends by itself.
    pub(crate) fn into_lines(mut self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return std::mem::take(&mut self.seen),
                Err(RecvTimeoutError::Timeout) => panic!("still running after {:#?}", self.seen),
            }
        }
    }

    /// All lines up to now.
    pub(crate) fn seen(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
