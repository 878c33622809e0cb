//! Arguments and results of operations.

use std::time::SystemTime;

use gatepost_message::{Action, MessageId, Peer, TopicFilter};
use serde_json::Value;

use crate::ask_nodes::UnansweredNode;

/// A search in the journal; an empty condition matches every message.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// A part of subject, sender, recipient, topic, reason, rule or peer, in any case.
    pub text: String,
    /// Only messages with this verdict.
    pub verdict: Option<Action>,
    /// Only messages that a rule of this name matched, in any case.
    pub rule: String,
    /// Only messages for a topic of this filter.
    pub topic: Option<TopicFilter>,
    /// A part of the sender, the user or the client, in any case.
    pub sender: String,
    /// Only messages that arrived then or later.
    pub since: Option<SystemTime>,
    /// Only messages that arrived before.
    pub until: Option<SystemTime>,
    /// Only messages that arrived before this one: the next page.
    pub before: Option<MessageId>,
    /// The maximum number of messages to return, newest first.
    pub count: usize,
}

/// The result of a search in the journal.
#[derive(Debug, Clone)]
pub struct JournalPage {
    /// The entries found, newest first.
    pub messages: Vec<Value>,
    /// The message before which the search continues; `None` if all of the journal was searched. A
    /// page may be short, or empty: a search ends after some time.
    pub next: Option<MessageId>,
    /// The number of entries that were read and compared: few if the index could be used.
    pub compared: usize,
    /// The nodes whose part is missing; `None` without a cluster.
    pub unanswered: Option<Vec<UnansweredNode>>,
}

/// The order in which quarantined messages are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuarantineOrder {
    /// The latest first.
    #[default]
    Newest,
    /// The earliest first.
    Oldest,
    /// The highest score first.
    Score,
    /// The largest first.
    Size,
    /// By sender.
    Sender,
}

/// A part of the quarantine.
#[derive(Debug, Clone, Default)]
pub struct QuarantineSearch {
    /// As of [`Search::text`].
    pub text: String,
    /// The order of the messages.
    pub order: QuarantineOrder,
    /// The number of messages to skip.
    pub skip: usize,
    /// The most messages to return.
    pub count: usize,
}

/// A page of the messages found in the quarantine.
#[derive(Debug, Clone)]
pub struct QuarantinePage {
    /// The entries in the journal.
    pub messages: Vec<Value>,
    /// The number of messages that match.
    pub found: usize,
    /// The number of messages in the quarantine.
    pub total: usize,
    /// The nodes whose part is missing; `None` without a cluster.
    pub unanswered: Option<Vec<UnansweredNode>>,
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

/// A change that was made through `/admin`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminChange {
    /// The user who made it; `None` without a login.
    pub user: Option<String>,
    /// The peer that sent the request.
    pub peer: Peer,
    /// Method and path.
    pub action: String,
    /// The request's body, without passwords.
    pub details: Value,
}
