//! The chunked transfer coding (RFC 9112, section 7.1), decoded as it arrives, in any split.
//!
//! Line ends are CR LF and nothing else, sizes are hexadecimal digits and nothing else: whatever
//! only a lenient decoder accepts can be used for request smuggling.

use crate::http::error::HttpError;

/// Chunk extensions and trailer fields are read and discarded, up to this many bytes in total.
const IGNORED_BYTES_MAX: usize = 8 << 10;
/// Enough for any size that a body may have.
const SIZE_DIGITS_MAX: u8 = 15;

/// The part that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    Size { digits: u8 },
    Extension(Extension),
    SizeNewline,
    Data { left: u64 },
    DataReturn,
    DataNewline,
    TrailerStart,
    Trailer,
    TrailerNewline,
    LastNewline,
    Done,
}

/// The decoder's position in a chunk's extensions (RFC 9112, section 7.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    /// After a semicolon.
    NameStart,
    Name,
    /// After blanks that follow a name.
    NameEnd,
    /// After an equals sign.
    ValueStart,
    Value,
    Quoted,
    /// After a backslash in quotes.
    Escaped,
    /// After the closing quote.
    QuotedEnd,
}

impl Extension {
    /// The state after this byte; `None` if the byte is not permitted here.
    fn after(self, byte: u8) -> Option<Self> {
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        Some(match (self, byte) {
            (Self::NameStart | Self::ValueStart, b' ' | b'\t') => self,
            (Self::NameStart | Self::Name, _) if is_token => Self::Name,
            (Self::Name | Self::NameEnd, b' ' | b'\t') => Self::NameEnd,
            (Self::Name | Self::NameEnd, b'=') => Self::ValueStart,
            (Self::Name | Self::Value | Self::QuotedEnd, b';') => Self::NameStart,
            (Self::ValueStart | Self::Value, _) if is_token => Self::Value,
            (Self::Quoted, b'"') => Self::QuotedEnd,
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::ValueStart, b'"')
            | (Self::Quoted | Self::Escaped, b'\t' | 0x20..=0x7e | 0x80..) => Self::Quoted,
            _ => return None,
        })
    }

    /// Whether the line may end here.
    const fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Value | Self::QuotedEnd)
    }
}

/// A decoder for one body.
#[derive(Debug)]
pub(in crate::http) struct ChunkedDecoder {
    state: ChunkState,
    size: u64,
    ignored: usize,
    body_bytes_max: u64,
}

impl ChunkedDecoder {
    /// A decoder that refuses bodies longer than `body_bytes_max`.
    pub(in crate::http) const fn new(body_bytes_max: u64) -> Self {
        Self {
            state: ChunkState::Size { digits: 0 },
            size: 0,
            ignored: 0,
            body_bytes_max,
        }
    }

    /// Whether the body has ended.
    pub(in crate::http) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Decodes as much of `input` as belongs to the body, appends the data to `body`, and
    /// returns how many bytes of `input` were used.
    pub(in crate::http) fn decode(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<usize, HttpError> {
        let mut used = 0;
        while self.state != ChunkState::Done {
            let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            if let ChunkState::Data { left } = self.state {
                let taken = (rest.len() as u64).min(left);
                body.extend_from_slice(rest.get(..taken as usize).unwrap_or_default());
                used += taken as usize;
                self.state = match left - taken {
                    0 => ChunkState::DataReturn,
                    left => ChunkState::Data { left },
                };
            } else {
                let byte = rest.first().copied().unwrap_or_default();
                self.step(byte, body.len() as u64)?;
                used += 1;
            }
        }
        Ok(used)
    }

    fn step(&mut self, byte: u8, body_bytes: u64) -> Result<(), HttpError> {
        self.state = match (self.state, byte) {
            (ChunkState::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte, digits)?
            }
            (ChunkState::Size { digits: 1.. }, b'\r') => ChunkState::SizeNewline,
            (ChunkState::Extension(extension), b'\r') if extension.may_end() => {
                ChunkState::SizeNewline
            }
            (ChunkState::Size { digits: 1.. }, b';') => ChunkState::Extension(Extension::NameStart),
            (ChunkState::Size { .. }, _) => {
                return Err(HttpError::Chunk("a chunk size is malformed"));
            }
            (ChunkState::Extension(extension), byte) => {
                let after = extension.after(byte);
                let after = after.ok_or(HttpError::Chunk("a chunk extension is malformed"))?;
                self.ignore(byte, ChunkState::Extension(after))?
            }
            (ChunkState::SizeNewline, b'\n') => self.begin_chunk(body_bytes)?,
            (ChunkState::DataReturn, b'\r') => ChunkState::DataNewline,
            (ChunkState::DataNewline, b'\n') => ChunkState::Size { digits: 0 },
            (ChunkState::TrailerStart, b'\r') => ChunkState::LastNewline,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerNewline,
            (ChunkState::TrailerStart | ChunkState::Trailer, byte) => {
                self.ignore(byte, ChunkState::Trailer)?
            }
            (ChunkState::TrailerNewline, b'\n') => ChunkState::TrailerStart,
            (ChunkState::LastNewline, b'\n') => ChunkState::Done,
            _ => return Err(HttpError::Chunk("a line does not end in CR LF")),
        };
        Ok(())
    }

