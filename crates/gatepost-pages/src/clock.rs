//! The current time as text, for pages, the HTTP `Date` field and the access log.
//!
//! The texts have a resolution of one second, so each thread formats each text once per second and
//! reuses the bytes. Invariant: a text is never older than the second that it shows, because every
//! call reads the clock and compares.

use std::cell::RefCell;
use std::thread::LocalKey;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const HTTP_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);
const LOG_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
const PAGE_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");

/// A formatted second.
struct Cached {
    second: u64,
    text: String,
}

impl Cached {
    /// No second has been formatted yet.
    const NONE: Self = Self {
        second: u64::MAX,
        text: String::new(),
    };
}

thread_local! {
    static HTTP: RefCell<Cached> = const { RefCell::new(Cached::NONE) };
    static LOG: RefCell<Cached> = const { RefCell::new(Cached::NONE) };
    static PAGE: RefCell<Cached> = const { RefCell::new(Cached::NONE) };
}

/// The time of the kernel's last tick, at most some milliseconds old; reading it needs no hardware
/// access.
fn unix_second() -> u64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec as u64
}

/// Milliseconds since an arbitrary moment, at the kernel's last tick.
pub(crate) fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

fn with_cached<T>(
    cache: &'static LocalKey<RefCell<Cached>>,
    format: &[BorrowedFormatItem<'_>],
    use_text: impl FnOnce(&str) -> T,
) -> T {
    cache.with(|cached| {
        let mut cached = cached.borrow_mut();
        let second = unix_second();
        if cached.second != second {
            cached.second = second;
            cached.text = format_second(second, format);
        }
        use_text(&cached.text)
    })
}

fn format_second(second: u64, format: &[BorrowedFormatItem<'_>]) -> String {
    OffsetDateTime::from_unix_timestamp(second as i64)
        .ok()
        .and_then(|time| time.format(format).ok())
        .unwrap_or_default()
}

/// Appends the current time as an HTTP date (RFC 9110, section 5.6.7).
pub fn push_http_date(text: &mut Vec<u8>) {
    with_cached(&HTTP, HTTP_DATE, |now| {
        text.extend_from_slice(now.as_bytes());
    });
}

/// Appends the current time in the combined log format.
pub fn push_log_date(text: &mut Vec<u8>) {
    with_cached(&LOG, LOG_DATE, |now| text.extend_from_slice(now.as_bytes()));
}

/// Appends the current time in the format of pages: `2026-01-31 23:59:59 UTC`.
pub fn push_page_date(text: &mut Vec<u8>) {
    with_cached(&PAGE, PAGE_DATE, |now| {
        text.extend_from_slice(now.as_bytes());
    });
}

/// The time of a file as an HTTP date.
pub fn http_date(time: SystemTime) -> String {
    let second = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    format_second(second, HTTP_DATE)
}

/// Parses an HTTP date in its preferred form. The two obsolete forms are ignored, which only causes
/// a complete response instead of 304.
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    let date = time::PrimitiveDateTime::parse(text, HTTP_DATE).ok()?;
    let seconds = u64::try_from(date.assume_utc().unix_timestamp()).ok()?;
    Some(UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

/// Parses a time in the format of pages.
pub(crate) fn parse_page_date(text: &str) -> Option<SystemTime> {
    let date = time::PrimitiveDateTime::parse(text, PAGE_DATE).ok()?;
    Some(SystemTime::from(date.assume_utc()))
}

/// Parses a time in the format of RFC 3339.
pub(crate) fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(SystemTime::from(date))
}

/// A time in the format of RFC 3339, to the second.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    page_date(time).replacen(' ', "T", 1).replace(" UTC", "Z")
}

/// The current time in a format of `strftime`; the error names the invalid part.
pub fn format_now(format: &str) -> Result<String, String> {
    let items = time::format_description::parse_strftime_owned(format)
        .map_err(|error| format!("time format {format:?}: {error}"))?;
    OffsetDateTime::now_utc()
        .format(&items)
        .map_err(|error| format!("time format {format:?}: {error}"))
}

/// A time in the format of pages.
pub fn page_date(time: SystemTime) -> String {
    let second = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    format_second(second, PAGE_DATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn http_dates_are_those_of_the_standard() {
        // The example of RFC 9110, section 5.6.7.
        let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(time));
        assert_eq!(parse_http_date("yesterday"), None);
    }

    #[test]
    fn the_cached_text_is_the_present_second() {
        let before = unix_second();
        let mut text = Vec::new();
        push_page_date(&mut text);
        let text = String::from_utf8(text).expect("ASCII");
        let possible: Vec<_> = (before..=unix_second())
            .map(|second| format_second(second, PAGE_DATE))
            .collect();
        assert!(possible.contains(&text), "{text} is none of {possible:?}");
    }

    #[test]
    fn an_unknown_time_format_is_reported() {
        assert_eq!(format_now("%Y").map(|year| year.len()), Ok(4));
        assert!(format_now("%Q").is_err());
    }
}
