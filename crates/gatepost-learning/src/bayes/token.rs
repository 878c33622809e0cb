//! Tokens: forty bits of the SHA-1 of a word.

use std::fmt;

use sha1::{Digest, Sha1};

/// A token: the last five bytes of the SHA-1 of its text.
///
/// SpamAssassin stores tokens in this form, which saves space and does not disclose words. Gatepost
/// uses the same bytes, so databases can be exchanged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

/// The bits of a token.
pub(super) const TOKEN_BITS: u32 = 40;

impl Token {
    /// The token of a text given in pieces.
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut hash = Sha1::new();
        for piece in pieces {
            hash.update(piece);
        }
        let digest: [u8; 20] = hash.finalize().into();
        let (_, end) = digest.split_at(15);
        Self(
            end.iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        )
    }

    /// The token with these five bytes.
    pub fn from_bytes(bytes: [u8; 5]) -> Self {
        Self(
            bytes
                .iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        )
    }

    /// Its five bytes.
    pub fn to_bytes(self) -> [u8; 5] {
        let mut bytes = [0; 5];
        bytes.copy_from_slice(&self.0.to_be_bytes()[3..]);
        bytes
    }

    pub(super) const fn to_u64(self) -> u64 {
        self.0
    }

    pub(super) const fn from_u64(bits: u64) -> Self {
        Self(bits & ((1 << TOKEN_BITS) - 1))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Token {
    /// Ten hexadecimal digits, as in a backup.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:010x}", self.0)
    }
}

/// The tokens of one message while they are being collected.
#[derive(Debug, Default)]
pub(super) struct Collector {
    tokens: Vec<Token>,
}

impl Collector {
    /// Adds the token of a text given in pieces; an empty text adds none.
    pub(super) fn add(&mut self, pieces: &[&[u8]]) {
        if pieces.iter().any(|piece| !piece.is_empty()) {
            self.tokens.push(Token::of(pieces));
        }
    }

    /// The number of added tokens, duplicates included.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Each token once, sorted.
    pub(super) fn finish(mut self) -> Vec<Token> {
        self.tokens.sort_unstable();
        self.tokens.dedup();
        self.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_end_of_the_sha1() {
        // SHA-1 of "abc" ends in …c26c9cd0d89d.
        let token = Token::of(&[b"a", b"bc"]);
        assert_eq!(token.to_string(), "6c9cd0d89d");
        assert_eq!(Token::from_bytes(token.to_bytes()), token);
        assert_eq!(Token::from_u64(token.to_u64()), token);
    }

    #[test]
    fn each_token_is_collected_once() {
        let mut collector = Collector::default();
        collector.add(&[b"b"]);
        collector.add(&[b"", b""]);
        collector.add(&[b"a"]);
        collector.add(&[b"b"]);
        assert_eq!(collector.finish().len(), 2);
    }
}
