//! Parts that this node does not read further, because a later version of Gatepost has written
//! them.
//!
//! Reading stops there, so that nothing is passed over. It is tried again at intervals: an operator
//! may have removed the entry. After its upgrade, the node continues where it stopped.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;

/// The interval at which reading is tried again.
pub(crate) const READ_AGAIN_EVERY: Duration = Duration::from_secs(10);

/// The parts that are not read further, each with the reason.
#[derive(Default)]
pub(crate) struct UnreadableParts(Mutex<BTreeMap<String, String>>);

impl UnreadableParts {
    /// A part cannot be read. The log reports it once.
    pub(crate) fn note(&self, part: &str, reason: &dyn Display) {
        let reason = reason.to_string();
        if self.0.lock().insert(part.to_owned(), reason.clone()) != Some(reason.clone()) {
            tracing::error!(target: "backbone", part, "{reason}");
        }
    }

    /// A part is read again, or no longer needed.
    pub(crate) fn clear(&self, part: &str) {
        if self.0.lock().remove(part).is_some() {
            tracing::info!(target: "backbone", part, "this is read again");
        }
    }

    /// The number of parts.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().len() as u64
    }

    /// The reason of the first one.
    pub(crate) fn first(&self) -> Option<String> {
        self.0.lock().values().next().cloned()
    }
}
