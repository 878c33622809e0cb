//! `shortcircuit`: a rule whose hit ends the scan.

use std::sync::Arc;

/// The verdict of a rule that ends the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortcircuit {
    /// The sign of its score decides.
    On,
    Spam,
    Ham,
}

/// The position of a rule in a scan: its priority, then the rank of its kind.
pub(crate) type ScanPosition = (i32, u8);

/// The early end of a scan.
#[derive(Debug, Clone)]
pub(crate) struct ShortcircuitEnding {
    /// The last turn whose rules count.
    pub(crate) turn: ScanPosition,
    /// The rule that ended the scan; `None` where the sum of scores did.
    pub(crate) rule: Option<Arc<str>>,
    /// The class of the message: `spam` or `ham`.
    pub(crate) class: &'static str,
    /// The score that the ending adds.
    pub(crate) score: f64,
}

/// The scores added when a scan ends early, and the sums at which it ends.
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
