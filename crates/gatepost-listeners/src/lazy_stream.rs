//! A connection that is registered with a reactor only when something has to be waited for.
//!
//! In protocols where the client speaks first, the kernel holds a connection back until the client
//! has sent bytes
//! ([`Acceptor::defer_until_first_bytes`](crate::acceptor::Acceptor::defer_until_first_bytes)). A
//! small request therefore arrives with its connection, and the socket accepts the answer
//! immediately. Registering the socket, setting timers and waking a task would cost as much as
//! reading and answering the request.
//!
//! Invariant: methods without `async` need no reactor, so any thread may call them.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use gatepost_message::Peer;
use tokio::time::Instant;

use crate::acceptor::AcceptedSocket;
use crate::stream::Stream;
use crate::wire;

/// A connection of a protocol in which the client speaks first.
pub(crate) struct LazyStream {
    state: Registration,
    peer: Peer,
}

enum Registration {
    /// The socket is not registered with a reactor.
    Unregistered(AcceptedSocket),
    /// The socket is registered with the reactor of the worker that waited first.
    Registered(Stream),
    /// The registration failed, or is under way.
    Failed,
}

impl LazyStream {
    /// `peer` is the other end of the socket: the client, or the proxy in front of the client.
    pub(crate) const fn new(accepted: AcceptedSocket, peer: Peer) -> Self {
        Self {
            state: Registration::Unregistered(accepted),
            peer,
        }
    }

    /// Whether the protocol's bytes can be exchanged before [`open`](Self::open): neither a PROXY
    /// header nor TLS precedes them.
    pub(crate) fn is_plain(&self) -> bool {
        match &self.state {
            Registration::Unregistered(accepted) => accepted.is_plain(self.peer),
            Registration::Registered(_) | Registration::Failed => true,
        }
    }

    /// Reads the PROXY header and negotiates TLS, if the listener's address requires them, and
    /// returns the client. A plain connection stays unregistered.
    pub(crate) async fn open(&mut self) -> io::Result<Peer> {
        if !self.is_plain() {
            let accepted = self.take_accepted()?;
            let (stream, client) = accepted.open(self.peer).await?;
            self.state = Registration::Registered(stream);
            self.peer = client;
        }
        Ok(self.peer)
    }

