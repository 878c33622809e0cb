//! Throttling of repeating log lines: a line is written once per period, with the number of omitted
//! repetitions, so that a peer cannot fill the disk with log lines.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// At most one line is written in this time.
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
    /// Returns the number of lines omitted since the last one if the line may be written now.
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
