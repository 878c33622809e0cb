//! Checks of a client's frames that the `h2` crate omits: the number of control frames, and the
//! length of frames whose type determines it.
//!
//! PING, SETTINGS, PRIORITY, WINDOW_UPDATE and RST_STREAM cost a client a few bytes and the server
//! a reply or a search, and no flow control bounds them (RFC 9113, section 10.5). A client needs a
//! few of them at the beginning, now and then one, and a WINDOW_UPDATE for what it has received.
//!
//! A frame whose length its type forbids is an error of its own, FRAME_SIZE_ERROR (section 4.2),
//! for which `h2` sends PROTOCOL_ERROR.

use std::time::Instant;

use h2::Reason;

/// Control frames at once.
const BURST: u64 = 1_000;
/// Control frames per second.
const PER_SECOND: u64 = 20;
/// One more control frame is permitted per this many bytes that the server has written.
const WRITTEN_BYTES_PER_FRAME: u64 = 512;
/// The client's preface (section 3.4), which is not a frame.
const PREFACE_BYTES: usize = 24;
/// Length, type, flags and stream (section 4.1).
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// The flag of DATA and HEADERS that ends the stream, and of SETTINGS that acknowledges.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

/// Follows the frames of one connection.
#[derive(Debug)]
pub(super) struct FrameGuard {
    /// Bytes of the preface or of a payload that have not arrived yet.
    skipped: usize,
    header: [u8; HEADER_BYTES],
    header_length: usize,
    control_frames: u64,
    written_bytes: u64,
    began: Instant,
}

impl FrameGuard {
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

    /// Records that bytes were written to the client.
    pub(super) const fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
    }

    /// Follows the frames in bytes that the client sent. If the connection must end, returns the
    /// number of bytes before the offending frame, and the reason.
    pub(super) fn take(&mut self, received: &[u8]) -> Result<(), (usize, Reason)> {
        let before = self.control_frames;
        let mut input = received;
        while !input.is_empty() {
            if self.skipped > 0 {
                let count = self.skipped.min(input.len());
                self.skipped -= count;
                input = input.get(count..).unwrap_or_default();
                continue;
            }
            let begun = received.len() - input.len();
            let missing = (HEADER_BYTES - self.header_length).min(input.len());
            let (bytes, rest) = input.split_at(missing);
            self.header[self.header_length..][..missing].copy_from_slice(bytes);
            self.header_length += missing;
            input = rest;
            if self.header_length == HEADER_BYTES {
                self.header_length = 0;
                if !self.begin_frame() {
                    return Err((begun, Reason::FRAME_SIZE_ERROR));
                }
            }
        }
        if self.control_frames == before || self.is_within() {
            Ok(())
        } else {
            Err((0, Reason::ENHANCE_YOUR_CALM))
        }
    }

    /// Returns false for a frame whose type forbids this length.
    fn begin_frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.skipped = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let carries_something = match kind {
            DATA => self.skipped > 0 || flags & END_STREAM != 0,
            HEADERS => true,
            _ => false,
        };
        self.control_frames += u64::from(!carries_something);
        has_length_of(kind, flags, self.skipped)
    }

    fn is_within(&self) -> bool {
        let allowed = BURST + self.written_bytes / WRITTEN_BYTES_PER_FRAME;
        self.control_frames <= allowed
            || self.control_frames <= allowed + self.began.elapsed().as_secs() * PER_SECOND
    }
}

/// RFC 9113, sections 6.3, 6.4, 6.5, 6.7, 6.8 and 6.9.
const fn has_length_of(kind: u8, flags: u8, length: usize) -> bool {
    match kind {
        PRIORITY => length == 5,
        RST_STREAM | WINDOW_UPDATE => length == 4,
        SETTINGS if flags & ACK != 0 => length == 0,
        SETTINGS => length.is_multiple_of(6),
        PING => length == 8,
        GOAWAY => length >= 8,
        _ => true,
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
        let kinds = [
            (2, 5),
            (3, 4),
            (4, 6),
            (6, 8),
            (8, 4),
            (9, 8),
            (200, 8),
            (DATA, 0),
        ];
        for (kind, length) in kinds {
            let flood = frame(kind, length).repeat(2 * BURST as usize);
            for split in [1, 7, 1_000] {
                let mut guard = FrameGuard::new();
                assert_eq!(guard.take(&[0; PREFACE_BYTES]), Ok(()));
                let ended = flood.chunks(split).find_map(|part| guard.take(part).err());
                let expected = Some((0, Reason::ENHANCE_YOUR_CALM));
                assert_eq!(ended, expected, "{kind} in pieces of {split}");
            }
        }
        let mut guard = FrameGuard::new();
        assert_eq!(guard.take(&[0; PREFACE_BYTES]), Ok(()));
        for _ in 0..100_000 {
            for frame in [frame(HEADERS, 40), frame(DATA, 100)] {
                assert_eq!(guard.take(&frame), Ok(()));
            }
            // The acknowledgements of a client that downloads.
            guard.wrote(16_384);
            assert_eq!(guard.take(&frame(8, 4).repeat(2)), Ok(()));
        }
    }

    #[test]
    fn frames_before_one_of_a_wrong_length_are_accepted() {
        let mut guard = FrameGuard::new();
        assert_eq!(guard.take(&[0; PREFACE_BYTES]), Ok(()));
        let mut bytes = frame(HEADERS, 40);
        let before = bytes.len();
        bytes.extend(frame(PING, 7));
        assert_eq!(guard.take(&bytes), Err((before, Reason::FRAME_SIZE_ERROR)));
    }
}
