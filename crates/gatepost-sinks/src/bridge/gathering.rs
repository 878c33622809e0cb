//! A pause in which the messages of a busy bridge are gathered.
//!
//! At tens of thousands of messages a second, a bridge that passes on each message by itself costs
//! mostly the changes of threads: the publisher's thread wakes this one, the other broker's
//! acknowledgement wakes it again, and the removal of the message wakes the store. After a pause of
//! a millisecond or two, all of these concern many messages at once. A bridge that is not busy
//! never pauses, so a single message is passed on at once.

use std::time::Duration;

use tokio::time::Instant;

/// Messages after which the rate is determined.
const MESSAGES_PER_REVIEW: usize = 16;
/// A bridge that passes on these messages within this time is busy.
const BUSY_REVIEW_TIME_MAX: Duration = Duration::from_millis(2);
/// The length of a pause; the timer adds up to a millisecond.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// A pause ends with this many bytes in the session's buffer.
pub(super) const PAUSE_BYTES_MAX: usize = 16 * 1024;

/// The recent rate of one connection.
pub(super) struct MessageGathering {
    began: Instant,
    messages: usize,
}

impl MessageGathering {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            messages: 0,
        }
    }

    pub(super) const fn count_message(&mut self) {
        self.messages += 1;
    }

    /// Whether a pause is due. The rate is determined at intervals, so most calls read no clock.
    pub(super) fn is_due(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.messages < MESSAGES_PER_REVIEW {
            return false;
        }
        let now = now();
        let took = now.saturating_duration_since(self.began);
        *self = Self::new(now);
        took <= BUSY_REVIEW_TIME_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pauses in a second of messages at this interval.
    fn pauses(interval: Duration) -> usize {
        let mut now = Instant::now();
        let end = now + Duration::from_secs(1);
        let mut gathering = MessageGathering::new(now);
        let mut pauses = 0;
        let mut next = now;
        while now < end {
            // Those that arrived during a pause are passed on together.
            while next <= now {
                gathering.count_message();
                next += interval;
            }
            if gathering.is_due(|| now) {
                pauses += 1;
                now += PAUSE;
            } else {
                now = now.max(next);
            }
        }
        pauses
    }

    #[tokio::test]
    async fn only_a_busy_bridge_pauses() {
        assert_eq!(pauses(Duration::from_millis(1)), 0);
        assert_eq!(pauses(Duration::from_micros(200)), 0);
        assert!(pauses(Duration::from_micros(33)) > 300);
    }
}
