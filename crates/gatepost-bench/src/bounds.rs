//! Numbers of the command line, within the bounds that a measurement needs.

use std::ops::RangeInclusive;

use crate::error::BenchError;

/// Longer than any measurement, and so short that no sum of such times overflows.
const SECONDS_MAX: f64 = 1e6;
/// Shorter than any measurement that has a result.
const SECONDS_MIN: f64 = 0.001;
/// The shortest interval between two lines of counts, so that they cannot fill the memory.
const INTERVAL_MIN_SECONDS: f64 = 0.01;
/// A larger number of runs or steps is treated as a mistake.
const COUNT_MAX: usize = 100_000;
/// More connections than this machine's loopback addresses have ports towards one server.
pub(crate) const CONNECTIONS_MAX: usize = 3_000_000;
/// The size of one content (a payload, a page or a mail): that of the largest packet of MQTT.
pub(crate) const CONTENT_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Operations in progress on one connection.
pub(crate) const IN_PROGRESS_MAX: usize = 100_000;
/// More operations per second than a thread can begin.
const RATE_MAX: f64 = 1e7;
/// The widest plot, in characters.
const WIDTH_MAX: usize = 1_000;

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
    number(text, SECONDS_MIN..=SECONDS_MAX)
}

/// The interval between two lines of counts, in seconds.
pub(crate) fn interval(text: &str) -> Result<f64, String> {
    number(text, INTERVAL_MIN_SECONDS..=SECONDS_MAX)
}

/// A share in percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0..=100.0)
}

/// A number of runs or steps, at least 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    whole(text, 1..=COUNT_MAX)
}

/// The width of a plot.
pub(crate) fn width(text: &str) -> Result<usize, String> {
    whole(text, 1..=WIDTH_MAX)
}

fn whole(text: &str, permitted: RangeInclusive<usize>) -> Result<usize, String> {
    let value: usize = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    if permitted.contains(&value) {
        Ok(value)
    } else {
        let (low, high) = (permitted.start(), permitted.end());
        Err(format!("it must be from {low} to {high}"))
    }
}

/// Checks a setting that may be swept: its values are known only after the command line is read.
pub(crate) fn check(
    flag: &str,
    value: usize,
    permitted: RangeInclusive<usize>,
) -> Result<(), BenchError> {
    if permitted.contains(&value) {
        return Ok(());
    }
    let (low, high) = (permitted.start(), permitted.end());
    Err(BenchError::Settings(format!(
        "--{flag} must be from {low} to {high}"
    )))
}

/// Checks a number of operations per second.
pub(crate) fn check_rate(flag: &str, rate: f64) -> Result<(), BenchError> {
    if rate > 0.0 && rate <= RATE_MAX {
        return Ok(());
    }
    Err(BenchError::Settings(format!(
        "--{flag} must be above 0 and at most {RATE_MAX}"
    )))
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
        assert!(seconds_above_0("0").is_err() && seconds_above_0("1e-300").is_err());
        assert!(interval("1e-9").is_err());
        assert_eq!(count("20"), Ok(20));
        assert!(count("0").is_err() && count("1000000000000").is_err());
    }
}
