//! The load generator: many connections on one thread, one epoll set, one shared read buffer.
//!
//! A generator must cost far less than the server it measures. So there is no runtime: a connection
//! is a socket, a small state machine ([`Conversation`]) and, only while a message is incomplete,
//! its bytes. Sockets are registered once, edge-triggered, for both directions, and their
//! registration never changes. All reads use one buffer that stays in the cache.
//!
//! Invariant (edge-triggered reading): after an event a socket is read until a read returns fewer
//! bytes than requested; a short read means that the socket is drained, and that later bytes cause
//! a new edge. At the end of the stream the loop reads until it has seen the end.

mod channel;
mod http;
mod socket;

pub use channel::{Channel, encrypted};
pub use http::{ResponsePart, ResponseReader};
pub use socket::{Dialer, check_connections, raise_descriptor_limit};

use std::mem::MaybeUninit;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::clock::{self, Nanoseconds};
use channel::ReceivedBytes;

/// The maximum size of one read, and of a message that is not processed in parts.
const READ_BUFFER_BYTES: usize = 256 * 1024;
/// A connection's own buffers are freed when they are empty and larger than this.
const KEPT_BUFFER_BYTES: usize = 1024;
/// Number of events that are taken from the kernel at once.
const EVENTS_PER_WAIT: usize = 256;

/// The protocol state of one connection, without I/O. All conversations of a loop share `Shared`.
pub trait Conversation<Shared> {
    /// The connection is established.
    fn connected(&mut self, shared: &mut Shared, outgoing: &mut Vec<u8>);

    /// Bytes arrived at the time `now`; returns how many were consumed. The rest is passed again
    /// with the next bytes.
    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut Shared,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome;

    /// The connection has ended: the server closed it, or for the given reason.
    fn closed(&mut self, reason: ConnectionClosed, shared: &mut Shared);
}

/// The result of handling received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// This number of bytes was consumed.
    Taken(usize),
    /// The conversation has ended: close the connection.
    Finished,
    /// The server violated the protocol: close the connection.
    Broken,
}

impl ReceiveOutcome {
    /// The outcome of reading packets: the number of bytes that were consumed, or the reason of a
    /// failure, of which the first is kept.
    pub fn of_read(read: Result<usize, String>, failure: &mut Option<String>) -> Self {
        match read {
            Ok(taken) => Self::Taken(taken),
            Err(reason) => {
                failure.get_or_insert(reason);
                Self::Broken
            }
        }
    }
}

/// The reason why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionClosed {
    /// The conversation ended it.
    Finished,
    /// The conversation detected a protocol violation.
    Broken,
    /// The server ended the stream.
    ByServer,
    /// The system reported an error, while connecting or later.
    Failed(Errno),
}

struct LoadConnection<C> {
    channel: Channel,
    conversation: C,
    connected: bool,
    /// Received bytes that are not a complete message yet.
    tail: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    outgoing: Vec<u8>,
}

