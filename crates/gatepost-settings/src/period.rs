//! Durations, written as `"30s"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration, in milliseconds or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub Duration);

const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("min", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl Period {
    /// A duration in seconds.
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }

    /// A duration in milliseconds.
    pub const fn milliseconds(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// The duration as the standard library's type.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis() as u64;
        let whole = |&(_, factor): &(&str, u64)| ms > 0 && ms.is_multiple_of(factor);
        let (unit, factor) = UNITS
            .into_iter()
            .find(|unit| whole(unit))
            .unwrap_or(("s", 1_000));
        write!(formatter, "{}{unit}", ms / factor)
    }
}

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a duration; write a number and a unit, such as \"500ms\", \"30s\", \"5m\", \
     \"12h\" or \"7d\""
)]
pub struct MalformedPeriod(String);

impl FromStr for Period {
    type Err = MalformedPeriod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedPeriod(text.chars().take(40).collect());
        let (number, unit) = super::number_and_unit(text).ok_or_else(malformed)?;
        if number == 0.0 && unit.is_empty() {
            return Ok(Self(Duration::ZERO));
        }
        let (_, factor) = UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        Ok(Self(Duration::from_millis(
            (number * factor as f64).round() as u64,
        )))
    }
}

super::serde_as_text!(Period);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_read_as_written() {
        for (text, ms) in [
            ("30s", 30_000),
            ("1.5 h", 5_400_000),
            ("7d", 604_800_000),
            ("250ms", 250),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Period::milliseconds(ms)), "{text}");
        }
        for text in ["", "30", "s", "5 fortnights"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_displayed_period_reads_back(ms in 0_u64..1 << 40) {
            let period = Period::milliseconds(ms);
            prop_assert_eq!(period.to_string().parse(), Ok(period));
        }
    }
}
