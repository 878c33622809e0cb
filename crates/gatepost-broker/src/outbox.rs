//! The bytes that wait for one subscriber's socket.
//!
//! Large or shared frames are referenced, small ones are copied together: a reference costs a
//! counted clone and a vector of its own at the write, a copy costs its bytes. Segments end at
//! message boundaries, so that whole messages can be dropped; only the front one may be partly
//! written, and that is never dropped.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};

use crate::encoder::SubscriberSocket;

/// From this length on, shared bytes are referenced instead of copied.
const REFERENCE_BYTES_MIN: usize = 512;
/// A segment of copies is closed at this length.
const COPIES_BYTES_MAX: usize = 16 * 1024;
/// Vectors in one write; the kernel's own bound is 1,024.
const VECTORS_MAX: usize = 64;

enum OutboxChunk {
    Own(BytesMut),
    Shared(Bytes),
}

impl OutboxChunk {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Own(bytes) => bytes.advance(count),
            Self::Shared(bytes) => bytes.advance(count),
        }
    }
}

struct Segment {
    content: OutboxChunk,
    /// Publications that begin in it.
    messages: u32,
    /// Whether it contains only publications at QoS 0.
    droppable: bool,
}

/// Whether a write was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteProgress {
    /// Everything is with the kernel.
    All,
    /// The socket refused the rest.
    Blocked,
}

/// A queue of bytes with message boundaries. What each delivery uses comes first (see
/// [`Session`](crate::session::Session)).
#[derive(Default)]
#[repr(C)]
pub(crate) struct Outbox {
    bytes: usize,
    messages: usize,
    /// An upper bound of the bytes that are not publications: waiting ones, and those written
    /// before waiting publications.
    control_bytes: usize,
    /// All bytes that the socket has accepted.
    written: u64,
    front_is_begun: bool,
    segments: VecDeque<Segment>,
}

impl Outbox {
    /// All bytes that the socket of this connection has accepted.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes of packets other than publications that may wait.
    pub(crate) const fn control_bytes(&self) -> usize {
        self.control_bytes
    }

    /// Publications of which nothing or not everything has been written.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends the bytes that `write` writes: `messages` publications, which may be dropped or not.
    pub(crate) fn append<T>(
        &mut self,
        messages: u32,
        droppable: bool,
        write: impl FnOnce(&mut BytesMut) -> T,
    ) -> T {
        let last = self.segments.len().wrapping_sub(1);
        let fits = match self.segments.get(last) {
            Some(Segment {
                content: OutboxChunk::Own(bytes),
                droppable: kind,
                ..
            }) => *kind == droppable && bytes.len() < COPIES_BYTES_MAX,
            _ => false,
        };
        if !fits {
            self.segments.push_back(Segment {
                content: OutboxChunk::Own(BytesMut::new()),
                messages: 0,
                droppable,
            });
        }
        let segment = self
            .segments
            .back_mut()
            .expect("a last segment was just ensured");
        segment.messages += messages;
        let OutboxChunk::Own(bytes) = &mut segment.content else {
            unreachable!("the last segment is a copy");
        };
        let before = bytes.len();
        let result = write(bytes);
        let added = bytes.len() - before;
        self.bytes += added;
        self.messages += messages as usize;
        if messages == 0 {
            self.control_bytes += added;
        }
        result
    }

    /// Uncounts the one message that was just announced to [`Outbox::append`] and not written.
    pub(crate) fn uncount_message(&mut self) {
        if let Some(segment) = self.segments.back_mut() {
            segment.messages -= 1;
            self.messages -= 1;
        }
    }

    /// Appends bytes that other subscribers share.
    pub(crate) fn append_shared(&mut self, bytes: &Bytes, messages: u32) {
        if bytes.len() < REFERENCE_BYTES_MIN {
            self.append(messages, true, |out| out.extend_from_slice(bytes));
            return;
        }
        self.bytes += bytes.len();
        self.messages += messages as usize;
        self.segments.push_back(Segment {
            content: OutboxChunk::Shared(bytes.clone()),
            messages,
            droppable: true,
        });
    }

    /// Sends `bytes` immediately if nothing waits before them, and keeps the bytes that the socket
    /// refuses.
    pub(crate) fn send_shared(
        &mut self,
        bytes: &Bytes,
        messages: u32,
        socket: &dyn SubscriberSocket,
    ) -> io::Result<WriteProgress> {
        if !self.is_empty() {
            self.append_shared(bytes, messages);
            return self.write_to(socket);
        }
        let written = match socket.try_write(&[IoSlice::new(bytes)]) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if written == bytes.len() {
            return Ok(WriteProgress::All);
        }
        self.written += written as u64;
        self.append_shared(&bytes.slice(written..), messages);
        self.front_is_begun = written > 0;
        Ok(WriteProgress::Blocked)
    }

