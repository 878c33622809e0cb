//! Reads a text as symbols.

use super::alphabet::Alphabet;
use super::lookahead::NextSymbols;
use super::symbol_set::{Gram, NO_BYTE, Symbol};

/// The rest of a text.
#[derive(Debug, Clone)]
pub(super) struct TextReader<'t> {
    symbol_of: &'t [Symbol; 256],
    rest: std::slice::Iter<'t, u8>,
    /// The gram before the rest.
    pub(super) gram: Gram,
}

impl<'t> TextReader<'t> {
    pub(super) fn new(alphabet: &'t Alphabet, text: &'t [u8]) -> Self {
        Self {
            symbol_of: &alphabet.symbol_of,
            rest: text.iter(),
            gram: 0,
        }
    }

    /// Reads a byte; returns its symbol.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Symbol> {
        let byte = self.rest.next()?;
        Some(self.symbol_of[usize::from(*byte)])
    }

    /// The symbols of the next bytes.
    #[inline]
    pub(super) fn next_symbols(&self) -> NextSymbols {
        let rest = self.rest.as_slice();
        std::array::from_fn(|index| {
            rest.get(index)
                .map_or(NO_BYTE, |&byte| self.symbol_of[usize::from(byte)])
        })
    }

    /// The number of bytes in the rest.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}
