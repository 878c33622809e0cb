//! One attempt to deliver a message to the destination, and the schedule of further attempts.

use std::time::Duration;

use gatepost_broker::DisconnectCause;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::settings::SinkRetrySettings;

/// The reason why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttemptFailure {
    /// The destination refuses this message permanently.
    #[error("{0}")]
    Refused(String),
    /// The destination no longer exists.
    #[error("{0}")]
    Gone(String),
    /// The messages cannot be sent as one; fewer of them may be.
    #[error("{0}")]
    TooMany(String),
    /// A later attempt may succeed.
    #[error("{reason}")]
    Again {
        reason: String,
        /// The pause that the server requested.
        wait: Option<Duration>,
    },
}

impl AttemptFailure {
    pub(crate) fn again(reason: impl ToString) -> Self {
        Self::Again {
            reason: reason.to_string(),
            wait: None,
        }
    }
}

/// The pauses between attempts: each is twice as long as the last, up to a bound, plus a random
/// part, so that attempts that failed together are not repeated together.
pub(crate) struct AttemptBackoff {
    next: Duration,
    first: Duration,
    longest: Duration,
}

impl AttemptBackoff {
    pub(crate) fn new(settings: &SinkRetrySettings) -> Self {
        let first = settings.first.duration().max(Duration::from_millis(1));
        Self {
            next: first,
            first,
            longest: settings.longest.duration().max(first),
        }
    }

    /// Resets the pauses after a success.
    pub(crate) const fn succeeded(&mut self) {
        self.next = self.first;
    }

    /// Resets the pauses after a success that lasted for longer than the next one.
    pub(crate) fn worked_for(&mut self, time: Duration) {
        if time >= self.next {
            self.succeeded();
        }
    }

    /// The pause before the next attempt, made up to a quarter longer at random.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        // Without randomness the pauses are merely shorter.
        let chance = getrandom::u32().unwrap_or(0) % 256;
        pause.saturating_add(pause / 1_024 * chance)
    }
}

/// The rate at which the requests of a sink may start: a number per second, and none during a pause
/// that the server requested.
pub(crate) struct RequestPace {
    next: Mutex<Instant>,
    gap: Duration,
}

impl RequestPace {
    /// A rate of 0 sets no limit.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            next: Mutex::new(Instant::now()),
            gap: Duration::from_secs(1)
                .checked_div(per_second)
                .unwrap_or_default(),
        }
    }

    /// Reserves the next start of a request, and returns its time.
    pub(crate) fn place(&self) -> Instant {
        let mut next = self.next.lock();
        let place = (*next).max(Instant::now());
        *next = place + self.gap;
        place
    }

    /// Starts no request for this long.
    pub(crate) fn wait(&self, pause: Duration) {
        let mut next = self.next.lock();
        *next = (*next).max(Instant::now() + pause);
    }
}

/// The reason why a sink's session ended, for the log and the dashboard.
pub(crate) const fn explained(cause: DisconnectCause) -> &'static str {
    match cause {
        DisconnectCause::TooSlow => {
            "the session was ended: it accepted too little data for too \
            long"
        }
        DisconnectCause::Administrative | DisconnectCause::UserRemoved => {
            "the session was ended, and its queued messages were \
            discarded"
        }
        DisconnectCause::ShuttingDown => "the server ends",
        DisconnectCause::TakenOver => "another connection took over the session",
        DisconnectCause::KeepAliveTimeout | DisconnectCause::Broken => "the session broke",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_with_a_part_by_chance() {
        let mut backoff = AttemptBackoff::new(&SinkRetrySettings::default());
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let pause = backoff.pause().as_secs_f64();
            let expected = f64::from(expected);
            assert!(
                (expected..=expected * 1.25).contains(&pause),
                "{pause} {expected}"
            );
        }
        backoff.succeeded();
        assert!(backoff.pause() < Duration::from_secs(2));
    }

    #[test]
    fn only_a_success_that_lasts_resets_the_pauses() {
        let mut backoff = AttemptBackoff::new(&SinkRetrySettings::default());
        for _ in 0..4 {
            backoff.worked_for(Duration::from_millis(10));
            backoff.pause();
        }
        backoff.worked_for(Duration::from_secs(15));
        assert!(backoff.pause() >= Duration::from_secs(16));
        backoff.worked_for(Duration::from_secs(32));
        assert!(backoff.pause() < Duration::from_secs(2));
    }

    #[tokio::test]
    async fn requests_keep_their_rate_and_wait_on_request() {
        let pace = RequestPace::new(10);
        let first = pace.place();
        assert!(pace.place() >= first + Duration::from_millis(100));
        pace.wait(Duration::from_mins(1));
        assert!(pace.place() >= first + Duration::from_mins(1));
        let any = RequestPace::new(0);
        assert!(any.place() <= Instant::now() && any.place() <= Instant::now());
    }
}