    fn add_digit(&mut self, byte: u8, digits: u8) -> Result<ChunkState, HttpError> {
        if digits >= SIZE_DIGITS_MAX {
            return Err(HttpError::Chunk("a chunk size is too long"));
        }
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        self.size = self.size << 4 | u64::from(digit);
        Ok(ChunkState::Size { digits: digits + 1 })
    }

    fn begin_chunk(&mut self, body_bytes: u64) -> Result<ChunkState, HttpError> {
        let size = std::mem::take(&mut self.size);
        if body_bytes.saturating_add(size) > self.body_bytes_max {
            return Err(HttpError::BodyTooLarge(self.body_bytes_max));
        }
        Ok(match size {
            0 => ChunkState::TrailerStart,
            left => ChunkState::Data { left },
        })
    }

    fn ignore(&mut self, byte: u8, state: ChunkState) -> Result<ChunkState, HttpError> {
        self.ignored += 1;
        if byte == b'\n' || byte == 0 {
            return Err(HttpError::Chunk("a line does not end in CR LF"));
        }
        if self.ignored > IGNORED_BYTES_MAX {
            return Err(HttpError::Chunk(
                "chunk extensions and trailers are too long",
            ));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), HttpError> {
        let mut decoder = ChunkedDecoder::new(1_000);
        let mut body = Vec::new();
        for piece in pieces {
            decoder.decode(piece, &mut body)?;
        }
        Ok((body, decoder.is_done()))
    }

    #[test]
    fn bodies_are_decoded() {
        let input = b"5;name=\"x\"\r\nhello\r\n00A\r\n, my world\r\n0\r\nTrailer: x\r\n\r\nGET";
        let mut decoder = ChunkedDecoder::new(1_000);
        let mut body = Vec::new();
        let used = decoder.decode(input, &mut body).expect("a body");
        assert_eq!(body, b"hello, my world");
        assert!(decoder.is_done());
        assert_eq!(&input[used..], b"GET");
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        for input in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"\r\n",
            b"+5\r\nhello",
            b"0x5\r\nhello",
            b" 5\r\nhello",
            b"5 \r\nhello",
            b"-1\r\n",
            b";x\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5;x\n\r\nhello",
            b"5;\r\nhello",
            b"5;x;\r\nhello",
            b"5;x=\r\nhello",
            b"5;x=\"a\r\nhello",
            b"5;x=\"a\"b\r\nhello",
            b"5;x y\r\nhello",
            b"5;=x\r\nhello",
            b"0\r\nA: b\n\r\n",
            b"1000000000000000\r\n",
            b"3e9\r\n",
        ] {
            assert!(
                decode(&[input]).is_err(),
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_body(split in 0_usize..40) {
            let input: &[u8] = b"5\r\nhello\r\na\r\n, my world\r\n0\r\n\r\n";
            let (first, second) = input.split_at(split.min(input.len()));
            prop_assert_eq!(decode(&[first, second]), Ok((b"hello, my world".to_vec(), true)));
        }
    }
}
