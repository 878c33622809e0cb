//! `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use time::PrimitiveDateTime;
use time::macros::format_description;

/// The longest pause that a response may request.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// The pause that these header fields request.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?;
    pause(value.to_str().ok()?, now)
}

fn pause(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    let wait = seconds.or_else(|| {
        let format = format_description!(
            "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
        );
        let date = PrimitiveDateTime::parse(text, format).ok()?.assume_utc();
        Some(
            SystemTime::from(date)
                .duration_since(now)
                .unwrap_or_default(),
        )
    })?;
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_read_in_seconds_and_as_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        for (text, expected) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(90)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999", Some(3_600)),
            ("Sat, 06 Nov 2094 08:49:37 GMT", Some(3_600)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let wait = pause(text, now).map(|wait| wait.as_secs());
            assert_eq!(wait, expected, "{text}");
        }
    }
}
