//! UTF-8 that arrives in pieces.

/// The longest beginning of a character whose end has not arrived.
const PARTIAL_BYTES_MAX: usize = 3;

/// Checks a text piece by piece; holds at most an unfinished character.
#[derive(Debug, Default)]
pub(super) struct Utf8Check {
    partial: [u8; PARTIAL_BYTES_MAX + 1],
    length: usize,
}

impl Utf8Check {
    pub(super) const fn new() -> Self {
        Self {
            partial: [0; PARTIAL_BYTES_MAX + 1],
            length: 0,
        }
    }

    /// Takes the next piece; false where the text cannot be UTF-8 any more.
    pub(super) fn feed(&mut self, mut piece: &[u8]) -> bool {
        while self.length > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return true;
            };
            piece = rest;
            self.partial[self.length] = byte;
            self.length += 1;
            match std::str::from_utf8(&self.partial[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let rest = piece.get(error.valid_up_to()..).unwrap_or_default();
                self.length = rest.len();
                self.partial[..rest.len()].copy_from_slice(rest);
                true
            }
        }
    }

    /// Whether the text ends with a whole character; ready for another text.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.length) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_split_is_judged_as_the_whole(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), 0xe0..0xf5_u8, 0x80..0xc0_u8],
                0..12,
            ),
            text in ".{0,4}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            for whole in [bytes.as_slice(), text.as_bytes()] {
                let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
                cuts.extend([0, whole.len()]);
                cuts.sort_unstable();
                let mut check = Utf8Check::new();
                let taken = cuts.windows(2).all(|cut| check.feed(&whole[cut[0]..cut[1]]));
                prop_assert_eq!(taken && check.end(), std::str::from_utf8(whole).is_ok());
            }
        }
    }
}
