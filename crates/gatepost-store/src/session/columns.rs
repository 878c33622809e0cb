//! Columns for times, durations and lists; the functions of each pair are inverse.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn identifiers_to_row(identifiers: &[u32]) -> Vec<u8> {
    identifiers.iter().flat_map(|id| id.to_be_bytes()).collect()
}

pub(crate) fn identifiers_from_row(bytes: &[u8]) -> Vec<u32> {
    let whole = bytes.chunks_exact(4);
    whole
        .filter_map(|chunk| chunk.try_into().ok().map(u32::from_be_bytes))
        .collect()
}

/// Whole seconds, as far as the database's integers go: longer durations mean no end.
pub(crate) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(seconds: i64) -> Duration {
    match seconds {
        i64::MAX => Duration::MAX,
        seconds => Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
    }
}

pub(crate) fn unix_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn time(unix_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).unwrap_or_default())
}
