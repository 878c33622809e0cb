//! Arguments and results of operations.

use gatepost_message::{Action, Peer};
use serde_json::Value;

/// A search in the journal; an empty condition holds for every message.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// A part of subject, sender, recipient, topic, reason, rule or peer, in any case.
    pub text: String,
    /// Only messages with this verdict.
    pub verdict: Option<Action>,
    /// How many messages are returned at most, newest first.
    pub count: usize,
}

/// A message in quarantine.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// Its entry in the journal.
    pub story: Value,
    /// The bytes as they arrived.
    pub source: bytes::Bytes,
    /// The text that a person reads, without markup.
    pub text: String,
}

/// What a message is to be learned as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lesson {
    /// Unwanted mail.
    Spam,
    /// Wanted mail.
    Ham,
}

/// A change that was made through `/admin`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminChange {
    /// The user who made it; `None` without a login.
    pub user: Option<String>,
    /// Where the request came from.
    pub peer: Peer,
    /// Method and path.
    pub action: String,
    /// The request's body, without passwords.
    pub details: Value,
}