/// Many connections on one thread.
pub struct Loop<C> {
    epoll: OwnedFd,
    links: Vec<Option<LoadConnection<C>>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

impl<C> Loop<C> {
    /// An empty loop.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            links: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; READ_BUFFER_BYTES],
        })
    }

    /// Adds a socket that is connecting.
    pub fn add(&mut self, channel: Channel, conversation: C) -> Result<usize, Errno> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(
            &self.epoll,
            channel.socket(),
            EventData::new_u64(index as u64),
            flags,
        )?;
        self.links[index] = Some(LoadConnection {
            channel,
            conversation,
            connected: false,
            tail: Vec::new(),
            outgoing: Vec::new(),
        });
        Ok(index)
    }

    /// The number of connections that are open or connecting.
    pub fn open(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// The conversation of an open connection.
    pub fn conversation(&mut self, index: usize) -> Option<&mut C> {
        let link = self.links.get_mut(index)?.as_mut()?;
        Some(&mut link.conversation)
    }

    /// The conversations of all open connections.
    pub fn conversations(&self) -> impl Iterator<Item = &C> {
        self.links.iter().flatten().map(|link| &link.conversation)
    }

    /// Closes all connections and returns their conversations.
    pub fn into_conversations(self) -> impl Iterator<Item = C> {
        self.links
            .into_iter()
            .flatten()
            .map(|link| link.conversation)
    }

    /// Sends bytes on an open connection; those that the socket does not accept now are sent later.
    pub fn send<Shared>(&mut self, index: usize, bytes: &[u8], shared: &mut Shared)
    where
        C: Conversation<Shared>,
    {
        let Some(Some(link)) = self.links.get_mut(index) else {
            return;
        };
        link.outgoing.extend_from_slice(bytes);
        if link.connected
            && let Err(error) = flush(link)
        {
            self.close(index, ConnectionClosed::Failed(error), shared);
        }
    }

    /// The number of bytes that a connection's socket has not accepted yet.
    pub fn unsent(&self, index: usize) -> usize {
        let link = self.links.get(index).and_then(Option::as_ref);
        link.map_or(0, |link| link.outgoing.len())
    }

    /// Closes a connection.
    pub fn close<Shared>(&mut self, index: usize, reason: ConnectionClosed, shared: &mut Shared)
    where
        C: Conversation<Shared>,
    {
        let Some(slot) = self.links.get_mut(index) else {
            return;
        };
        if let Some(LoadConnection {
            channel,
            mut conversation,
            ..
        }) = slot.take()
        {
            // The socket is closed first, so that the time of closing is included if it is
            // measured.
            drop(channel);
            self.free.push(index);
            conversation.closed(reason, shared);
        }
    }

    /// Handles events like [`Loop::turn`], but returns at `deadline` to the microsecond:
    /// `epoll_wait(2)` rounds up to whole milliseconds, `ppoll(2)` does not.
    pub fn turn_until<Shared>(
        &mut self,
        deadline: Nanoseconds,
        shared: &mut Shared,
    ) -> Result<usize, Errno>
    where
        C: Conversation<Shared>,
    {
        let left = timespec(deadline.saturating_sub(clock::now()));
        let mut events = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut events, Some(&left)) {
            Ok(0) | Err(Errno::INTR) => Ok(0),
            Ok(_) => self.turn(0, shared),
            Err(error) => Err(error),
        }
    }

    /// Waits for events until `deadline` at the latest, and handles them.
    pub fn turn<Shared>(
        &mut self,
        deadline: Nanoseconds,
        shared: &mut Shared,
    ) -> Result<usize, Errno>
    where
        C: Conversation<Shared>,
    {
        let left = deadline.saturating_sub(clock::now());
        let timeout = timespec(left);
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_PER_WAIT];
        let events = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(0),
            Err(error) => return Err(error),
        };
        for event in events.iter() {
            let (index, flags) = (event.data.u64() as usize, event.flags);
            if let Err(reason) = self.handle(index, flags, shared) {
                self.close(index, reason, shared);
            }
        }
        Ok(events.len())
    }

    fn handle<Shared>(
        &mut self,
        index: usize,
        flags: EventFlags,
        shared: &mut Shared,
    ) -> Result<(), ConnectionClosed>
    where
        C: Conversation<Shared>,
    {
        // Closed by an earlier event of this turn.
        let Some(Some(link)) = self.links.get_mut(index) else {
            return Ok(());
        };
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if !link.connected {
            if let Some(error) = link.channel.socket_error() {
                return Err(ConnectionClosed::Failed(error));
            }
            if !flags.contains(EventFlags::OUT) {
                return if failed {
                    Err(ConnectionClosed::ByServer)
                } else {
                    Ok(())
                };
            }
            link.connected = true;
            link.conversation.connected(shared, &mut link.outgoing);
        }
        if !link.outgoing.is_empty() || link.channel.has_unsent() {
            flush(link).map_err(ConnectionClosed::Failed)?;
        }
        let ending = failed || flags.contains(EventFlags::RDHUP);
        if ending || flags.contains(EventFlags::IN) {
            read(link, &mut self.buffer, ending, shared)?;
        }
        Ok(())
    }
}

fn timespec(span: Nanoseconds) -> Timespec {
    Timespec {
        tv_sec: (span / clock::SECOND) as i64,
        tv_nsec: (span % clock::SECOND) as i64,
    }
}

/// Reads until the socket is drained, and passes everything on.
fn read<C: Conversation<Shared>, Shared>(
    link: &mut LoadConnection<C>,
    buffer: &mut Vec<u8>,
    ending: bool,
    shared: &mut Shared,
) -> Result<(), ConnectionClosed> {
    loop {
        let kept = link.tail.len();
        if kept * 2 > buffer.len() {
            // One message is larger than the buffer: it grows, for all connections at once.
            buffer.resize(buffer.len() * 2, 0);
        }
        buffer[..kept].copy_from_slice(&link.tail);
        let ReceivedBytes { count, is_drained } = match link.channel.receive(&mut buffer[kept..]) {
            Ok(ReceivedBytes { count: 0, .. }) => return Err(ConnectionClosed::ByServer),
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(ConnectionClosed::Failed(error)),
        };
        let bytes = &buffer[..kept + count];
        let now = clock::now();
        let taken = match link
            .conversation
            .received(bytes, now, shared, &mut link.outgoing)
        {
            ReceiveOutcome::Taken(taken) => taken,
            ReceiveOutcome::Finished => return Err(ConnectionClosed::Finished),
            ReceiveOutcome::Broken => return Err(ConnectionClosed::Broken),
        };
        link.tail.clear();
        if taken < bytes.len() {
            link.tail.extend_from_slice(&bytes[taken..]);
        } else if link.tail.capacity() > KEPT_BUFFER_BYTES {
            link.tail = Vec::new();
        }
        if !link.outgoing.is_empty() {
            flush(link).map_err(ConnectionClosed::Failed)?;
        }
        if is_drained && !ending {
            return Ok(());
        }
    }
}

/// Writes as many bytes as the socket accepts; the rest waits for the next event.
fn flush<C>(link: &mut LoadConnection<C>) -> Result<(), Errno> {
    link.channel.send(&mut link.outgoing)?;
    if link.outgoing.is_empty() && link.outgoing.capacity() > KEPT_BUFFER_BYTES {
        link.outgoing = Vec::new();
    }
    Ok(())
}
