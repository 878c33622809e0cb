//! Symbols, sets of them, and sequences of them.
//!
//! A symbol stands for a class of bytes ([`super::alphabet`]). There are so few that a set of them
//! fits into a word.

/// The symbol of a byte, below [`SYMBOLS`].
pub(super) type Symbol = u8;

/// The symbols of consecutive bytes, [`SYMBOL_BITS`] each, the last in the lowest bits.
pub(super) type Gram = u32;

/// The number of symbols, including [`NO_BYTE`].
pub(super) const SYMBOLS: usize = 1 << SYMBOL_BITS;
/// The number of bits of a symbol.
pub(super) const SYMBOL_BITS: u32 = 6;
/// The symbol before the first byte of a text and after its last; no symbol of a byte.
pub(super) const NO_BYTE: Symbol = 0;

/// A set of symbols, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SymbolSet(u64);

impl SymbolSet {
    /// All symbols.
    pub(super) const ALL: Self = Self(u64::MAX);

    /// Whether the set contains a symbol.
    #[inline]
    pub(super) fn contains(self, symbol: Symbol) -> bool {
        self.0 >> (symbol & (SYMBOLS as Symbol - 1)) & 1 != 0
    }

    /// The number of symbols in the set that are less than `symbol`.
    #[inline]
    pub(super) fn count_below(self, symbol: Symbol) -> u32 {
        (self.0 & (Self::of(symbol).0 - 1)).count_ones()
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn insert(&mut self, symbol: Symbol) {
        self.0 |= Self::of(symbol).0;
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Symbol> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let symbol = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(symbol as Symbol)
        })
    }

    /// The set of one symbol. Symbols are less than 64, so the mask only makes that known.
    #[inline]
    fn of(symbol: Symbol) -> Self {
        Self(1 << (symbol & (SYMBOLS as Symbol - 1)))
    }
}

impl FromIterator<Symbol> for SymbolSet {
    fn from_iter<I: IntoIterator<Item = Symbol>>(symbols: I) -> Self {
        symbols
            .into_iter()
            .fold(Self::default(), |all, symbol| all.union(Self::of(symbol)))
    }
}
