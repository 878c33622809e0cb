//! The time at which a delayed message is due, as publishers write it: a duration (`30m`,
//! `2 hours`, `1h30m`), or a time in Unix seconds or as RFC 3339 has it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The user property that delays a message.
pub const DELAY: &str = "delay";
/// Numbers of at least this value are Unix seconds; smaller ones need a unit.
const UNIX_SECONDS_MIN: u64 = 1_000_000_000;

/// The text names no time at which a message could be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayMistake {
    /// It cannot be read.
    Malformed,
    /// It is over.
    Past,
    /// It is later than the settings allow; the bound.
    TooLong(Duration),
    /// The settings allow no delay.
    Off,
}

impl DelayMistake {
    /// The cause and the remedy.
    pub fn explanation(self) -> String {
        match self {
            Self::Malformed => "write a duration (30m, 2 hours), Unix seconds, or a time such as \
                 2030-01-31T08:00:00Z"
                .to_owned(),
            Self::Past => "the time is over".to_owned(),
            Self::TooLong(bound) => {
                let seconds = bound.as_secs();
                format!("a message waits for at most {seconds} seconds (delayed.delay_max)")
            }
            Self::Off => "this server delays no messages (delayed.messages_max)".to_owned(),
        }
    }
}

/// Reads a time that is at most `delay_max` after `now`.
pub(crate) fn due_time(
    text: &str,
    now: SystemTime,
    delay_max: Duration,
) -> Result<SystemTime, DelayMistake> {
    if delay_max.is_zero() {
        return Err(DelayMistake::Off);
    }
    let text = text.trim();
    let due = if let Ok(number) = text.parse::<u64>() {
        let seconds = (number >= UNIX_SECONDS_MIN).then(|| Duration::from_secs(number));
        seconds.and_then(|seconds| UNIX_EPOCH.checked_add(seconds))
    } else if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        Some(SystemTime::from(time))
    } else {
        duration(text).and_then(|duration| now.checked_add(duration))
    };
    let due = due.ok_or(DelayMistake::Malformed)?;
    match due.duration_since(now) {
        Ok(left) if left.is_zero() => Err(DelayMistake::Past),
        Ok(left) if left > delay_max => Err(DelayMistake::TooLong(delay_max)),
        Ok(_) => Ok(due),
        Err(_) => Err(DelayMistake::Past),
    }
}

/// Numbers with units, one after the other.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let seconds = match unit.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = after.trim_start();
    }
    (!sum.is_zero()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn left(text: &str) -> Result<u64, DelayMistake> {
        let now = UNIX_EPOCH + Duration::from_hours(500_000);
        let due = due_time(text, now, DAY)?;
        Ok(due.duration_since(now).map_or(0, |left| left.as_secs()))
    }

    #[test]
    fn durations_and_times_are_read() {
        for (text, seconds) in [
            ("30s", 30),
            ("30 sec", 30),
            ("10m", 600),
            ("2 hours", 7_200),
            ("1h30m", 5_400),
            (" 1 day ", 86_400),
            ("1800000060", 60),
            ("2027-01-15T08:01:40Z", 100),
        ] {
            assert_eq!(left(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn a_time_that_is_not_in_the_future_is_refused() {
        for (text, mistake) in [
            ("", DelayMistake::Malformed),
            ("0s", DelayMistake::Malformed),
            ("10", DelayMistake::Malformed),
            ("-5m", DelayMistake::Malformed),
            ("5 weeks", DelayMistake::Malformed),
            ("tomorrow, 10am", DelayMistake::Malformed),
            ("5m x", DelayMistake::Malformed),
            ("99999999999999999999d", DelayMistake::Malformed),
            ("999999999999999d", DelayMistake::Malformed),
            ("18446744073709551615", DelayMistake::Malformed),
            ("1799999999", DelayMistake::Past),
            ("1800000000", DelayMistake::Past),
            ("2001-01-01T00:00:00Z", DelayMistake::Past),
            ("25h", DelayMistake::TooLong(DAY)),
        ] {
            assert_eq!(left(text), Err(mistake), "{text}");
            assert!(!mistake.explanation().is_empty());
        }
        let off = due_time("5m", UNIX_EPOCH, Duration::ZERO);
        assert_eq!(off, Err(DelayMistake::Off));
    }
}
