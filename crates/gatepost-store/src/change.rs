//! What can be asked of the writer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{
    Action, Envelope, MessageId, Properties, Publication, RuleHit, Score, Topic,
};

use crate::session::SessionChange;

/// One change. Changes submitted together are committed together or not at all.
#[derive(Debug, Clone)]
pub enum Change {
    /// The topic's retained message is now this one.
    Retain(Arc<Publication>),
    /// The topic has no retained message any more.
    Unretain(Topic),
    /// Appends to the history of its topic.
    History(Arc<Publication>),
    /// Keeps a message aside.
    Quarantine(Box<QuarantineEntry>),
    /// Forgets a message in quarantine: released or deleted.
    Unquarantine(MessageId),
    /// Appends to the journal of verdicts.
    Journal(Box<JournalEntry>),
    /// Something of the sessions that outlive their connections.
    Session(SessionChange),
    /// Sets a record of another room's own keeping, such as a session. `space` names the room's
    /// table; keys sort bytewise within it.
    PutRecord {
        /// Which room's.
        space: &'static str,
        /// The key within it.
        key: Bytes,
        /// What it is now.
        value: Bytes,
    },
    /// Removes a record; no error if there is none.
    DeleteRecord {
        /// Which room's.
        space: &'static str,
        /// The key within it.
        key: Bytes,
    },
    /// Removes all records whose key starts with `prefix`.
    DeleteRecords {
        /// Which room's.
        space: &'static str,
        /// What the keys start with.
        prefix: Bytes,
    },
}

impl Change {
    /// Roughly the memory it takes while waiting, in bytes.
    pub(crate) fn weight(&self) -> usize {
        const OVERHEAD_BYTES: usize = 128;
        OVERHEAD_BYTES
            + match self {
                Self::Retain(publication) | Self::History(publication) => publication.payload.len(),
                Self::Quarantine(entry) => entry.body.len(),
                Self::PutRecord { key, value, .. } => key.len() + value.len(),
                Self::Session(change) => change.weight(),
                Self::Unretain(_)
                | Self::Unquarantine(_)
                | Self::Journal(_)
                | Self::DeleteRecord { .. }
                | Self::DeleteRecords { .. } => 0,
            }
    }
}

/// The story of one judged message: who, what, which verdict, why.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The message's id; also its time of arrival.
    pub id: MessageId,
    /// Who sent it, to whom, through which listener.
    pub envelope: Envelope,
    /// Where it was to go, where it had a topic; the first of several.
    pub topic: Option<Topic>,
    /// All topics that it was for, the first among them; empty where there is at most one.
    pub topics: Vec<Topic>,
    /// A mail's decoded subject.
    pub subject: Option<String>,
    /// Bytes of the whole message.
    pub size: u64,
    /// What became of it.
    pub action: Action,
    /// The rules' sum, where they ran.
    pub score: Option<Score>,
    /// The rules that matched.
    pub hits: Vec<RuleHit>,
    /// Why, in one line.
    pub reason: String,
    /// The procedure that decided; empty where none did.
    pub procedure: String,
    /// How long judging took.
    pub duration: Duration,
    /// Sessions that it was handed to.
    pub deliveries: u64,
}

/// A message kept aside, whole, so that it can be looked at, released or learned from.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantineEntry {
    /// Its story; [`JournalEntry::id`] names it.
    pub story: JournalEntry,
    /// The bytes as they arrived.
    pub body: Bytes,
    /// What came beside the bytes of a message that is no mail.
    pub properties: Option<Box<Properties>>,
    /// Whether its topic is to keep it.
    pub retain: bool,
}

impl JournalEntry {
    /// Every topic that it was for.
    pub fn all_topics(&self) -> &[Topic] {
        if self.topics.is_empty() {
            self.topic.as_slice()
        } else {
            &self.topics
        }
    }
}
