//! The part of HTTP/1.1 that a load generator needs: the end of a response, and whether it is a
//! success.

use std::mem::MaybeUninit;

use httparse::ParserConfig;
use memchr::memmem;

/// The maximum length of a response's header.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// More header fields than any server sends.
const FIELDS_MAX: usize = 64;

/// The parsing state of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponsePhase {
    Head,
    /// Remaining bytes of the body.
    Body(u64),
    /// The line with the length of the next chunk is next.
    ChunkLength,
    /// Remaining bytes of a chunk, including its line end.
    Chunk(u64),
    /// The lines after the last chunk.
    Trailer,
    /// The body ends with the connection.
    UntilClose,
}

/// Parses a response in parts.
#[derive(Debug)]
pub struct ResponseReader {
    phase: ResponsePhase,
    /// The status of the current or last response.
    pub status: u16,
    /// The number of its bytes so far, header and framing included.
    pub bytes: u64,
}

/// The meaning of a part of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePart {
    /// Consumed bytes; the response is not complete.
    More(usize),
    /// The response is complete; consumed bytes that belong to it.
    Whole(usize),
    /// This is not HTTP.
    Malformed,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self {
            phase: ResponsePhase::Head,
            status: 0,
            bytes: 0,
        }
    }
}

impl ResponseReader {
    /// Prepares for the next response.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether the end of the connection ends this response properly.
    pub fn ends_with_connection(&self) -> bool {
        self.phase == ResponsePhase::UntilClose
    }

    /// Consumes as many bytes as possible.
    pub fn read(&mut self, bytes: &[u8]) -> ResponsePart {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let step = match self.phase {
                ResponsePhase::Head => match self.read_head(rest) {
                    Ok(step) => step,
                    Err(()) => return ResponsePart::Malformed,
                },
                ResponsePhase::Body(left) => {
                    let now = left.min(rest.len() as u64);
                    self.phase = ResponsePhase::Body(left - now);
                    Some(now as usize)
                }
                ResponsePhase::ChunkLength => match self.read_chunk_length(rest) {
                    Ok(step) => step,
                    Err(()) => return ResponsePart::Malformed,
                },
                ResponsePhase::Chunk(left) => {
                    let now = left.min(rest.len() as u64);
                    self.phase = if left == now {
                        ResponsePhase::ChunkLength
                    } else {
                        ResponsePhase::Chunk(left - now)
                    };
                    Some(now as usize)
                }
                ResponsePhase::Trailer => {
                    let end = memmem::find(rest, b"\r\n");
                    if end == Some(0) {
                        self.phase = ResponsePhase::Body(0);
                    }
                    end.map(|end| end + 2)
                }
                ResponsePhase::UntilClose => Some(rest.len()),
            };
            let step_taken = step.unwrap_or(0);
            taken += step_taken;
            self.bytes += step_taken as u64;
            if self.phase == ResponsePhase::Body(0) {
                return ResponsePart::Whole(taken);
            }
            if step.is_none() || taken == bytes.len() {
                return ResponsePart::More(taken);
            }
        }
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, ()> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
            return if bytes.len() > HEAD_MAX_BYTES {
                Err(())
            } else {
                Ok(None)
            };
        };
        // Not initialised, because that would cost more than parsing a usual header.
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut []);
        ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, &bytes[..end + 4], &mut fields)
            .map_err(drop)?;
        self.status = response.code.ok_or(())?;
        self.phase = ResponsePhase::UntilClose;
        for field in response.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = std::str::from_utf8(field.value).map_err(drop)?;
                self.phase = ResponsePhase::Body(length.trim().parse().map_err(drop)?);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                self.phase = ResponsePhase::ChunkLength;
            }
        }
        Ok(Some(end + 4))
    }

    fn read_chunk_length(&mut self, bytes: &[u8]) -> Result<Option<usize>, ()> {
        let Some(end) = memmem::find(bytes, b"\r\n") else {
            return if bytes.len() > 1024 {
                Err(())
            } else {
                Ok(None)
            };
        };
        let line = std::str::from_utf8(&bytes[..end]).map_err(drop)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let length = u32::from_str_radix(digits, 16).map_err(drop)?;
        self.phase = if length == 0 {
            ResponsePhase::Trailer
        } else {
            ResponsePhase::Chunk(u64::from(length) + 2)
        };
        Ok(Some(end + 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
        5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n";

    /// Feeds the reader in parts, as the loop does: bytes that were not consumed are passed again.
    fn read_split(text: &[u8], split: usize) -> (ResponsePart, ResponseReader) {
        let mut reader = ResponseReader::default();
        match reader.read(&text[..split]) {
            ResponsePart::More(taken) => (reader.read(&text[taken..]), reader),
            other => (other, reader),
        }
    }

    #[test]
    fn any_split_finds_the_same_end() {
        for text in [SIZED, CHUNKED] {
            for split in 0..text.len() {
                let (part, reader) = read_split(text, split);
                assert!(matches!(part, ResponsePart::Whole(_)), "{split}: {part:?}");
                assert_eq!(
                    (reader.status, reader.bytes),
                    (200, text.len() as u64),
                    "{split}"
                );
            }
        }
    }

    #[test]
    fn the_next_response_is_left_alone() {
        let both = [SIZED, SIZED].concat();
        assert_eq!(
            ResponseReader::default().read(&both),
            ResponsePart::Whole(SIZED.len())
        );
    }

    #[test]
    fn without_a_length_the_connection_is_the_end() {
        let mut reader = ResponseReader::default();
        assert!(matches!(
            reader.read(b"HTTP/1.0 200 OK\r\n\r\nbody"),
            ResponsePart::More(23)
        ));
        assert!(reader.ends_with_connection());
        assert_eq!(
            ResponseReader::default().read(b"what\r\n\r\n"),
            ResponsePart::Malformed
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            text.extend_from_slice(&bytes);
            ResponseReader::default().read(&text);
            ResponseReader::default().read(&bytes);
        }
    }
}
