//! A connection that no reactor knows until something has to be waited for.
//!
//! Where the client speaks first, the kernel holds a connection back until it has
//! ([`Acceptor::defer_until_first_bytes`](crate::acceptor::Acceptor::defer_until_first_bytes)). So a
//! small request is there when its connection is, and the socket takes its answer at once: to
//! register it, set timers and be woken for them would cost as much as reading and answering.

use std::io::{self, IoSlice};

use bytes::BytesMut;
use gatepost_message::Peer;
use tokio::time::Instant;

use crate::acceptor::Accepted;
use crate::stream::Stream;
use crate::wire;

/// A connection for a protocol in which the client speaks first.
pub(crate) enum LateStream {
    /// Plain, and never waited for yet. Empty only while, or because, registering it failed.
    Accepted(Option<Accepted>),
    /// Known to the reactor of the worker that waited first.
    Stream(Stream),
}

impl LateStream {
    /// Takes a connection over, and gives the peer behind a proxy. What a proxy or TLS stands in front
    /// of is waited for at once.
    pub(crate) async fn open(accepted: Accepted, peer: Peer) -> io::Result<(Self, Peer)> {
        if accepted.is_plain(peer) {
            return Ok((Self::Accepted(Some(accepted)), peer));
        }
        let (stream, client) = accepted.open(peer).await?;
        Ok((Self::Stream(stream), client))
    }

    /// As [`wire::read`].
    pub(crate) async fn read(
        &mut self,
        input: &mut BytesMut,
        deadline: Instant,
    ) -> io::Result<usize> {
        if let Self::Accepted(Some(accepted)) = self {
            match wire::read_first(accepted, input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        wire::read(self.registered()?, input, deadline).await
    }

    /// As [`wire::write`].
    pub(crate) async fn write(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let rest = self.write_now(bytes)?;
        if rest.is_empty() {
            return Ok(());
        }
        wire::write(self.registered()?, rest, deadline).await
    }

    /// Writes what the socket takes at once, and gives the rest. Needs no reactor, so any thread will do.
    pub(crate) fn write_now<'b>(&self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let slices = [IoSlice::new(bytes)];
        let written = match self {
            Self::Accepted(Some(accepted)) => accepted.try_write(&slices),
            Self::Accepted(None) => Err(io::ErrorKind::NotConnected.into()),
            Self::Stream(stream) => stream.try_write(&slices),
        };
        match written {
            Ok(count) => Ok(bytes.get(count..).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
            Err(error) => Err(error),
        }
    }

    fn registered(&mut self) -> io::Result<&Stream> {
        if let Self::Accepted(accepted) = self {
            let accepted = accepted.take().ok_or(io::ErrorKind::NotConnected)?;
            *self = Self::Stream(accepted.register()?);
        }
        match self {
            Self::Stream(stream) => Ok(stream),
            Self::Accepted(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::Acceptor;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    async fn connected() -> (LateStream, TcpStream) {
        let acceptor = Acceptor::bind(&"127.0.0.1:0".parse().expect("an address"));
        let acceptor = acceptor.expect("a free port");
        let gatepost_settings::Bind::Tcp(address) = *acceptor.local() else {
            unreachable!("bound to TCP")
        };
        let listening = acceptor.listen().expect("registered");
        let client = TcpStream::connect(address).expect("a listener");
        let (accepted, peer) = listening.accept().await.expect("a connection");
        let (stream, client_of) = LateStream::open(accepted, peer).await.expect("plain");
        assert_eq!(peer, client_of);
        (stream, client)
    }

    /// Until all that the client sent has come, and that it sends no more, without a reactor.
    fn await_end_of_input(stream: &LateStream) {
        let LateStream::Accepted(Some(accepted)) = stream else {
            unreachable!("never waited for")
        };
        let mut polled = [PollFd::new(accepted, PollFlags::RDHUP)];
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut polled, Some(&patience)), Ok(1));
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test]
    async fn what_needs_no_waiting_needs_no_reactor() {
        let (mut stream, mut client) = connected().await;
        client.write_all(b"ask").expect("sent");
        client.shutdown(std::net::Shutdown::Write).expect("open");
        await_end_of_input(&stream);
        let mut input = BytesMut::new();
        while stream.read(&mut input, soon()).await.expect("bytes") > 0 {}
        assert_eq!(&input[..], b"ask");
        stream.write(b"answer", soon()).await.expect("room");
        assert!(matches!(stream, LateStream::Accepted(Some(_))));
        drop(stream);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "answer");
    }

    #[tokio::test]
    async fn what_comes_later_is_waited_for_and_long_answers_are_taken_in_pieces() {
        const LONG: usize = 20_000_000;
        let (mut stream, mut client) = connected().await;
        let client = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            client.write_all(b"late").expect("sent");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("an answer");
            answer.len()
        });
        let mut input = BytesMut::new();
        assert_eq!(stream.read(&mut input, soon()).await.expect("bytes"), 4);
        assert!(matches!(stream, LateStream::Stream(_)));
        stream.write(&vec![b'x'; LONG], soon()).await.expect("room");
        drop(stream);
        assert_eq!(client.join().expect("no panic"), LONG);
    }
}
