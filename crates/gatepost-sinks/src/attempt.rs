//! One attempt to hand a message to the destination, and when the next one follows.

use std::time::Duration;

use gatepost_broker::DisconnectCause;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::settings::SinkRetrySettings;

/// The reason why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// This message will never be taken.
    #[error("{0}")]
    Refused(String),
    /// The other side no longer exists.
    #[error("{0}")]
    Gone(String),
    /// A later attempt may succeed.
    #[error("{reason}")]
    Again {
        reason: String,
        /// The time that the server asked to wait.
        wait: Option<Duration>,
    },
}

impl Failure {
    pub(crate) fn again(reason: impl ToString) -> Self {
        Self::Again {
            reason: reason.to_string(),
            wait: None,
        }
    }
}

/// The pauses between attempts: each twice the last, up to a bound, and a part of them by chance,
/// so that many that failed together do not come again together.
pub(crate) struct Backoff {
    next: Duration,
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(settings: &SinkRetrySettings) -> Self {
        let first = settings.first.duration().max(Duration::from_millis(1));
        Self {
            next: first,
            first,
            longest: settings.longest.duration().max(first),
        }
    }

    /// The next failure is the first again.
    pub(crate) const fn succeeded(&mut self) {
        self.next = self.first;
    }

    /// The pause before the next attempt, up to a quarter longer by chance.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        // Without chance the pauses are shorter, and that is all.
        let chance = getrandom::u32().unwrap_or(0) % 256;
        pause.saturating_add(pause / 1_024 * chance)
    }
}

/// The rate at which the requests of a sink may start: so many in a second, and none while the
/// server asked to wait.
pub(crate) struct RequestPace {
    next: Mutex<Instant>,
    gap: Duration,
}

impl RequestPace {
    /// Any number for 0.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            next: Mutex::new(Instant::now()),
            gap: Duration::from_secs(1)
                .checked_div(per_second)
                .unwrap_or_default(),
        }
    }

    /// Takes the next place, and returns when that is.
    pub(crate) fn place(&self) -> Instant {
        let mut next = self.next.lock();
        let place = (*next).max(Instant::now());
        *next = place + self.gap;
        place
    }

    /// Lets no request start for so long.
    pub(crate) fn wait(&self, pause: Duration) {
        let mut next = self.next.lock();
        *next = (*next).max(Instant::now() + pause);
    }
}

/// The reason why a sink's session ended, for the log and the dashboard.
pub(crate) const fn explained(cause: DisconnectCause) -> &'static str {
    match cause {
        DisconnectCause::TooSlow => "the session was cut: it took too little for too long",
        DisconnectCause::Administrative => "the session was ended, with all that waited",
        DisconnectCause::ShuttingDown => "the server ends",
        DisconnectCause::TakenOver => "another connection took the session",
        DisconnectCause::KeepAliveTimeout | DisconnectCause::Broken => "the session broke",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_with_a_part_by_chance() {
        let mut backoff = Backoff::new(&SinkRetrySettings::default());
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

    #[tokio::test]
    async fn requests_keep_their_distance_and_wait_when_asked() {
        let pace = RequestPace::new(10);
        let first = pace.place();
        assert!(pace.place() >= first + Duration::from_millis(100));
        pace.wait(Duration::from_mins(1));
        assert!(pace.place() >= first + Duration::from_mins(1));
        let any = RequestPace::new(0);
        assert!(any.place() <= Instant::now() && any.place() <= Instant::now());
    }
}
