//! The output that a worker is about to write: small texts in one buffer, large bytes by reference.
//!
//! The responses to a whole read buffer are collected here and written with one `writev` or, if a
//! long part is in a file, with as few calls as possible. The texts of a response may be appended
//! in any order (a page's values before its head, whose Content-Length depends on them); the
//! segments say in which order they are written.

use std::io;
use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use gatepost_pages::{MemoryFile, PageOutput};

use super::sending::{NonblockingSocket, SendBuffer, SendChunk, UnsentChunks, send_some};
use super::socket::PolledSocket;
use crate::stream::Stream;

#[derive(Debug)]
enum OutputSegment {
    Text { start: usize, end: usize },
    Shared(SendChunk),
}

/// Output of one worker; reused for every batch.
#[derive(Debug, Default)]
pub(super) struct Output {
    text: Vec<u8>,
    segments: Vec<OutputSegment>,
    bytes: usize,
}

/// A place in the output, to measure what follows or to put a head before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputPosition {
    segment: usize,
    bytes: usize,
}

impl Output {
    /// Clears the output, and keeps the memory.
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
    pub(super) const fn mark(&self) -> OutputPosition {
        OutputPosition {
            segment: self.segments.len(),
            bytes: self.bytes,
        }
    }

    /// The bytes since `mark`.
    pub(super) const fn since(&self, mark: OutputPosition) -> usize {
        self.bytes - mark.bytes
    }

    /// Removes the segments after `mark`.
    pub(super) fn truncate(&mut self, mark: OutputPosition) {
        self.segments.truncate(mark.segment);
        self.bytes = mark.bytes;
    }

    /// Puts a text before the bytes appended since `mark`.
    pub(super) fn insert_text(&mut self, mark: OutputPosition, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.bytes += end - start;
        let place = mark.segment.min(self.segments.len());
        self.segments
            .insert(place, OutputSegment::Text { start, end });
    }

    fn part<'a>(&'a self, segment: &'a OutputSegment) -> SendBuffer<'a> {
        match segment {
            OutputSegment::Text { start, end } => SendBuffer {
                bytes: self.text.get(*start..*end).unwrap_or_default(),
                file: None,
            },
            OutputSegment::Shared(chunk) => chunk.part(),
        }
    }

    /// Sends as much as `outlet` accepts. The rest goes to `unsent`.
    pub(super) fn write(
        &mut self,
        unsent: &mut UnsentChunks,
        outlet: &mut impl NonblockingSocket,
    ) -> io::Result<()> {
        let mut segment = 0;
        let mut offset = 0;
        while segment < self.segments.len() {
            let waiting = self.segments.get(segment..).unwrap_or_default();
            let parts = waiting.iter().map(|segment| self.part(segment));
            match send_some(parts, offset, outlet) {
                Ok(sent) => {
                    offset += sent;
                    for sent in waiting.iter().map(|segment| self.part(segment).bytes.len()) {
                        if offset < sent {
                            break;
                        }
                        offset -= sent;
                        segment += 1;
                    }
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

    /// The same to a stream, whose task is woken when the socket can be written again.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
        unsent: &mut UnsentChunks,
    ) -> io::Result<()> {
        self.write(unsent, &mut PolledSocket::new(stream, context))
    }

    fn keep_rest(&self, segment: usize, offset: usize, unsent: &mut UnsentChunks) {
        let rest = self.segments.get(segment..).unwrap_or_default();
        for (index, part) in rest.iter().enumerate() {
            let mut chunk = match part {
                OutputSegment::Shared(chunk) => chunk.clone(),
                OutputSegment::Text { .. } => Bytes::copy_from_slice(self.part(part).bytes).into(),
            };
            if index == 0 {
                chunk.advance(offset);
            }
            unsent.push_back(chunk);
        }
    }
}

impl PageOutput for Output {
    fn shared(&mut self, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.segments
                .push(OutputSegment::Shared(bytes.clone().into()));
        }
    }

    fn filed(&mut self, bytes: &Bytes, file: &Arc<MemoryFile>, start: u64) {
        self.bytes += bytes.len();
        self.segments.push(OutputSegment::Shared(SendChunk {
            bytes: bytes.clone(),
            file: Some((Arc::clone(file), start)),
        }));
    }

    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        if start < end {
            self.bytes += end - start;
            self.segments.push(OutputSegment::Text { start, end });
        }
    }
}
