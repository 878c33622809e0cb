//! `shortcircuit`: a rule whose hit ends the scan.

use std::sync::Arc;

/// The verdict of a rule that ends the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortcircuit {
    /// Decided by the sign of its score.
    On,
    Spam,
    Ham,
}

/// When a rule runs: by priority, then by the rank of its kind.
pub(crate) type Turn = (i32, u8);

/// How a scan ended early.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// The last turn whose rules count.
    pub(crate) turn: Turn,
    /// The rule that ended the scan; `None` where the sum of scores did.
    pub(crate) rule: Option<Arc<str>>,
    /// The class of the message: `spam` or `ham`.
    pub(crate) class: &'static str,
    /// The score that the ending adds.
    pub(crate) score: f64,
}

/// What a scan that ends early adds, and at which sums it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ShortcircuitScores {
    pub(crate) spam: f64,
    pub(crate) ham: f64,
    /// Below this sum the scan ends.
    pub(crate) sum_min: Option<f64>,
    /// Above this sum the scan ends.
    pub(crate) sum_max: Option<f64>,
}

impl Default for ShortcircuitScores {
    fn default() -> Self {
        Self {
            spam: 100.0,
            ham: -100.0,
            sum_min: None,
            sum_max: None,
        }
    }
}

impl ShortcircuitScores {
    pub(crate) fn bounds_sum(&self) -> bool {
        self.sum_min.is_some() || self.sum_max.is_some()
    }

    pub(crate) fn ends_at(&self, sum: f64) -> bool {
        self.sum_min.is_some_and(|min| sum < min) || self.sum_max.is_some_and(|max| sum > max)
    }
}
