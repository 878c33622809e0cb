//! Numbers of the command line, within the bounds that a measurement needs.

use std::ops::RangeInclusive;

/// Longer than any measurement, and so short that no sum of such times overflows.
const SECONDS_MAX: f64 = 1e6;
/// A larger number of runs or steps is treated as a mistake.
const COUNT_MAX: usize = 100_000;

fn number(text: &str, permitted: RangeInclusive<f64>) -> Result<f64, String> {
    let (low, high) = (permitted.start(), permitted.end());
    let value: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    // NaN is in no range.
    if permitted.contains(&value) {
        Ok(value)
    } else {
        Err(format!("it must be from {low} to {high}"))
    }
}

/// A duration in seconds, which may be 0.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0..=SECONDS_MAX)
}

/// A duration in seconds above 0.
pub(crate) fn seconds_above_0(text: &str) -> Result<f64, String> {
    let value = seconds(text)?;
    if value > 0.0 {
        Ok(value)
    } else {
        Err("it must be above 0".into())
    }
}

/// A share in percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0..=100.0)
}

/// A number of runs or steps, at least 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let value: usize = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    if (1..=COUNT_MAX).contains(&value) {
        Ok(value)
    } else {
        Err(format!("it must be from 1 to {COUNT_MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_measurement_can_use_are_refused() {
        for text in ["nan", "inf", "-1", "1e30", "", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0"), Ok(0.0));
        assert_eq!(seconds_above_0("0.5"), Ok(0.5));
        assert!(seconds_above_0("0").is_err());
        assert_eq!(count("20"), Ok(20));
        assert!(count("0").is_err() && count("1000000000000").is_err());
    }
}
