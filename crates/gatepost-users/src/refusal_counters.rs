//! Counts of denied requests, over all protocols.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::AccessDecision;

/// Counts of denials by rules since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// Publications, retained ones and wills among them.
    pub publications: u64,
    /// Subscriptions, those among them that were taken away when the rules changed.
    pub subscriptions: u64,
}

/// The sums. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounters {
    publications: AtomicU64,
    subscriptions: AtomicU64,
}

impl RefusalCounters {
    pub(crate) fn publication(&self, decision: AccessDecision) -> AccessDecision {
        count(&self.publications, decision)
    }

    pub(crate) fn subscription(&self, decision: AccessDecision) -> AccessDecision {
        count(&self.subscriptions, decision)
    }

    pub(crate) fn sums(&self) -> Refusals {
        Refusals {
            publications: self.publications.load(Ordering::Relaxed),
            subscriptions: self.subscriptions.load(Ordering::Relaxed),
        }
    }
}

fn count(sum: &AtomicU64, decision: AccessDecision) -> AccessDecision {
    if decision == AccessDecision::Deny {
        sum.fetch_add(1, Ordering::Relaxed);
    }
    decision
}
