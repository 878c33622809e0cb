//! Numbers of denied requests, over all protocols.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::AccessDecision;

/// Numbers of denials by rules since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// Publications, including retained ones and wills.
    pub publications: u64,
    /// Subscriptions, including those that were removed when the rules changed.
    pub subscriptions: u64,
}

/// The totals. Relaxed: they order no other memory.
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
