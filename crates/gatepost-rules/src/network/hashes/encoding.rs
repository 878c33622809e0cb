//! Encodings of a hash as a DNS label: hexadecimal and base32.

use std::fmt::Write as _;

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// RFC 4648, section 6, in lower case and without padding.
pub(super) fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::new();
    for group in bytes.chunks(5) {
        let mut bits = 0_u64;
        for index in 0..5 {
            bits = bits << 8 | u64::from(group.get(index).copied().unwrap_or_default());
        }
        let letters = (group.len() * 8).div_ceil(5);
        for index in 0..letters {
            let digit = (bits >> (35 - 5 * index)) as usize & 31;
            text.push(char::from(LETTERS[digit]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use md5::{Digest, Md5};

    use super::*;

    #[test]
    fn hashes_are_written_as_lists_know_them() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(
            hexadecimal(&Md5::digest(b"abc")),
            "900150983cd24fb0d6963f7d28e17f72"
        );
    }
}
