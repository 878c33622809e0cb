//! The meaning of an answer for the message.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use time::PrimitiveDateTime;
use time::macros::format_description;

use crate::attempt::Failure;

/// The longest pause that an answer may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Translates an answer into the outcome of the attempt.
pub(super) fn judged(
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let reason = match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    Err(match status.as_u16() {
        410 => Failure::Gone(reason),
        400 | 405 | 411 | 413 | 414 | 415 | 422 | 431 => Failure::Refused(reason),
        _ => Failure::Again {
            reason,
            wait: headers
                .get(header::RETRY_AFTER)
                .and_then(|value| retry_after(value.to_str().ok()?, now)),
        },
    })
}

/// `Retry-After`: seconds, or a date (RFC 9110 section 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
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
    fn answers_are_taken_refused_or_tried_again() {
        let now = SystemTime::UNIX_EPOCH;
        let of = |code| {
            let status = StatusCode::from_u16(code).expect("a status");
            judged(status, &HeaderMap::new(), now)
        };
        for code in [200, 201, 202, 204, 299] {
            assert!(of(code).is_ok(), "{code}");
        }
        for code in [400, 413, 422] {
            assert!(matches!(of(code), Err(Failure::Refused(_))), "{code}");
        }
        for code in [
            100, 301, 302, 307, 401, 403, 404, 408, 425, 429, 500, 502, 503, 599, 999,
        ] {
            assert!(matches!(of(code), Err(Failure::Again { .. })), "{code}");
        }
        assert!(matches!(of(410), Err(Failure::Gone(reason)) if reason == "410 Gone"));
    }

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
            let wait = retry_after(text, now).map(|wait| wait.as_secs());
            assert_eq!(wait, expected, "{text}");
        }
    }
}
