//! How many control frames a client may send.
//!
//! PING, SETTINGS, PRIORITY, WINDOW_UPDATE and RST_STREAM cost a client a few bytes and us a reply
//! or a search, and no flow control bounds them (RFC 9113 section 10.5). A client needs a few of
//! them at the beginning, now and then one, and a WINDOW_UPDATE for what it has received.

use std::time::Instant;

/// Control frames at once.
const BURST: u64 = 1_000;
/// And in a second.
const PER_SECOND: u64 = 20;
/// And one for so many bytes that we have written.
const WRITTEN_BYTES_PER_FRAME: u64 = 512;
/// The client's preface (section 3.4), which is no frame.
const PREFACE_BYTES: usize = 24;
/// Length, type, flags and stream (section 4.1).
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// Follows the frames of one connection.
#[derive(Debug)]
pub(super) struct FrameBudget {
    /// Bytes of the preface or of a payload that are still to come.
    skipped: usize,
    header: [u8; HEADER_BYTES],
    header_length: usize,
    control_frames: u64,
    written_bytes: u64,
    began: Instant,
}

impl FrameBudget {
    pub(super) fn new() -> Self {
        Self {
            skipped: PREFACE_BYTES,
            header: [0; HEADER_BYTES],
            header_length: 0,
            control_frames: 0,
            written_bytes: 0,
            began: Instant::now(),
        }
    }

    /// Notes that bytes were written to the client.
    pub(super) const fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
    }

    /// Takes what the client sent; false where it has sent too many control frames.
    pub(super) fn take(&mut self, mut input: &[u8]) -> bool {
        let before = self.control_frames;
        while !input.is_empty() {
            if self.skipped > 0 {
                let count = self.skipped.min(input.len());
                self.skipped -= count;
                input = input.get(count..).unwrap_or_default();
                continue;
            }
            let missing = (HEADER_BYTES - self.header_length).min(input.len());
            let (bytes, rest) = input.split_at(missing);
            self.header[self.header_length..][..missing].copy_from_slice(bytes);
            self.header_length += missing;
            input = rest;
            if self.header_length == HEADER_BYTES {
                self.header_length = 0;
                self.begin_frame();
            }
        }
        self.control_frames == before || self.is_within()
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.skipped = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let carries_something = match kind {
            DATA => self.skipped > 0 || flags & END_STREAM != 0,
            HEADERS => true,
            _ => false,
        };
        self.control_frames += u64::from(!carries_something);
    }

    fn is_within(&self) -> bool {
        let allowed = BURST + self.written_bytes / WRITTEN_BYTES_PER_FRAME;
        self.control_frames <= allowed
            || self.control_frames <= allowed + self.began.elapsed().as_secs() * PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + usize::from(length), 0);
        frame
    }

    #[test]
    fn floods_are_noticed_in_any_split_and_transfers_are_not() {
        for kind in [2, 3, 4, 6, 8, 9, 200, DATA] {
            let length = if kind == DATA { 0 } else { 8 };
            let flood = frame(kind, length).repeat(2 * BURST as usize);
            for split in [1, 7, 1_000] {
                let mut budget = FrameBudget::new();
                assert!(budget.take(&[0; PREFACE_BYTES]));
                let within = flood.chunks(split).all(|part| budget.take(part));
                assert!(!within, "{kind} in pieces of {split}");
            }
        }
        let mut budget = FrameBudget::new();
        assert!(budget.take(&[0; PREFACE_BYTES]));
        for _ in 0..100_000 {
            assert!(budget.take(&frame(HEADERS, 40)) && budget.take(&frame(DATA, 100)));
            // What a client acknowledges that downloads.
            budget.wrote(16_384);
            assert!(budget.take(&frame(8, 4).repeat(2)));
        }
    }
}
