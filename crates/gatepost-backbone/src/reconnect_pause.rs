//! The pause before the next attempt to connect.

use std::time::Duration;

use crate::error::BackboneError;

/// The pause after a connection that failed; each is twice the last one.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// The longest pause after a connection that was made. The key of this node expires after 10 s.
const PAUSE_RECONNECTING: Duration = Duration::from_secs(2);
/// A connection that lasted for so long is followed by the first pause again.
const LASTING_CONNECTION: Duration = Duration::from_mins(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);

/// The pause before the next attempt to connect.
pub(crate) struct ReconnectPause(Duration);

impl ReconnectPause {
    pub(crate) const fn new() -> Self {
        Self(PAUSE_FIRST)
    }

    /// A connection that soon ended may do so again, for the same reason.
    pub(crate) fn connection_ended(&mut self, after: Duration) {
        self.0 = if after >= LASTING_CONNECTION {
            PAUSE_FIRST
        } else {
            self.0.min(PAUSE_RECONNECTING)
        };
    }

    /// The pause after this failure.
    pub(crate) fn next(&mut self, end: &BackboneError) -> Duration {
        let pause = if end.is_lasting() {
            PAUSE_LONGEST
        } else {
            self.0
        };
        self.0 = (pause * 2).min(PAUSE_LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_short_again_only_after_a_connection_that_lasted() {
        let lost = BackboneError::Lost("it ended".to_owned());
        let mut pause = ReconnectPause::new();
        let pauses = |pause: &mut ReconnectPause, is_connected| -> Vec<u128> {
            let mut next = || {
                if is_connected {
                    pause.connection_ended(Duration::from_secs(1));
                }
                pause.next(&lost).as_millis()
            };
            (0..5).map(|_| next()).collect()
        };
        assert_eq!(pauses(&mut pause, true), [250, 500, 1_000, 2_000, 2_000]);
        assert_eq!(
            pauses(&mut pause, false),
            [4_000, 8_000, 10_000, 10_000, 10_000]
        );
        assert_eq!(pauses(&mut pause, true)[0], 2_000);
        pause.connection_ended(LASTING_CONNECTION);
        assert_eq!(pause.next(&lost), PAUSE_FIRST);
        assert_eq!(pause.next(&BackboneError::NoJetStream), PAUSE_LONGEST);
    }
}
