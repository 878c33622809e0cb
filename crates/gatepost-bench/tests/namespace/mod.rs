//! Hosts made of network namespaces: each has one end of a virtual cable whose other end is on this
//! host.

use std::net::SocketAddr;
use std::process::Command;

/// Hosts that can reach this one, and each other through it.
pub(crate) struct Hosts {
    /// Names of the namespaces; empty if the hosts are processes on loopback.
    names: Vec<String>,
    /// This host's address on the first cable.
    address: String,
}

impl Hosts {
    /// This number of hosts; `test` distinguishes concurrent tests.
    pub(crate) fn make(test: &str, count: usize) -> Self {
        let mut hosts = Self {
            names: Vec::new(),
            address: String::new(),
        };
        for host in 0..count {
            if let Err(reason) = hosts.add(test, host) {
                eprintln!(
                    "\n*** NETWORK NAMESPACES CANNOT BE MADE HERE ({reason}): the hosts of this \
                     test are processes on loopback, which proves less. Run it as root. ***\n"
                );
                drop(hosts);
                return Self::loopback(count);
            }
        }
        hosts
    }

    /// Hosts that are processes on loopback.
    pub(crate) fn loopback(_count: usize) -> Self {
        Self {
            names: Vec::new(),
            address: "127.0.0.1".to_owned(),
        }
    }

    fn add(&mut self, test: &str, host: usize) -> Result<(), String> {
        let id = std::process::id();
        let name = format!("gpbench-{test}-{id}-{host}");
        // Names of interfaces have 15 bytes at most; networks are of 4 addresses each.
        let letter = test.as_bytes().first().copied().unwrap_or(b'x') as char;
        let (near, far) = (
            format!("gb{letter}{id}n{host}"),
            format!("gb{letter}{id}f{host}"),
        );
        let network = format!(
            "10.{}.{}",
            20 + id % 200,
            usize::from(letter as u8 - b'a') * 8 + host
        );
        let (ours, theirs) = (format!("{network}.1"), format!("{network}.2"));
        ip(&["netns", "add", &name])?;
        self.names.push(name.clone());
        ip(&[
            "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name,
        ])?;
        ip(&["addr", "add", &format!("{ours}/30"), "dev", &near])?;
        ip(&["link", "set", &near, "up"])?;
        ip(&[
            "-n",
            &name,
            "addr",
            "add",
            &format!("{theirs}/30"),
            "dev",
            &far,
        ])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&["-n", &name, "link", "set", &far, "up"])?;
        ip(&["-n", &name, "route", "add", "default", "via", &ours])?;
        if host == 0 {
            self.address = ours;
        }
        Ok(())
    }

    /// The address on which servers of this host must listen to be reachable from all hosts.
    pub(crate) fn any_address(&self) -> &str {
        if self.names.is_empty() {
            "127.0.0.1"
        } else {
            "0.0.0.0"
        }
    }

    /// The address by which a server of this host is reached.
    pub(crate) fn reach(&self, server: SocketAddr) -> String {
        format!("{}:{}", self.address, server.port())
    }

    /// A program on a host.
    pub(crate) fn command(&self, host: usize, program: &str) -> Command {
        match self.names.get(host) {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, program]);
                command
            }
            None => Command::new(program),
        }
    }
}

impl Drop for Hosts {
    /// The virtual cables are removed with their namespaces.
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
