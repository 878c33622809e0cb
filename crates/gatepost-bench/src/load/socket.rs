//! Sockets for tens of thousands of connections to one server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Channel;
use crate::error::BenchError;

/// Number of further addresses of this machine to connect from when one has no free port: 127.0.0.2
/// …
const MORE_SOURCES: u8 = 100;

/// Descriptors of this process besides the connections.
const OTHER_DESCRIPTORS: u64 = 50;

/// Connects to one server, from as few source addresses as necessary.
///
/// A source address has about 28,000 ports towards one server (the kernel's ephemeral range).
/// Loopback has more addresses, which are used only when needed.
#[derive(Debug, Clone)]
pub struct Dialer {
    server: SocketAddr,
    is_encrypted: bool,
    /// The last byte of 127.0.0.x; 0 lets the kernel choose.
    source: u8,
}

impl Dialer {
    /// A dialer for this server, over TLS or not.
    pub const fn new(server: SocketAddr, is_encrypted: bool) -> Self {
        Self {
            server,
            is_encrypted,
            source: 0,
        }
    }

    /// A non-blocking connection that is being opened, without Nagle's delay.
    pub fn dial(&mut self) -> Result<Channel, Errno> {
        let encrypted_for = self.is_encrypted.then(|| self.server.ip());
        Channel::new(self.socket()?, encrypted_for)
    }

    fn socket(&mut self) -> Result<OwnedFd, Errno> {
        loop {
            match self.dial_from(self.source) {
                Err(Errno::ADDRNOTAVAIL) if self.may_use_more() => {
                    self.source = if self.source == 0 { 2 } else { self.source + 1 };
                }
                other => return other,
            }
        }
    }

    fn may_use_more(&self) -> bool {
        matches!(self.server.ip(), IpAddr::V4(ip) if ip.is_loopback()) && self.source < MORE_SOURCES
    }

    fn dial_from(&self, source: u8) -> Result<OwnedFd, Errno> {
        let family = match self.server {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if source > 0 {
            bind(
                &socket,
                &SocketAddr::from((Ipv4Addr::new(127, 0, 0, source), 0)),
            )?;
        }
        match connect(&socket, &self.server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

/// Refuses a number of clients that is 0, or more than this process may have connections.
pub fn check_connections(clients: &str, count: usize) -> Result<(), BenchError> {
    if count == 0 {
        return Err(BenchError::Settings(format!("{clients} must be above 0")));
    }
    let limit = raise_descriptor_limit();
    if (count as u64).saturating_add(OTHER_DESCRIPTORS) > limit {
        return Err(BenchError::Settings(format!(
            "{count} {clients} need more than the {limit} open files that are allowed here"
        )));
    }
    Ok(())
}

/// Raises the soft limit on open files to the hard one; returns the limit now in force.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Fails only if the limit is already in force.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
