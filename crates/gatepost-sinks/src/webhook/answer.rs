//! The effect of an HTTP response on the message.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};

use crate::attempt::AttemptFailure;
use crate::http_client::retry_after;

/// Translates a response into the outcome of the attempt.
pub(super) fn judged(
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<(), AttemptFailure> {
    if status.is_success() {
        return Ok(());
    }
    let reason = match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    Err(match status.as_u16() {
        410 => AttemptFailure::Gone(reason),
        400 | 405 | 411 | 413 | 414 | 415 | 422 | 431 => AttemptFailure::Refused(reason),
        _ => AttemptFailure::Again {
            reason,
            wait: retry_after(headers, now),
        },
    })
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
            assert!(
                matches!(of(code), Err(AttemptFailure::Refused(_))),
                "{code}"
            );
        }
        for code in [
            100, 301, 302, 307, 401, 403, 404, 408, 425, 429, 500, 502, 503, 599, 999,
        ] {
            assert!(
                matches!(of(code), Err(AttemptFailure::Again { .. })),
                "{code}"
            );
        }
        assert!(matches!(of(410), Err(AttemptFailure::Gone(reason)) if reason == "410 Gone"));
    }
}
