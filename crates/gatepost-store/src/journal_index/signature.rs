//! The signature of a block: a row of bits, of which each term sets a few.
//!
//! A search requires the bits of its terms. A block whose signature lacks one of them has no entry
//! with that term; one that has them all may have it.

use std::collections::BTreeSet;

/// The bits of a signature. A block of [`BLOCK_ROWS`](super::BLOCK_ROWS) mails has about 2,000
/// terms, which set a third of them.
pub(super) const SIGNATURE_BITS: usize = 16_128;
/// The bits that a term sets. So a term that a block does not have is found in about 3 % of the
/// blocks.
const TERM_BITS: u32 = 3;
/// The bits of a hash from which the place of one bit is taken.
const PLACE_BITS: u32 = 21;
/// The number by which hashes are spread over all bits: that of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JournalTerm(pub(super) u64);

impl JournalTerm {
    /// The places of its bits.
    pub(super) fn places(self) -> impl Iterator<Item = usize> {
        let hash = (self.0 ^ (self.0 >> 32)).wrapping_mul(SPREAD);
        (0..TERM_BITS).map(move |number| {
            let part = (hash >> (number * PLACE_BITS)) & ((1 << PLACE_BITS) - 1);
            (part as usize * SIGNATURE_BITS) >> PLACE_BITS
        })
    }
}

/// The places of the bits of several terms, each once and in their order.
pub(super) fn places_of(terms: &BTreeSet<JournalTerm>) -> Vec<usize> {
    let places: BTreeSet<usize> = terms.iter().flat_map(|term| term.places()).collect();
    places.into_iter().collect()
}

/// The signature of a block.
pub(super) struct Signature(Box<[u64]>);

impl Default for Signature {
    fn default() -> Self {
        Self(vec![0; SIGNATURE_BITS / 64].into())
    }
}

impl Signature {
    pub(super) fn add(&mut self, term: JournalTerm) {
        for place in term.places() {
            self.0[place / 64] |= 1 << (place % 64);
        }
    }

    /// The words of the signature, the lowest bits first.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}
