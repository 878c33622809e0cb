//! The frequency of each byte in mail, by which rare literals are selected.

use super::ByteSet;

/// Bytes of about equal frequency, and the frequency of each in parts per 100,000. Counted over
/// bodies of English mail and rounded; only the order of magnitude matters.
const FREQUENCIES: &[(&[u8], u32)] = &[
    (b" ", 16_000),
    (b"e", 8_500),
    (b"t", 6_500),
    (b"aoinsr", 5_000),
    (b"hld", 3_200),
    (b"ucm", 2_400),
    (b"\nfpgwyb", 1_600),
    (b".,-/", 1_000),
    (b"vk", 800),
    (b":=<>\"0123456789", 600),
    (b"_'()\t", 400),
    (b"ABCDEFGHIJKLMNOPQRSTUVWXYZx", 300),
    (b"*+?!;&@#%$|[]{}\\~^`jqz", 120),
];
/// The frequency of any other byte: controls, and bytes beyond ASCII.
const RARE: u32 = 5;

/// The probability that a byte of mail is in the set.
pub(crate) fn probability(set: &ByteSet) -> f32 {
    set.iter().map(byte_probability).sum::<f32>().min(1.0)
}

/// The probability that a byte of mail is this one.
pub(crate) fn byte_probability(byte: u8) -> f32 {
    f32::from(TABLE[usize::from(byte)]) / 100_000.0
}

static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [RARE as u16; 256];
    let mut group = 0;
    while group < FREQUENCIES.len() {
        let (bytes, frequency) = FREQUENCIES[group];
        let mut at = 0;
        while at < bytes.len() {
            table[bytes[at] as usize] = frequency as u16;
            at += 1;
        }
        group += 1;
    }
    table
}