    /// Opens the connection, registers it with the reactor of the present worker, and returns the
    /// stream and the client.
    pub(crate) async fn into_stream(mut self) -> io::Result<(Stream, Peer)> {
        let client = self.open().await?;
        self.registered()?;
        match self.state {
            Registration::Registered(stream) => Ok((stream, client)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether files can be sent over the socket as they are: plain TCP that is not registered with
    /// a reactor yet.
    pub(crate) const fn is_unregistered_tcp(&self) -> bool {
        matches!(&self.state, Registration::Unregistered(accepted) if accepted.is_tcp())
    }

    /// The socket, for system calls that no method here makes.
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.state {
            Registration::Unregistered(accepted) => Ok(accepted.as_fd()),
            Registration::Registered(stream) => Ok(stream.descriptor()),
            Registration::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Reads the bytes that have arrived; `WouldBlock` if there are none, `Ok(0)` at the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.state {
            Registration::Unregistered(accepted) => accepted.try_read(buffer),
            Registration::Registered(stream) => stream.try_read(buffer),
            Registration::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Appends the bytes that have arrived to `input`; errors as [`try_read`](Self::try_read).
    pub(crate) fn read_now(&self, input: &mut BytesMut) -> io::Result<usize> {
        wire::append(input, |buffer| self.try_read(buffer))
    }

    /// Writes as many bytes as the socket accepts; `WouldBlock` if it accepts none.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.state {
            Registration::Unregistered(accepted) => accepted.try_write(slices),
            Registration::Registered(stream) => stream.try_write(slices),
            Registration::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Writes as many bytes as the socket accepts immediately, and returns the rest.
    pub(crate) fn write_now<'b>(&self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        match self.try_write(&[IoSlice::new(bytes)]) {
            Ok(count) => Ok(bytes.get(count..).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
            Err(error) => Err(error),
        }
    }

    /// As [`wire::read`]; registers the connection if nothing has arrived.
    pub(crate) async fn read(
        &mut self,
        input: &mut BytesMut,
        deadline: Instant,
    ) -> io::Result<usize> {
        match self.read_now(input) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        wire::read(self.registered()?, input, deadline).await
    }

    /// As [`wire::write`]; registers the connection if the socket does not accept all of `bytes`.
    pub(crate) async fn write(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let rest = self.write_now(bytes)?;
        if rest.is_empty() {
            return Ok(());
        }
        wire::write(self.registered()?, rest, deadline).await
    }

    fn take_accepted(&mut self) -> io::Result<AcceptedSocket> {
        match std::mem::replace(&mut self.state, Registration::Failed) {
            Registration::Unregistered(accepted) => Ok(accepted),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn registered(&mut self) -> io::Result<&Stream> {
        if let Registration::Unregistered(_) = self.state {
            let accepted = self.take_accepted()?;
            self.state = Registration::Registered(accepted.register()?);
        }
        match &self.state {
            Registration::Registered(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::Acceptor;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::future::Future;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    async fn connected() -> (LazyStream, TcpStream) {
        let acceptor = Acceptor::bind(&"127.0.0.1:0".parse().expect("an address"));
        let acceptor = acceptor.expect("a free port");
        let gatepost_settings::Bind::Tcp(address) = *acceptor.local() else {
            unreachable!("bound to TCP")
        };
        let listening = acceptor.listen().expect("registered");
        let client = TcpStream::connect(address).expect("a listener");
        let (accepted, peer) = listening.accept().await.expect("a connection");
        let mut stream = LazyStream::new(accepted, peer);
        assert!(stream.is_plain());
        assert_eq!(stream.open().await.expect("plain"), peer);
        (stream, client)
    }

    fn is_registered(stream: &LazyStream) -> bool {
        matches!(stream.state, Registration::Registered(_))
    }

    /// Waits, without a reactor, until all that the client sent has arrived.
    fn await_end_of_input(stream: &LazyStream) {
        let Registration::Unregistered(accepted) = &stream.state else {
            unreachable!("never waited for")
        };
        let mut polled = [PollFd::new(accepted, PollFlags::RDHUP)];
        let limit = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut polled, Some(&limit)), Ok(1));
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test]
    async fn a_stream_that_never_waits_is_not_registered() {
        let (mut stream, mut client) = connected().await;
        client.write_all(b"ask").expect("sent");
        client.shutdown(std::net::Shutdown::Write).expect("open");
        await_end_of_input(&stream);
        let mut input = BytesMut::new();
        while stream.read(&mut input, soon()).await.expect("bytes") > 0 {}
        assert_eq!(&input[..], b"ask");
        stream.write(b"answer", soon()).await.expect("room");
        assert!(!is_registered(&stream));
        drop(stream);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "answer");
    }

    #[tokio::test]
    async fn a_read_that_waits_registers_and_long_answers_leave_in_pieces() {
        const LONG: usize = 20_000_000;
        let (mut stream, mut client) = connected().await;
        let mut input = BytesMut::new();
        {
            let mut read = pin!(stream.read(&mut input, soon()));
            // The client sends only after the read was found waiting.
            let mut context = Context::from_waker(Waker::noop());
            assert!(read.as_mut().poll(&mut context).is_pending());
            client.write_all(b"late").expect("sent");
            assert_eq!(read.await.expect("bytes"), 4);
        }
        assert!(is_registered(&stream));
        let client = std::thread::spawn(move || {
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("an answer");
            answer.len()
        });
        stream.write(&vec![b'x'; LONG], soon()).await.expect("room");
        drop(stream);
        assert_eq!(client.join().expect("no panic"), LONG);
    }
}
