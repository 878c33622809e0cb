//! A worker's listening socket, and the connections that it accepts.
//!
//! A connection is accepted without being registered with a reactor, so that a request that arrived
//! with it can be answered first, and any worker can take it.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use gatepost_message::Peer;
use rustix::net::{RecvFlags, SocketFlags};
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use super::descriptor;
use crate::entry::ListenerEntry;
use crate::stream::Stream;

/// One worker's listening socket, before it is registered with the worker's reactor.
pub(crate) struct UnregisteredListener {
    pub(super) socket: OwnedFd,
    pub(super) is_tcp: bool,
    pub(super) entry: ListenerEntry,
}

impl UnregisteredListener {
    /// Registers it with the reactor of the present worker.
    pub(crate) fn listen(self) -> io::Result<RegisteredListener> {
        Ok(RegisteredListener {
            socket: descriptor::register(self.socket)?,
            is_tcp: self.is_tcp,
            entry: self.entry,
        })
    }
}

/// A worker's listening socket.
pub struct RegisteredListener {
    socket: AsyncFd<OwnedFd>,
    is_tcp: bool,
    entry: ListenerEntry,
}

impl RegisteredListener {
    /// The next connection that is not of a banned address. Cancel-safe.
    pub async fn accept(&self) -> io::Result<(AcceptedSocket, Peer)> {
        loop {
            let mut ready = self.socket.readable().await?;
            let Ok(accepted) = ready.try_io(|socket| self.take(socket.get_ref())) else {
                continue;
            };
            match accepted {
                // Closed without a reply: a reply would cost more than the connection.
                Ok((_, peer)) if self.entry.refuses(peer) => tokio::task::consume_budget().await,
                accepted => return accepted,
            }
        }
    }

    fn take(&self, socket: &OwnedFd) -> io::Result<(AcceptedSocket, Peer)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = rustix::net::acceptfrom_with(socket, flags)?;
        let peer = if self.is_tcp {
            let address = address.and_then(|address| address.try_into().ok());
            // The connection was closed before it was accepted (accept(2)); it is ignored.
            let address = address.ok_or(io::ErrorKind::ConnectionAborted)?;
            Peer::Address(address)
        } else {
            Peer::Local
        };
        let accepted = AcceptedSocket {
            socket,
            is_tcp: self.is_tcp,
            entry: self.entry.clone(),
        };
        Ok((accepted, peer))
    }
}

/// An accepted socket that is not registered with a reactor yet, so that any worker can take it.
pub struct AcceptedSocket {
    socket: OwnedFd,
    is_tcp: bool,
    entry: ListenerEntry,
}

impl AcceptedSocket {
    /// Registers the socket with the reactor of the present worker, then reads the PROXY header and
    /// negotiates TLS, each where the address requires it. Returns the client behind the proxy.
    pub async fn open(self, peer: Peer) -> io::Result<(Stream, Peer)> {
        let entry = self.entry.clone();
        entry.open(self.register()?, peer).await
    }

    /// Only registers the socket with the reactor of the present worker: for a plain connection.
    pub(crate) fn register(self) -> io::Result<Stream> {
        Ok(if self.is_tcp {
            Stream::Tcp(TcpStream::from_std(StdTcpStream::from(self.socket))?)
        } else {
            Stream::Unix(UnixStream::from_std(StdUnixStream::from(self.socket))?)
        })
    }

    /// Whether this peer is a proxy, which will name its client.
    pub(crate) fn is_from_proxy(&self, peer: Peer) -> bool {
        self.entry.is_proxy(peer)
    }

    /// Whether its bytes are the protocol's from the first one on: no proxy, no TLS.
    pub(crate) fn is_plain(&self, peer: Peer) -> bool {
        self.entry.is_plain(peer)
    }

    /// Whether it is TCP.
    pub(crate) const fn is_tcp(&self) -> bool {
        self.is_tcp
    }

    /// Reads the bytes that arrived with the connection; `WouldBlock` if there are none.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = rustix::net::recv(&self.socket, buffer, RecvFlags::empty())?;
        Ok(count)
    }

    /// Writes as much as the socket accepts; `WouldBlock` if it accepts nothing.
    pub(crate) fn try_write(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Ok(match slices {
            [slice] => rustix::io::write(&self.socket, slice)?,
            slices => rustix::io::writev(&self.socket, slices)?,
        })
    }
}

impl AsFd for AcceptedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