    /// Writes until everything is written or the socket refuses.
    pub(crate) fn write_to(&mut self, socket: &dyn SubscriberSocket) -> io::Result<WriteProgress> {
        while !self.is_empty() {
            let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
            let mut count = 0;
            let mut offered = 0;
            for (vector, segment) in vectors.iter_mut().zip(&self.segments) {
                *vector = IoSlice::new(segment.content.as_slice());
                offered += vector.len();
                count += 1;
            }
            match socket.try_write(&vectors[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.advance(written);
                    if written < offered {
                        return Ok(WriteProgress::Blocked);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(WriteProgress::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle connection owns no buffer.
        self.segments = VecDeque::new();
        Ok(WriteProgress::All)
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        self.written += written as u64;
        self.control_bytes = self.control_bytes.min(self.bytes);
        while let Some(front) = self.segments.front_mut() {
            let length = front.content.as_slice().len();
            if written < length {
                front.content.advance(written);
                self.front_is_begun |= written > 0;
                return;
            }
            written -= length;
            self.messages -= front.messages as usize;
            self.segments.pop_front();
            self.front_is_begun = false;
        }
    }

    /// Drops the oldest droppable segments until at most `bytes_max` bytes and `messages_max`
    /// messages are left, and returns the number of dropped messages.
    pub(crate) fn drop_oldest(&mut self, bytes_max: usize, messages_max: usize) -> u64 {
        let mut dropped = 0;
        let mut index = usize::from(self.front_is_begun);
        while (self.bytes > bytes_max || self.messages > messages_max)
            && index < self.segments.len()
        {
            if !self.segments[index].droppable {
                index += 1;
                continue;
            }
            if let Some(segment) = self.segments.remove(index) {
                self.bytes -= segment.content.as_slice().len();
                self.messages -= segment.messages as usize;
                dropped += u64::from(segment.messages);
            }
        }
        dropped
    }

    /// Discards everything, and returns the number of droppable messages among it.
    pub(crate) fn clear(&mut self) -> u64 {
        let lost = self
            .segments
            .iter()
            .filter(|segment| segment.droppable)
            .map(|segment| u64::from(segment.messages))
            .sum();
        *self = Self::default();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_socket::BoundedSocket;

    #[test]
    fn order_survives_any_refusal() {
        for room in 1..40 {
            let socket = BoundedSocket::new(room);
            let mut outbox = Outbox::default();
            let large = Bytes::from(vec![b'L'; REFERENCE_BYTES_MIN]);
            outbox
                .send_shared(&Bytes::from_static(b"first"), 1, &socket)
                .expect("no error");
            outbox.append(1, false, |out| out.extend_from_slice(b"second"));
            outbox.append_shared(&large, 1);
            while outbox.write_to(&socket).expect("no error") == WriteProgress::Blocked {
                *socket.room.lock() = room;
            }
            let expected = [&b"firstsecond"[..], &large].concat();
            assert_eq!(*socket.taken.lock(), expected);
            assert_eq!((outbox.bytes(), outbox.messages()), (0, 0));
        }
    }

    #[test]
    fn only_whole_unwritten_messages_are_dropped() {
        let socket = BoundedSocket::new(10);
        let mut outbox = Outbox::default();
        for letter in [b'a', b'b', b'c'] {
            outbox.append_shared(&Bytes::from(vec![letter; 1000]), 1);
        }
        outbox.append(0, false, |out| out.extend_from_slice(b"control"));
        assert_eq!(
            outbox.write_to(&socket).expect("no error"),
            WriteProgress::Blocked
        );
        assert_eq!(
            outbox.drop_oldest(1200, usize::MAX),
            2,
            "b and c go, the begun a stays"
        );
        *socket.room.lock() = usize::MAX;
        outbox.write_to(&socket).expect("no error");
        assert_eq!(
            *socket.taken.lock(),
            [&[b'a'; 1000][..], b"control"].concat()
        );
    }

    #[test]
    fn other_packets_are_counted_until_they_are_written() {
        let socket = BoundedSocket::new(10);
        let mut outbox = Outbox::default();
        outbox.append(0, false, |out| out.extend_from_slice(&[1; 50]));
        outbox.append(1, true, |out| out.extend_from_slice(&[2; 100]));
        assert_eq!(outbox.control_bytes(), 50);
        for (room, left) in [(10, 50), (95, 45), (45, 0)] {
            *socket.room.lock() = room;
            outbox.write_to(&socket).expect("no error");
            assert_eq!(outbox.control_bytes(), left);
        }
    }
}
