//! The time of an agent's next attempt to join: short pauses at first, then longer ones.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// A connection that ends earlier does not reset the pauses. It is longer than the longest pause:
/// two agents of one name, which the broker disconnects in turn, must not do so ever faster.
pub(super) const LASTING: Duration = Duration::from_mins(1);

/// The pauses between the attempts.
#[derive(Debug)]
pub(super) struct JoinBackoff {
    next: Duration,
}

impl JoinBackoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// A connection ended after this time.
    pub(super) fn lasted(&mut self, time: Duration) {
        if time >= LASTING {
            self.next = FIRST;
        }
    }

    /// The pause before the next attempt. Up to a quarter is added by the process id, so that the
    /// agents of many hosts do not join at one moment.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause + pause * (std::process::id() % 64) / 256
    }
}

#[test]
fn pauses_grow_to_a_bound_until_a_connection_lasts() {
    let mut backoff = JoinBackoff::new();
    let mut last = Duration::ZERO;
    for _ in 0..10 {
        backoff.lasted(LASTING / 2);
        let pause = backoff.pause();
        assert!(pause >= last && pause < LASTING, "{pause:?} after {last:?}");
        last = pause;
    }
    assert!(last >= LONGEST);
    backoff.lasted(LASTING);
    assert!(backoff.pause() < Duration::from_secs(1));
}
