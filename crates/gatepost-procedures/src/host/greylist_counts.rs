//! The decisions of `/greylist`, and their number since the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gatepost_message::Action;

/// The reason for which `/greylist` admits or defers a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GreylistDecision {
    /// Not a mail, or without an address, a sender or a recipient to know it by.
    NotApplicable,
    /// The client has logged in.
    LoggedIn,
    /// The client is in one of the exempt networks.
    ExemptNetwork,
    /// The operator allows the sender.
    AllowedSender,
    /// The client has retried often enough.
    KnownClient,
    /// Mail of this sender to these recipients was admitted before.
    KnownSender,
    /// Retried after the delay.
    Admitted,
    /// The table is full.
    Full,
    /// Deferred: seen for the first time.
    First,
    /// Deferred: retried before the delay was over.
    Early,
}

impl GreylistDecision {
    pub(crate) const ALL: [Self; 10] = [
        Self::NotApplicable,
        Self::LoggedIn,
        Self::ExemptNetwork,
        Self::AllowedSender,
        Self::KnownClient,
        Self::KnownSender,
        Self::Admitted,
        Self::Full,
        Self::First,
        Self::Early,
    ];

    /// The verdict.
    pub(crate) const fn action(self) -> Action {
        match self {
            Self::First | Self::Early => Action::Defer,
            _ => Action::Accept,
        }
    }

    /// The name in metrics and in the tests' data.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::LoggedIn => "logged-in",
            Self::ExemptNetwork => "exempt-network",
            Self::AllowedSender => "allowed-sender",
            Self::KnownClient => "known-client",
            Self::KnownSender => "known-sender",
            Self::Admitted => "admitted",
            Self::Full => "full",
            Self::First => "first",
            Self::Early => "early",
        }
    }
}

/// The number of each decision.
#[derive(Default)]
pub(crate) struct GreylistCounts([AtomicU64; GreylistDecision::ALL.len()]);

impl GreylistCounts {
    pub(crate) fn count(&self, decision: GreylistDecision) {
        self.0[decision as usize].fetch_add(1, Relaxed);
    }

    /// The decisions that were made at least once.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let counts = GreylistDecision::ALL
            .map(|decision| (decision.name(), self.0[decision as usize].load(Relaxed)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
