//! The addresses that are listened on.
//!
//! Every worker accepts connections: each is served by the thread that the kernel woke for it,
//! and a request on a connection of its own is not passed between threads. For TCP the
//! kernel spreads connections over one listening socket per worker (`SO_REUSEPORT`); a Unix socket
//! has one, and `workers.rs` evens out the connections in both cases.
//!
//! Invariant: an address that another process listens on is refused, even if that process is a
//! gateway. `SO_REUSEPORT` would silently permit a second gateway to share the port, so the first
//! socket is bound without the option and gets it afterwards.
//!
//! A socket that the service manager has opened remains the only one of its address: another user
//! has opened it, and the kernel permits only that user to open more. One worker accepts from it,
//! and `workers.rs` spreads its connections.

mod descriptor;
mod listening;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use gatepost_bans::Bans;
use gatepost_settings::Bind;

use crate::entry::ListenerEntry;
pub(crate) use listening::UnregisteredListener;
pub use listening::{AcceptedSocket, RegisteredListener};

/// Connections that the kernel may hold until they are accepted.
const BACKLOG: i32 = 4096;
/// The time for which the kernel holds back a connection whose client has sent nothing yet, in
/// protocols where the client speaks first. The kernel takes whole seconds.
const FIRST_BYTES_WAIT: Duration = Duration::from_secs(1);

/// The silence of a connection after which the kernel asks its peer for a sign of life: a peer that
/// has vanished without closing would otherwise hold the connection forever.
const PROBE_AFTER: Duration = Duration::from_mins(15);
/// The time between two such probes.
const PROBE_INTERVAL: Duration = Duration::from_mins(1);
/// Probes without an answer after which the connection is lost.
const PROBES_MAX: u32 = 5;

/// An address that is listened on, before any worker accepts from it.
pub struct Acceptor {
    socket: OwnedFd,
    /// More sockets of the same address, opened ahead of time.
    siblings: Vec<OwnedFd>,
    /// Whether another process has opened the socket and passed it on.
    is_passed: bool,
    bind: Bind,
    entry: ListenerEntry,
}

impl Acceptor {
    /// Listens on `bind`; connections wait until they are accepted.
    pub fn bind(bind: &Bind) -> io::Result<Self> {
        match bind {
            Bind::Tcp(address) => {
                let socket = tcp_socket(*address)?;
                socket.bind(&(*address).into())?;
                socket.set_reuse_port(true)?;
                socket.listen(BACKLOG)?;
                let listener = std::net::TcpListener::from(socket);
                Ok(Self {
                    bind: Bind::Tcp(listener.local_addr()?),
                    socket: listener.into(),
                    siblings: Vec::new(),
                    is_passed: false,
                    entry: ListenerEntry::default(),
                })
            }
            Bind::Unix(path) => {
                remove_stale(path)?;
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self {
                    bind: bind.clone(),
                    socket: listener.into(),
                    siblings: Vec::new(),
                    is_passed: false,
                    entry: ListenerEntry::default(),
                })
            }
        }
    }

    /// Takes a socket that another process has opened. It must be listening already.
    pub fn of_passed(socket: OwnedFd) -> io::Result<Self> {
        let socket = socket2::Socket::from(socket);
        if !socket.is_listener()? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket does not listen",
            ));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let address = socket.local_addr()?;
        let bind = match (address.as_socket(), address.as_pathname()) {
            (Some(address), _) => {
                set_options(&socket)?;
                Bind::Tcp(address)
            }
            (None, Some(path)) => Bind::Unix(path.to_owned()),
            (None, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            socket: socket.into(),
            siblings: Vec::new(),
            is_passed: true,
            bind,
            entry: ListenerEntry::default(),
        })
    }

    /// Opens the sockets of this many workers at once. The kernel permits only one user to listen
    /// on an address, and only root on a port below 1024, so a server that drops its privileges
    /// needs all sockets before that. [`Acceptor::share`] opens those that are missing.
    pub fn open_siblings(&mut self, workers: usize) -> io::Result<()> {
        if let (Bind::Tcp(address), false) = (&self.bind, self.is_passed) {
            let address = *address;
            while self.siblings.len() + 1 < workers {
                self.siblings
                    .push(tcp_sibling(address, Some(&self.socket))?);
            }
        }
        Ok(())
    }

    /// The setup of its connections.
    #[must_use]
    pub fn with_entry(mut self, entry: ListenerEntry) -> Self {
        self.entry = entry;
        self
    }

    /// Refuses connections of banned addresses from here on.
    #[must_use]
    pub fn with_bans(mut self, bans: Bans) -> Self {
        self.entry.set_bans(bans);
        self
    }

    /// For protocols in which the client speaks first: a connection is accepted with its first
    /// bytes, so that one wake-up serves both. A silent connection is accepted a second later.
    pub(crate) fn defer_until_first_bytes(&self) {
        if !matches!(self.bind, Bind::Tcp(_)) {
            return;
        }
        for socket in std::iter::once(&self.socket).chain(&self.siblings) {
            if let Err(error) = descriptor::defer(socket.as_fd(), FIRST_BYTES_WAIT) {
                tracing::debug!(
                    target: "listeners",
                    %error,
                    "connections are accepted before their first bytes arrive",
                );
            }
        }
    }

    /// The address it listens on, with the port that the kernel chose where port 0 was requested.
    pub const fn local(&self) -> &Bind {
        &self.bind
    }

    /// The sockets from which `workers` workers accept; at least one, and no more than one if the
    /// kernel does not spread connections.
    pub(crate) fn share(self, workers: usize) -> Vec<UnregisteredListener> {
        let mut sockets = vec![self.socket];
        if let (Bind::Tcp(address), false) = (&self.bind, self.is_passed) {
            let address = *address;
            sockets.extend(self.siblings.into_iter().take(workers.saturating_sub(1)));
            for _ in sockets.len()..workers {
                match tcp_sibling(address, sockets.first()) {
                    Ok(socket) => sockets.push(socket),
                    Err(error) => {
                        tracing::warn!(
                            target: "listeners",
                            "{address} is accepted by {} of {workers} workers: {error}",
                            sockets.len()
                        );
                        break;
                    }
                }
            }
        }
        let is_tcp = matches!(self.bind, Bind::Tcp(_));
        sockets
            .into_iter()
            .map(|socket| UnregisteredListener {
                socket,
                is_tcp,
                entry: self.entry.clone(),
            })
            .collect()
    }

    /// Accepts all connections on the present runtime. For tests.
    pub fn listen(self) -> io::Result<RegisteredListener> {
        self.share(1).remove(0).listen()
    }
}

