//! The time of the next attempt: short pauses at first, then longer ones, with a random part, so
//! that all clients do not reconnect at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_mins(1);

/// The pauses between attempts.
#[derive(Debug)]
pub(crate) struct ReconnectBackoff {
    next: Duration,
}

impl ReconnectBackoff {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// Resets the pauses after a success.
    pub(crate) const fn succeeded(&mut self) {
        self.next = FIRST;
    }

    /// The pause before the next attempt, made up to a quarter longer at random.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        // Any number that differs between processes is suitable.
        let chance = std::process::id() % 64;
        pause + pause * chance / 256
    }
}

#[test]
fn pauses_grow_up_to_a_bound() {
    let mut backoff = ReconnectBackoff::new();
    let mut last = Duration::ZERO;
    for _ in 0..12 {
        let pause = backoff.pause();
        assert!(pause >= last && pause <= LONGEST * 5 / 4);
        last = pause;
    }
    backoff.succeeded();
    assert!(backoff.pause() < Duration::from_secs(1));
}
