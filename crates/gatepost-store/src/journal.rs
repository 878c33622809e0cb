//! Journal entries and quarantined messages.

use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{Action, Envelope, MessageId, Properties, RuleHit, Score, Topic};

/// One judged message in the journal: sender, recipients, verdict and reason.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The message's id; also its time of arrival.
    pub id: MessageId,
    /// Sender, recipients and listener.
    pub envelope: Envelope,
    /// The topic that it was sent to, if any; the first of several.
    pub topic: Option<Topic>,
    /// All topics that it was sent to, including the first; empty if there is at most one.
    pub topics: Vec<Topic>,
    /// A mail's decoded subject.
    pub subject: Option<String>,
    /// Bytes of the whole message.
    pub size: u64,
    /// The verdict.
    pub action: Action,
    /// The score of the rules, if they ran.
    pub score: Option<Score>,
    /// The rules that matched.
    pub hits: Vec<RuleHit>,
    /// The reason of the verdict, in one line.
    pub reason: String,
    /// The procedure that decided; empty if none did.
    pub procedure: String,
    /// The time that judging took.
    pub duration: Duration,
    /// The number of sessions it was delivered to.
    pub deliveries: u64,
}

/// A message in quarantine, whole, so that an operator can read it, release it or learn from it.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantineEntry {
    /// Its journal entry; [`JournalEntry::id`] is the id of the message.
    pub journal: JournalEntry,
    /// The bytes as they arrived.
    pub body: Bytes,
    /// The properties of a message that is not mail.
    pub properties: Option<Box<Properties>>,
    /// The retain flag of its publication.
    pub retain: bool,
}

impl JournalEntry {
    /// Every topic that it was sent to.
    pub fn all_topics(&self) -> &[Topic] {
        if self.topics.is_empty() {
            self.topic.as_slice()
        } else {
            &self.topics
        }
    }
}
