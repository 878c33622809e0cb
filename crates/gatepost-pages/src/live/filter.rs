//! The filters that live elements have: applied here for the first text, and by the browser's
//! script to each later one.
//!
//! What a filter does not apply to passes unchanged (`round` of "off"), because payloads come
//! from strangers: a strange one must not make the page fail.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::value::number_of;
use crate::clock;

/// Decimals beyond these are not exact.
const DECIMALS_MAX: u32 = 10;
/// A number of seconds since 1970 that is not reached before the year 5138; larger ones are
/// milliseconds.
const SECONDS_MAX: f64 = 1e11;

/// One step from a payload's text to that of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LiveFilter {
    Upper,
    Lower,
    Trim,
    /// To that many decimals.
    Round(u32),
    /// Another text for an empty one.
    Default(String),
    /// With the visitor's separators, and so many decimals.
    Number(Option<u32>),
    /// A time in the visitor's zone.
    LocalTime(TimePart),
}

/// The part of a time that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimePart {
    DateAndTime,
    Date,
    Time,
}

impl TimePart {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        match name {
            "datetime" => Ok(Self::DateAndTime),
            "date" => Ok(Self::Date),
            "time" => Ok(Self::Time),
            _ => Err(format!(
                "local_time(\"{name}\"): write \"datetime\", \"date\" or \"time\""
            )),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::DateAndTime => "datetime",
            Self::Date => "date",
            Self::Time => "time",
        }
    }
}

impl LiveFilter {
    /// The number of decimals, as written in the template.
    pub(crate) fn decimals(count: i64) -> Result<u32, String> {
        u32::try_from(count)
            .ok()
            .filter(|count| *count <= DECIMALS_MAX)
            .ok_or_else(|| format!("{count} decimals: 0 to {DECIMALS_MAX} are possible"))
    }

    /// Whether the result depends on the visitor's language or zone, which only the browser knows.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self, Self::Number(_) | Self::LocalTime(_))
    }

    fn as_json(&self) -> Value {
        match self {
            Self::Upper => json!(["upper"]),
            Self::Lower => json!(["lower"]),
            Self::Trim => json!(["trim"]),
            Self::Round(decimals) => json!(["round", decimals]),
            Self::Default(text) => json!(["default", text]),
            Self::Number(decimals) => json!(["number", decimals]),
            Self::LocalTime(part) => json!(["local_time", part.name()]),
        }
    }

    fn apply(&self, text: &str) -> Option<String> {
        match self {
            Self::Upper => Some(text.to_uppercase()),
            Self::Lower => Some(text.to_lowercase()),
            Self::Trim => Some(text.trim().to_owned()),
            Self::Round(decimals) => number_of(text).map(|number| rounded(number, *decimals)),
            Self::Default(other) => text.is_empty().then(|| other.clone()),
            Self::Number(None) => number_of(text).map(|number| number.to_string()),
            Self::Number(Some(decimals)) => {
                number_of(text).map(|number| format!("{number:.*}", *decimals as usize))
            }
            Self::LocalTime(part) => time_of(text).map(|time| utc(time, *part)),
        }
    }
}

/// The text after all filters.
pub(super) fn apply<'a>(filters: &[LiveFilter], text: Cow<'a, str>) -> Cow<'a, str> {
    filters
        .iter()
        .fold(text, |text, filter| match filter.apply(&text) {
            Some(changed) => Cow::Owned(changed),
            None => text,
        })
}

/// The filters as the script reads them: names, each with its argument.
pub(super) fn filters_as_json(filters: &[LiveFilter]) -> String {
    let steps: Value = filters.iter().map(LiveFilter::as_json).collect();
    steps.to_string()
}

/// Half away from zero, as in the template engine.
pub(super) fn rounded(number: f64, decimals: u32) -> String {
    let factor = 10_f64.powi(decimals as i32);
    let result = (number * factor).round() / factor;
    if result.is_finite() { result } else { number }.to_string()
}

/// A time as seconds or milliseconds since 1970, as RFC 3339, or as pages write it.
fn time_of(text: &str) -> Option<SystemTime> {
    if let Some(number) = number_of(text) {
        let seconds = if number < SECONDS_MAX {
            number
        } else {
            number / 1000.0
        };
        let since = Duration::try_from_secs_f64(seconds).ok()?;
        return UNIX_EPOCH.checked_add(since);
    }
    clock::parse_page_date(text).or_else(|| clock::parse_rfc3339(text))
}

/// The time before the browser's script runs, or without it.
fn utc(time: SystemTime, part: TimePart) -> String {
    let text = clock::page_date(time);
    match (part, text.split_once(' ')) {
        (TimePart::Date, Some((date, _))) => date.to_owned(),
        (TimePart::Time, Some((_, time))) => time.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(filter: LiveFilter, text: &str) -> String {
        apply(&[filter], Cow::Borrowed(text)).into_owned()
    }

    #[test]
    fn filters_change_what_they_apply_to_and_pass_the_rest() {
        for (filter, text, expected) in [
            (LiveFilter::Upper, "straße", "STRASSE"),
            (LiveFilter::Lower, "ON", "on"),
            (LiveFilter::Trim, " a ", "a"),
            (LiveFilter::Round(1), "21.449", "21.4"),
            (LiveFilter::Round(0), "-2.5", "-3"),
            (LiveFilter::Round(0), "off", "off"),
            (LiveFilter::Round(10), "1e300", &1e300_f64.to_string()),
            (LiveFilter::Default("none".to_owned()), "", "none"),
            (LiveFilter::Default("none".to_owned()), "0", "0"),
            (LiveFilter::Number(Some(2)), "1234.5", "1234.50"),
            (LiveFilter::Number(None), "12,5", "12,5"),
        ] {
            assert_eq!(applied(filter.clone(), text), expected, "{filter:?} {text}");
        }
    }

    #[test]
    fn times_are_read_in_each_of_their_forms() {
        for (text, part, expected) in [
            (
                "784111777",
                TimePart::DateAndTime,
                "1994-11-06 08:49:37 UTC",
            ),
            ("784111777000", TimePart::Date, "1994-11-06"),
            ("1994-11-06T08:49:37Z", TimePart::Time, "08:49:37 UTC"),
            (
                "1994-11-06T09:49:37.5+01:00",
                TimePart::Time,
                "08:49:37 UTC",
            ),
            ("1994-11-06 08:49:37 UTC", TimePart::Time, "08:49:37 UTC"),
            ("tomorrow", TimePart::Time, "tomorrow"),
            ("-5", TimePart::Time, "-5"),
            ("1e300", TimePart::Time, "1e300"),
        ] {
            assert_eq!(applied(LiveFilter::LocalTime(part), text), expected);
        }
    }
}
