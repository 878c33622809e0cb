//! What a worker is about to write: small texts in one buffer, large bytes by reference.
//!
//! The answers of a whole read buffer are gathered here and leave in one `writev`. The texts of a
//! response may be appended in any order (a page's values before its head, whose Content-Length
//! depends on them); the segments say in which order they are written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use gatepost_pages::Sink;
use smallvec::SmallVec;
use tokio::io::AsyncWrite;

/// Enough for most batches in one system call; the kernel takes 1024.
pub(super) const SLICES_PER_WRITE: usize = 64;

#[derive(Debug)]
enum Segment {
    Text { start: usize, end: usize },
    Shared(Bytes),
}

/// Output of one worker; reused for every batch.
#[derive(Debug, Default)]
pub(super) struct Output {
    text: Vec<u8>,
    segments: Vec<Segment>,
    bytes: usize,
}

/// A place in the output, to measure what follows or to put a head before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    segment: usize,
    bytes: usize,
}

impl Output {
    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.segments.clear();
        self.bytes = 0;
    }

    /// The bytes to be written.
    pub(super) const fn len(&self) -> usize {
        self.bytes
    }

    /// The present end.
    pub(super) const fn mark(&self) -> Mark {
        Mark {
            segment: self.segments.len(),
            bytes: self.bytes,
        }
    }

    /// The bytes since `mark`.
    pub(super) const fn since(&self, mark: Mark) -> usize {
        self.bytes - mark.bytes
    }

    /// Forgets the segments since `mark`.
    pub(super) fn truncate(&mut self, mark: Mark) {
        self.segments.truncate(mark.segment);
        self.bytes = mark.bytes;
    }

    /// Puts a text before what was appended since `mark`.
    pub(super) fn insert_text(&mut self, mark: Mark, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.bytes += end - start;
        let place = mark.segment.min(self.segments.len());
        self.segments.insert(place, Segment::Text { start, end });
    }

    fn slice<'a>(&'a self, segment: &'a Segment) -> &'a [u8] {
        match segment {
            Segment::Text { start, end } => self.text.get(*start..*end).unwrap_or_default(),
            Segment::Shared(bytes) => bytes,
        }
    }

    /// Writes as much as `write` takes, which is a socket's vectored write. What it does not take
    /// goes to `unsent`.
    pub(super) fn write(
        &mut self,
        unsent: &mut VecDeque<Bytes>,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut segment = 0;
        let mut offset = 0;
        while segment < self.segments.len() {
            let waiting = self.segments.get(segment..).unwrap_or_default();
            let mut slices: SmallVec<[IoSlice<'_>; SLICES_PER_WRITE]> = waiting
                .iter()
                .take(SLICES_PER_WRITE)
                .map(|part| IoSlice::new(self.slice(part)))
                .collect();
            if let Some(first) = slices.first_mut() {
                first.advance(offset);
            }
            match write(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(mut written) => {
                    for slice in &slices {
                        if written < slice.len() {
                            break;
                        }
                        written -= slice.len();
                        segment += 1;
                        offset = 0;
                    }
                    offset += written;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.keep_rest(segment, offset, unsent);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(())
    }

    /// The same to a stream, whose task is woken when there is room again.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        unsent: &mut VecDeque<Bytes>,
    ) -> io::Result<()> {
        self.write(unsent, |slices| {
            match Pin::new(&mut *stream).poll_write_vectored(context, slices) {
                Poll::Ready(written) => written,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }

    fn keep_rest(&self, segment: usize, offset: usize, unsent: &mut VecDeque<Bytes>) {
        let rest = self.segments.get(segment..).unwrap_or_default();
        for (index, part) in rest.iter().enumerate() {
            let skip = if index == 0 { offset } else { 0 };
            unsent.push_back(match part {
                Segment::Shared(bytes) => bytes.slice(skip.min(bytes.len())..),
                Segment::Text { .. } => {
                    Bytes::copy_from_slice(self.slice(part).get(skip..).unwrap_or_default())
                }
            });
        }
    }
}

impl Sink for Output {
    fn shared(&mut self, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.segments.push(Segment::Shared(bytes.clone()));
        }
    }

    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        if start < end {
            self.bytes += end - start;
            self.segments.push(Segment::Text { start, end });
        }
    }
}
