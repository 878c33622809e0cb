//! Actions on a message in quarantine, and their outcomes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::release::ReleaseRequest;

/// The decision of an administrator about a message in quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineDecision {
    /// It is deleted.
    Delete,
    /// The filter learns it as spam.
    LearnSpam,
    /// The filter learns it as ham.
    LearnHam,
    /// Mail from its sender is accepted from now on.
    AllowSender,
    /// It is released.
    Release(ReleaseRequest),
}

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// It was deleted.
    Deleted,
    /// The word that describes what has changed.
    Learned(String),
    /// The sender.
    Allowed(String),
    /// It was released.
    Released(ReleaseOutcome),
}

/// The outcome of a release, as the API describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseOutcome {
    /// `accept`, or `defer` if the message stays in quarantine.
    pub verdict: String,
    /// The reason, or nothing.
    pub reason: String,
    /// Subscribers that got it.
    pub subscribers: u64,
    /// The topics, mailboxes and recipients at next hops.
    pub destinations: Vec<String>,
}

/// The change for the audit log of the node that makes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AskedChange {
    /// The node that the administrator asked.
    pub(super) node: u8,
    pub(super) user: Option<String>,
    pub(super) peer: String,
    pub(super) action: String,
    pub(super) details: Value,
}
