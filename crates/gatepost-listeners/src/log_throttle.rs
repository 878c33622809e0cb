//! A log line that repeats is written once in a while, with the number of times that it was left
//! out: a peer must not be able to fill the disk with them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// At most one line in so long.
const PERIOD: Duration = Duration::from_secs(10);

/// The state of one repeating line.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<ThrottleState>);

#[derive(Debug, Default)]
struct ThrottleState {
    written: Option<Instant>,
    left_out: u64,
}

impl LogThrottle {
    /// Whether the line is to be written now: the number of lines left out since the last one.
    pub(crate) fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state
            .written
            .is_some_and(|written| now.saturating_duration_since(written) < PERIOD)
        {
            state.left_out += 1;
            return None;
        }
        state.written = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_period_and_the_others_are_counted() {
        let (throttle, start) = (LogThrottle::default(), Instant::now());
        assert_eq!(throttle.permit_at(start), Some(0));
        for second in 1..10 {
            assert_eq!(
                throttle.permit_at(start + Duration::from_secs(second)),
                None
            );
        }
        assert_eq!(throttle.permit_at(start + PERIOD), Some(9));
    }
}