fn tcp_socket(address: std::net::SocketAddr) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    set_options(&socket)?;
    Ok(socket)
}

/// Sets the options that accepted sockets inherit, which saves system calls for each connection.
fn set_options(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let probes = socket2::TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES_MAX);
    socket.set_tcp_keepalive(&probes)
}

/// One more socket that listens where `first` does.
fn tcp_sibling(address: std::net::SocketAddr, first: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    if first.is_some_and(|first| descriptor::is_deferred(first.as_fd())) {
        descriptor::defer(socket.as_fd(), FIRST_BYTES_WAIT)?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket file without a listener; a file with one is an error.
fn remove_stale(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            if StdUnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)
        }
        // Binding reports the problem with any other kind of file.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::net::TcpStream as StdTcpStream;

    #[tokio::test]
    async fn accepted_connections_ask_a_silent_peer_for_a_sign_of_life() {
        let acceptor = Acceptor::bind(&loopback()).expect("a free address");
        let _client = connect(acceptor.local());
        let listening = acceptor.listen().expect("registered");
        let (accepted, _) = listening.accept().await.expect("a connection");
        let socket = socket2::SockRef::from(&accepted);
        assert!(socket.keepalive().expect("an option"));
        assert_eq!(socket.tcp_keepalive_time().expect("an option"), PROBE_AFTER);
    }

    async fn echo_once(bind: Bind, connect: impl FnOnce(&Bind) -> Box<dyn io::Write + Send>) {
        let acceptor = Acceptor::bind(&bind).expect("a free address");
        connect(acceptor.local()).write_all(b"hello").expect("sent");
        let listening = acceptor.listen().expect("registered");
        let (accepted, peer) = listening.accept().await.expect("a connection");
        let (stream, _) = accepted.open(peer).await.expect("registered");
        poll_fn(|context| stream.poll_read_ready(context))
            .await
            .expect("readable");
        let mut buffer = [0; 16];
        assert_eq!(stream.try_read(&mut buffer).expect("bytes"), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    fn loopback() -> Bind {
        "127.0.0.1:0".parse().expect("an address")
    }

    fn connect(bind: &Bind) -> StdTcpStream {
        let Bind::Tcp(address) = bind else {
            unreachable!("bound to TCP")
        };
        StdTcpStream::connect(address).expect("a listener")
    }

    #[tokio::test]
    async fn tcp_connections_are_accepted() {
        echo_once(loopback(), |bind| Box::new(connect(bind))).await;
    }

    #[tokio::test]
    async fn unix_connections_are_accepted_and_stale_sockets_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        for _ in 0..2 {
            echo_once(Bind::Unix(path.clone()), |_| {
                Box::new(StdUnixStream::connect(&path).expect("a listener"))
            })
            .await;
        }
    }

    #[tokio::test]
    async fn a_shared_port_is_spread_and_still_exclusive() {
        let acceptor = Acceptor::bind(&loopback()).expect("a free port");
        acceptor.defer_until_first_bytes();
        let bind = acceptor.local().clone();
        let listening: Vec<RegisteredListener> = acceptor
            .share(3)
            .into_iter()
            .map(|socket| socket.listen().expect("registered"))
            .collect();
        assert_eq!(listening.len(), 3);
        let refused = Acceptor::bind(&bind).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::AddrInUse));

        let clients: Vec<_> = (0..64)
            .map(|_| {
                let mut client = connect(&bind);
                io::Write::write_all(&mut client, b"x").expect("sent");
                client
            })
            .collect();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for (index, socket) in listening.into_iter().enumerate() {
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Ok((accepted, peer)) = socket.accept().await {
                    assert!(accepted.is_plain(peer));
                    let mut byte = [0; 8];
                    let read = accepted.try_read(&mut byte).expect("came with its bytes");
                    if sender.send((index, read)).is_err() {
                        return;
                    }
                }
            });
        }
        let mut accepted_by = [0; 3];
        for _ in &clients {
            let (index, read) = receiver.recv().await.expect("all are accepted");
            assert_eq!(read, 1);
            accepted_by[index] += 1;
        }
        // The kernel's hash would have to be a constant.
        assert!(
            accepted_by.iter().all(|&count| count < 64),
            "{accepted_by:?}"
        );
    }
}
