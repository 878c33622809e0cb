//! Limits of values, with hysteresis.

use serde::{Deserialize, Serialize};

use crate::settings::AlarmSettings;

/// The reason for which an alarm is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AlarmCause {
    /// No message came for too long.
    Silence,
    /// The value is above the upper limit.
    Above,
    /// The value is below the lower limit.
    Below,
}

impl AlarmCause {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Above => "above",
            Self::Below => "below",
        }
    }
}

/// The limits of one alarm.
#[derive(Debug)]
pub(crate) struct Limits {
    above: Option<f64>,
    below: Option<f64>,
    hysteresis: f64,
}

impl Limits {
    pub(crate) const fn new(settings: &AlarmSettings) -> Self {
        Self {
            above: settings.above,
            below: settings.below,
            hysteresis: settings.hysteresis,
        }
    }

    /// The limit that `value` exceeds, given the limit that the last value exceeded.
    pub(crate) fn beyond(&self, value: f64, before: Option<AlarmCause>) -> Option<AlarmCause> {
        let margin = |cause| {
            if before == Some(cause) {
                self.hysteresis
            } else {
                0.0
            }
        };
        let is_above = |limit: f64| value > limit - margin(AlarmCause::Above);
        let is_below = |limit: f64| value < limit + margin(AlarmCause::Below);
        if self.above.is_some_and(is_above) {
            Some(AlarmCause::Above)
        } else if self.below.is_some_and(is_below) {
            Some(AlarmCause::Below)
        } else {
            None
        }
    }

    /// The limit that belongs to this cause.
    pub(crate) const fn of(&self, cause: AlarmCause) -> Option<f64> {
        match cause {
            AlarmCause::Silence => None,
            AlarmCause::Above => self.above,
            AlarmCause::Below => self.below,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_must_come_back_by_the_hysteresis() {
        let limits = Limits::new(&AlarmSettings {
            above: Some(8.0),
            below: Some(2.0),
            hysteresis: 1.0,
            ..AlarmSettings::default()
        });
        let mut before = None;
        for (value, expected) in [
            (8.0, None),
            (8.1, Some(AlarmCause::Above)),
            (7.5, Some(AlarmCause::Above)),
            (7.0, None),
            (7.5, None),
            (1.9, Some(AlarmCause::Below)),
            (2.9, Some(AlarmCause::Below)),
            (9.0, Some(AlarmCause::Above)),
            (1.0, Some(AlarmCause::Below)),
            (3.0, None),
        ] {
            before = limits.beyond(value, before);
            assert_eq!(before, expected, "{value}");
        }
    }
}
