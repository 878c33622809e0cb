//! Sizes in bytes, written as `"25MB"`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. `KB`, `MB`, `GB` are powers of 1,000; `KiB`, `MiB`, `GiB` of 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
    ("", 1),
];

impl ByteSize {
    /// This number of units of 1,000,000 bytes.
    pub const fn megabytes(count: u64) -> Self {
        Self(count * 1_000_000)
    }

    /// This number of units of 1,024 bytes.
    pub const fn kibibytes(count: u64) -> Self {
        Self(count << 10)
    }

    /// This number of units of 1,048,576 bytes.
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |&(_, factor): &(&str, u64)| self.0 > 0 && self.0.is_multiple_of(factor);
        let (unit, factor) = UNITS
            .into_iter()
            .find(|unit| whole(unit))
            .unwrap_or(("B", 1));
        write!(formatter, "{}{unit}", self.0 / factor)
    }
}

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size; write a number and a unit, such as \"25MB\" or \"64KiB\"")]
pub struct MalformedByteSize(String);

impl FromStr for ByteSize {
    type Err = MalformedByteSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedByteSize(text.chars().take(40).collect());
        let (number, unit) = super::number_and_unit(text).ok_or_else(malformed)?;
        let (_, factor) = UNITS
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&unit))
            .ok_or_else(malformed)?;
        Ok(Self((number * factor as f64).round() as u64))
    }
}

super::serde_as_text!(ByteSize);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_written() {
        for (text, bytes) in [
            ("25MB", 25_000_000),
            ("64 KiB", 65_536),
            ("1.5mb", 1_500_000),
            ("100", 100),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MB", "25 parrots", "-1MB", "1.2.3MB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_displayed_size_reads_back(bytes in 0_u64..1 << 50) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
