//! One connection, TCP or Unix, with one deadline for all its operations.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::failure::CallFailure;

/// The address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(text.to_owned()))
            }
            _ => Err(format!(
                "{text} is not a server; write HOST:PORT or unix:PATH"
            )),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => formatter.write_str(address),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

enum CallSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on which every wait ends at the same deadline.
pub(crate) struct DeadlineConnection {
    socket: CallSocket,
    deadline: Instant,
}

impl DeadlineConnection {
    /// Connects; the deadline for all operations is `timeout` from now.
    pub(crate) fn open(server: &ServerAddress, timeout: Duration) -> Result<Self, CallFailure> {
        let deadline = Instant::now() + timeout;
        let socket = match server {
            ServerAddress::Unix(path) => {
                CallSocket::Unix(UnixStream::connect(path).map_err(CallFailure::Connect)?)
            }
            ServerAddress::Tcp(address) => CallSocket::Tcp(connect_tcp(address, deadline)?),
        };
        Ok(Self { socket, deadline })
    }

    /// Sends all bytes.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), CallFailure> {
        let left = remaining(self.deadline)?;
        let set = match &self.socket {
            CallSocket::Tcp(socket) => socket.set_write_timeout(Some(left)),
            CallSocket::Unix(socket) => socket.set_write_timeout(Some(left)),
        };
        set.map_err(CallFailure::Lost)?;
        while !bytes.is_empty() {
            remaining(self.deadline)?;
            let sent = match &mut self.socket {
                CallSocket::Tcp(socket) => socket.write(bytes),
                CallSocket::Unix(socket) => socket.write(bytes),
            };
            match sent {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => unless_interrupted(error)?,
            }
        }
        Ok(())
    }

    /// The bytes that have arrived, at least one.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, CallFailure> {
        loop {
            let left = Some(remaining(self.deadline)?);
            let set = match &self.socket {
                CallSocket::Tcp(socket) => socket.set_read_timeout(left),
                CallSocket::Unix(socket) => socket.set_read_timeout(left),
            };
            set.map_err(CallFailure::Lost)?;
            let received = match &mut self.socket {
                CallSocket::Tcp(socket) => socket.read(buffer),
                CallSocket::Unix(socket) => socket.read(buffer),
            };
            match received {
                Ok(0) => return Err(CallFailure::Lost(ErrorKind::UnexpectedEof.into())),
                Ok(count) => return Ok(count),
                Err(error) => unless_interrupted(error)?,
            }
        }
    }

    /// A body follows: its last, short segment must not wait for an acknowledgement.
    pub(crate) fn expect_bulk(&self) {
        if let CallSocket::Tcp(socket) = &self.socket {
            // Without the option the call is only slower.
            let _ = socket.set_nodelay(true);
        }
    }
}

fn connect_tcp(address: &str, deadline: Instant) -> Result<TcpStream, CallFailure> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for candidate in address.to_socket_addrs().map_err(CallFailure::Connect)? {
        match TcpStream::connect_timeout(&candidate, remaining(deadline)?) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    if last.kind() == ErrorKind::TimedOut {
        return Err(CallFailure::TimedOut);
    }
    Err(CallFailure::Connect(last))
}

/// The remaining time, more than zero, as the socket options require.
fn remaining(deadline: Instant) -> Result<Duration, CallFailure> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left < Duration::from_millis(1) {
        return Err(CallFailure::TimedOut);
    }
    Ok(left)
}

fn unless_interrupted(error: io::Error) -> Result<(), CallFailure> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(CallFailure::TimedOut),
        _ => Err(CallFailure::Lost(error)),
    }
}
