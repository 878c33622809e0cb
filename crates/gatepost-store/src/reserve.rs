//! The part of the disk that is kept free.

use std::fmt;
use std::str::FromStr;

use gatepost_settings::{ByteSize, MalformedByteSize};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The maximum size of a reserve that is given as a share.
const SHARE_MAX: ByteSize = ByteSize::mebibytes(1_024);

/// Space that is not used for new messages, written as `"5%"` or `"200MB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskReserve {
    /// A share of the file system, in percent, and at most 1 GiB.
    Percent(u8),
    /// A size.
    Size(ByteSize),
}

impl DiskReserve {
    /// The bytes that must remain free on a file system of this size.
    pub fn of(self, total: ByteSize) -> ByteSize {
        match self {
            Self::Percent(percent) => {
                let share = total.bytes() / 100 * u64::from(percent);
                ByteSize(share).min(SHARE_MAX)
            }
            Self::Size(size) => size,
        }
    }
}

impl fmt::Display for DiskReserve {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(formatter, "{percent}%"),
            Self::Size(size) => size.fmt(formatter),
        }
    }
}

/// The text is neither a share nor a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedReserve {
    /// An invalid share.
    #[error("'{0}' is not a share: write a whole number of percent up to 50, such as \"5%\"")]
    Share(String),
    /// An invalid size.
    #[error(transparent)]
    Size(#[from] MalformedByteSize),
}

impl FromStr for DiskReserve {
    type Err = MalformedReserve;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return Ok(Self::Size(text.parse()?));
        };
        let share = number.trim().parse().ok().filter(|&percent| percent <= 50);
        share
            .map(Self::Percent)
            .ok_or_else(|| MalformedReserve::Share(text.to_owned()))
    }
}

impl Serialize for DiskReserve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DiskReserve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_bounded_and_a_size_is_not() {
        let reserve = |text: &str| text.parse::<DiskReserve>();
        let five = reserve("5%").expect("a share");
        assert_eq!(five.of(ByteSize::megabytes(1_000)), ByteSize::megabytes(50));
        assert_eq!(five.of(ByteSize(1 << 50)), SHARE_MAX);
        assert_eq!(five.to_string(), "5%");
        let size = reserve("2GiB").expect("a size");
        assert_eq!(size.of(ByteSize(0)), ByteSize::mebibytes(2_048));
        for text in ["51%", "-1%", "%", "x", "1.5%"] {
            assert!(reserve(text).is_err(), "{text}");
        }
    }
}
