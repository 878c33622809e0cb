//! A connection's two directions behind one shared reference, and the acceptor that makes them.
//!
//! Why not `AsyncRead`/`AsyncWrite`: fan-out writes to a subscriber's socket from the
//! publisher's task, so writing must work through `&self`, must never wait, and must take many
//! pieces at once. Whoever is refused leaves the rest to the connection's own task, which waits
//! for writability.

use std::io::{self, IoSlice};
use std::net::TcpStream as StdTcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::{Context, Poll};

use gatepost_message::Peer;
use gatepost_settings::Bind;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::entry::Entry;
use crate::tls::TlsSession;

/// Connections that the kernel may hold until they are accepted.
const BACKLOG: i32 = 4096;

/// A connected socket, registered with the reactor of the present worker.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// Either of them, encrypted.
    Tls(Box<TlsSession>),
}

impl Stream {
    /// The TLS session, if this speaks TLS.
    pub fn tls(&self) -> Option<&TlsSession> {
        match self {
            Self::Tls(session) => Some(session),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Reads what is there; `WouldBlock` where nothing is, `Ok(0)` at the end.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
            Self::Tls(session) => session.try_read(buffer),
        }
    }

    /// Writes what the socket takes; `WouldBlock` where it takes nothing.
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Self::Tcp(stream), [slice]) => stream.try_write(slice),
            (Self::Tcp(stream), slices) => stream.try_write_vectored(slices),
            (Self::Unix(stream), slices) => stream.try_write_vectored(slices),
            (Self::Tls(session), slices) => session.try_write(slices),
        }
    }

    /// Waits for bytes to read, the end, or an error.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
            Self::Tls(session) => session.poll_read_ready(context),
        }
    }

    /// Waits for room to write, or an error.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
            Self::Tls(session) => session.poll_write_ready(context),
        }
    }

    /// For socket options.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(session) => session.as_fd(),
        }
    }
}

/// An accepted socket that no reactor knows yet, so that any worker can take it.
pub struct Accepted {
    socket: AcceptedSocket,
    entry: Entry,
}

enum AcceptedSocket {
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

impl Accepted {
    /// Registers the socket with the reactor of the present worker, hears the proxy in front and
    /// does the TLS handshake, each where the address asks for it. Gives the peer behind the
    /// proxy.
    pub async fn open(self, peer: Peer) -> io::Result<(Stream, Peer)> {
        let stream = match self.socket {
            AcceptedSocket::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            AcceptedSocket::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        };
        self.entry.open(stream, peer).await
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A listening socket.
pub struct Acceptor {
    socket: Socket,
    bind: Bind,
    entry: Entry,
}

impl Acceptor {
    /// Listens on `bind`. Must be called on a runtime.
    pub fn bind(bind: &Bind) -> io::Result<Self> {
        match bind {
            Bind::Tcp(address) => {
                let domain = socket2::Domain::for_address(*address);
                let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                socket.set_nonblocking(true)?;
                socket.bind(&(*address).into())?;
                socket.listen(BACKLOG)?;
                let listener = std::net::TcpListener::from(socket);
                Ok(Self {
                    bind: Bind::Tcp(listener.local_addr()?),
                    socket: Socket::Tcp(TcpListener::from_std(listener)?),
                    entry: Entry::default(),
                })
            }
            Bind::Unix(path) => {
                remove_stale(path)?;
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self {
                    bind: bind.clone(),
                    socket: Socket::Unix(UnixListener::from_std(listener)?),
                    entry: Entry::default(),
                })
            }
        }
    }

    /// How its connections begin.
    #[must_use]
    pub fn with_entry(mut self, entry: Entry) -> Self {
        self.entry = entry;
        self
    }

    /// Where it listens: with the port that was taken, where port 0 was asked for.
    pub const fn local(&self) -> &Bind {
        &self.bind
    }

    /// The next connection. Cancel-safe.
    pub async fn accept(&self) -> io::Result<(Accepted, Peer)> {
        // Taken from this reactor again: the worker that serves the socket registers it anew.
        let (socket, peer) = match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let socket = AcceptedSocket::Tcp(stream.into_std()?);
                (socket, Peer::Address(address))
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                (AcceptedSocket::Unix(stream.into_std()?), Peer::Local)
            }
        };
        let entry = self.entry.clone();
        Ok((Accepted { socket, entry }, peer))
    }
}

/// Removes a socket file that nobody listens on any more; a live one is an error.
fn remove_stale(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            if StdUnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)
        }
        // Whatever else stands there, binding will name the problem.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn echo_once(bind: Bind, connect: impl FnOnce(&Bind) -> Box<dyn io::Write + Send>) {
        let acceptor = Acceptor::bind(&bind).expect("a free address");
        connect(acceptor.local()).write_all(b"hello").expect("sent");
        let (accepted, peer) = acceptor.accept().await.expect("a connection");
        let (stream, _) = accepted.open(peer).await.expect("registered");
        poll_fn(|context| stream.poll_read_ready(context))
            .await
            .expect("readable");
        let mut buffer = [0; 16];
        assert_eq!(stream.try_read(&mut buffer).expect("bytes"), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    #[tokio::test]
    async fn tcp_connections_are_accepted() {
        echo_once("127.0.0.1:0".parse().expect("an address"), |bind| {
            let Bind::Tcp(address) = bind else {
                unreachable!("bound to TCP")
            };
            Box::new(StdTcpStream::connect(address).expect("a listener"))
        })
        .await;
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
}
