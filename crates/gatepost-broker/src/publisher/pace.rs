//! The delay before a publisher is read again.
//!
//! A flush costs one `send` for each subscriber, whether that carries one publication or fifty. As
//! long as each read returns one publication, it is sent immediately. If reads return several, the
//! publisher is faster than single sends to its subscribers. If it were read again immediately, the
//! workers would spend their time on sends with two or three publications, receiving would slow
//! down, and queues would grow on both sides. Its next read is therefore delayed by a few times the
//! duration of the flush, so that sends become fewer and larger.
//!
//! The delay is at most `broker.gather_max`, and there is none while a publication must be
//! acknowledged: the quota of unacknowledged publications bounds such a publisher already.

use std::time::{Duration, Instant};

use super::Publisher;
use super::batch_traffic::BatchTraffic;

/// The delay as a multiple of the duration of a flush, the flush included.
const GATHER_FACTOR: u32 = 6;
/// The resolution of timers: a shorter wait is omitted.
const GATHER_MIN: Duration = Duration::from_millis(1);
/// Sends of this size are large enough.
const ENOUGH_BYTES: u64 = 16 * 1024;

/// Returns the time from the beginning of a flush to the next read, for a batch with this number of
/// publications and payload bytes and this duration of the flush; `None` reads immediately.
fn gathering(
    is_awaited: bool,
    messages: u64,
    bytes: u64,
    took: Duration,
    most: Duration,
) -> Option<Duration> {
    if is_awaited || messages < 2 || bytes >= ENOUGH_BYTES {
        return None;
    }
    let due = (took * GATHER_FACTOR).min(most);
    (due >= took + GATHER_MIN).then_some(due)
}

/// The pace of one publisher.
#[derive(Default)]
pub(super) struct PublisherPace {
    /// Whether a publication of the present batch must be acknowledged.
    pub(super) is_awaited: bool,
    gathers_until: Option<Instant>,
}

impl PublisherPace {
    /// The beginning of the flush that follows, if its duration matters: a batch that cannot be
    /// delayed is not worth two readings of the clock.
    pub(super) fn begin(&self, traffic: &BatchTraffic) -> Option<Instant> {
        (traffic.messages > 1 && !self.is_awaited).then(Instant::now)
    }

    /// Ends the measurement of a flush that began then and wrote this traffic.
    pub(super) fn end(&mut self, began: Option<Instant>, traffic: &BatchTraffic, most: Duration) {
        let is_awaited = std::mem::take(&mut self.is_awaited);
        let BatchTraffic {
            messages, bytes, ..
        } = *traffic;
        self.gathers_until = began.and_then(|began| {
            let due = gathering(is_awaited, messages, bytes, began.elapsed(), most)?;
            Some(began + due)
        });
    }
}

impl Publisher {
    /// The instant, found by the last flush, at which to read the publisher again so that batches
    /// become larger; `None` reads immediately.
    pub const fn gathers_until(&self) -> Option<Instant> {
        self.pace.gathers_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_batches_of_several_messages_with_a_long_flush_are_delayed() {
        let milliseconds = Duration::from_millis;
        let most = milliseconds(20);
        let short = Duration::from_micros(100);
        let gathered = Some(milliseconds(18));
        let cases = [
            ("one", false, 1, 100, milliseconds(3), most, None),
            ("two", false, 2, 200, milliseconds(3), most, gathered),
            ("awaited", true, 2, 200, milliseconds(3), most, None),
            ("at most", false, 2, 200, milliseconds(9), most, Some(most)),
            ("long", false, 2, 200, milliseconds(30), most, None),
            ("short", false, 2, 200, short, most, None),
            ("large", false, 160, 16_384, milliseconds(3), most, None),
            ("off", false, 2, 200, milliseconds(3), Duration::ZERO, None),
        ];
        for (what, is_awaited, messages, bytes, took, most, due) in cases {
            let found = gathering(is_awaited, messages, bytes, took, most);
            assert_eq!(found, due, "{what}");
        }
    }
}
