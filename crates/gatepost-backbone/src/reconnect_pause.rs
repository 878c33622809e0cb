//! The pause before the next attempt to connect.

use std::time::Duration;

use crate::error::BackboneError;

/// The pause after a connection that failed; each is twice the last one.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
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
        if after >= LASTING_CONNECTION {
            self.0 = PAUSE_FIRST;
        }
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
        let pauses: Vec<u128> = (0..7)
            .map(|_| {
                pause.connection_ended(Duration::from_secs(1));
                pause.next(&lost).as_millis()
            })
            .collect();
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000]);
        pause.connection_ended(LASTING_CONNECTION);
        assert_eq!(pause.next(&lost), PAUSE_FIRST);
        assert_eq!(pause.next(&BackboneError::NoJetStream), PAUSE_LONGEST);
    }
}
