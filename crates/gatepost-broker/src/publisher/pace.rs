//! When a publisher is worth being read again.
//!
//! A flush costs one `send` for each subscriber, whether that carries one publication or fifty.
//! As long as each read brings one publication, each leaves at once. A publisher whose reads bring
//! several publishes faster than its subscribers can be sent one at a time; read again at once, it
//! would have the workers busy with sends that carry two or three, while what the sends cost is
//! taken from those who receive, and queues grow on both sides. It is left to gather instead for a
//! few times as long as the flush took: the sends get fewer, and carry more.
//!
//! Nobody waits longer for it than [`GATHER_MAX`], and nobody who waits for an acknowledgement
//! waits at all: who may have only so much under way is slow enough.

use std::time::{Duration, Instant};

use super::Publisher;

/// How many times as long as a flush it is left to gather, the flush included.
const GATHER_FACTOR: u32 = 6;
/// The longest that a publisher is left to gather.
const GATHER_MAX: Duration = Duration::from_millis(20);
/// What a timer cannot tell apart from nothing.
const GATHER_MIN: Duration = Duration::from_millis(1);
/// Sends that carry so much are large enough.
const ENOUGH_BYTES: u64 = 16 * 1024;

/// Of one batch.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pace {
    /// Somebody waits for an acknowledgement of it.
    pub(super) is_awaited: bool,
}

impl Pace {
    /// How long after the beginning of a flush the next read is due, for a batch of so many
    /// publications and payload bytes whose flush took so long; `None` for at once.
    fn gathering(self, messages: u64, bytes: u64, took: Duration) -> Option<Duration> {
        if self.is_awaited || messages < 2 || bytes >= ENOUGH_BYTES {
            return None;
        }
        let due = (took * GATHER_FACTOR).min(GATHER_MAX);
        (due >= took + GATHER_MIN).then_some(due)
    }
}

impl Publisher {
    /// As [`Publisher::flush`](super::Publisher::flush) takes time only where it may matter.
    pub(super) fn begin_pace(&self) -> Option<Instant> {
        (self.messages > 1).then(Instant::now)
    }

    /// At the end of a flush that began then.
    pub(super) fn end_pace(&mut self, began: Option<Instant>, messages: u64, bytes: u64) {
        let pace = std::mem::take(&mut self.pace);
        self.gathers_until = began.and_then(|began| {
            let due = pace.gathering(messages, bytes, began.elapsed())?;
            Some(began + due)
        });
    }

    /// Until when the publisher should be left to gather what it publishes, as the last flush
    /// found; `None` where it should be read at once.
    pub const fn gathers_until(&self) -> Option<Instant> {
        self.gathers_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn only_who_brings_several_to_many_gathers() {
        let pace = Pace::default();
        let long = milliseconds(3);
        assert_eq!(pace.gathering(1, 100, long), None, "each leaves at once");
        assert_eq!(pace.gathering(2, 200, long), Some(milliseconds(18)));
        assert_eq!(pace.gathering(2, 200, milliseconds(9)), Some(GATHER_MAX));
        assert_eq!(
            pace.gathering(2, 200, milliseconds(30)),
            None,
            "enough gathered meanwhile"
        );
        assert_eq!(
            pace.gathering(2, 200, Duration::from_micros(100)),
            None,
            "a few subscribers"
        );
        assert_eq!(
            pace.gathering(160, 16_384, long),
            None,
            "large sends already"
        );
        let awaited = Pace { is_awaited: true };
        assert_eq!(awaited.gathering(2, 200, long), None);
    }
}
