//! The number of messages that a topic still permits, as one instant.
//!
//! Each message moves the instant at which the whole allowance is available again by the time that
//! one message takes. If that instant would be later than the whole time from now, the message is
//! refused. Nothing runs in the background, and a change of the limit needs no change here.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A topic's allowance.
#[derive(Debug, Default)]
pub struct MessageAllowance(Mutex<Option<Instant>>);

impl MessageAllowance {
    /// Takes one of `messages` messages in the time `per`, or returns how long to wait for one.
    pub fn take(&self, messages: u32, per: Duration, now: Instant) -> Result<(), Duration> {
        let mut whole_at = self.0.lock();
        let begins = whole_at.map_or(now, |whole_at| whole_at.max(now));
        let after = begins + per / messages.max(1);
        match after.duration_since(now).checked_sub(per) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *whole_at = Some(after);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_spent_and_comes_back() {
        let allowance = MessageAllowance::default();
        let start = Instant::now();
        let take = |seconds| {
            let now = start + Duration::from_secs(seconds);
            allowance.take(4, Duration::from_mins(1), now)
        };
        for _ in 0..4 {
            assert_eq!(take(0), Ok(()));
        }
        assert_eq!(take(0), Err(Duration::from_secs(15)));
        assert_eq!(take(15), Ok(()));
        assert!(take(15).is_err());
        for _ in 0..4 {
            assert_eq!(take(600), Ok(()));
        }
        assert!(take(600).is_err());
    }
}
