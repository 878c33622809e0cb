//! A connection's two directions in one shared reference.
//!
//! `AsyncRead` and `AsyncWrite` do not fit: fan-out writes to a subscriber's socket from the
//! publisher's task, so writing must work through `&self`, must never wait, and must take many
//! pieces at once. A writer whose bytes the socket refuses leaves the rest to the connection's own
//! task, which waits for writability.

mod common_name;
mod tls_session;

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, sockopt};
use tokio::net::{TcpStream, UnixStream};

pub use tls_session::TlsSession;
pub(crate) use tls_session::TransportSocket;

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

    /// Reads the available bytes; `WouldBlock` if there are none, `Ok(0)` at the end.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
            Self::Tls(session) => session.try_read(buffer),
        }
    }

    /// Writes as many bytes as the socket accepts; `WouldBlock` if it accepts none.
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Self::Tcp(stream), [slice]) => try_send(stream, slice),
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

    /// Waits until the socket can be written, or for an error.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
            Self::Tls(session) => session.poll_write_ready(context),
        }
    }

    /// Ends the writing side, with TLS's close_notify too.
    pub(crate) fn poll_finish(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(session) => session.poll_shutdown(context),
            Self::Tcp(_) | Self::Unix(_) => {
                let finished = rustix::net::shutdown(self.descriptor(), Shutdown::Write);
                Poll::Ready(finished.map_err(io::Error::from))
            }
        }
    }

    /// Makes the kernel acknowledge received bytes now. For protocols in which a peer sends several
    /// pieces before it gets an answer: with Nagle's algorithm, the peer sends the second piece
    /// only when the first is acknowledged, and the kernel would delay that acknowledgement by 40
    /// ms to combine it with an answer.
    pub(crate) fn acknowledge_now(&self) {
        // A Unix socket does not have this option, and refuses it.
        let _ = sockopt::set_tcp_quickack(self.descriptor(), true);
    }

    /// The address of this end, where the connection is TCP.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        let address = rustix::net::getsockname(self.descriptor()).ok()?;
        let address: SocketAddr = address.try_into().ok()?;
        Some(address.ip().to_canonical())
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

/// Sends without a look at the readiness that the reactor knows: almost always the socket accepts
/// the bytes, and the reactor's memory of it is in no cache (see the broker's `prefetch`).
fn try_send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        // The second attempt clears the readiness, so that the reactor waits for it.
        Err(Errno::WOULDBLOCK) => stream.try_write(bytes),
        sent => Ok(sent?),
    }
}
