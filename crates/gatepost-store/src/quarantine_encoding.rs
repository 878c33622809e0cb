//! Messages in quarantine as bytes, in the form in which the servers of a cluster exchange them.
//!
//! The length of a JSON text in 4 bytes, the text, and the message as it arrived. The text may get
//! further fields, which earlier versions ignore.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gatepost_message::{Envelope, MessageId, Peer, RuleHit, Score, Topic};
use serde::{Deserialize, Serialize};

use crate::{JournalEntry, QuarantineEntry, rows};

/// A journal entry as JSON.
#[derive(Serialize, Deserialize)]
struct JournalText {
    id: u64,
    listener: String,
    /// `None` for a message that did not come over the network.
    peer: Option<SocketAddr>,
    client: Option<String>,
    user: Option<String>,
    sender: Option<String>,
    recipients: Vec<String>,
    topic: Option<String>,
    topics: Vec<String>,
    subject: Option<String>,
    size: u64,
    action: String,
    /// The value, and the one from which on a message is unwanted.
    score: Option<(f64, f64)>,
    hits: Vec<(String, f64)>,
    reason: String,
    procedure: String,
    duration_us: u64,
    deliveries: u64,
}

/// The part of a message in quarantine that is not its bytes.
#[derive(Serialize, Deserialize)]
struct QuarantineText {
    journal: JournalText,
    properties: Option<String>,
    retain: bool,
}

impl From<&JournalEntry> for JournalText {
    fn from(entry: &JournalEntry) -> Self {
        let envelope = &entry.envelope;
        let name = |topic: &Topic| topic.as_str().to_owned();
        Self {
            id: entry.id.number(),
            listener: envelope.listener.name().to_owned(),
            peer: match envelope.peer {
                Peer::Address(address) => Some(address),
                Peer::Local => None,
            },
            client: envelope.client.clone(),
            user: envelope.user.clone(),
            sender: envelope.sender.clone(),
            recipients: envelope.recipients.clone(),
            topic: entry.topic.as_ref().map(name),
            topics: entry.topics.iter().map(name).collect(),
            subject: entry.subject.clone(),
            size: entry.size,
            action: entry.action.name().to_owned(),
            score: entry.score.map(|score| (score.value, score.required)),
            hits: entry
                .hits
                .iter()
                .map(|hit| (hit.name.to_string(), hit.score))
                .collect(),
            reason: entry.reason.clone(),
            procedure: entry.procedure.clone(),
            duration_us: entry.duration.as_micros() as u64,
            deliveries: entry.deliveries,
        }
    }
}

impl JournalText {
    /// The entry; `None` if this version does not know its listener or action.
    fn entry(self) -> Option<JournalEntry> {
        let topics = self.topics.iter().map(|name| Topic::new(name).ok());
        Some(JournalEntry {
            id: MessageId::from_number(self.id),
            envelope: Envelope {
                listener: self.listener.parse().ok()?,
                peer: self.peer.map_or(Peer::Local, Peer::Address),
                client: self.client,
                user: self.user,
                sender: self.sender,
                recipients: self.recipients,
            },
            topic: match self.topic {
                Some(name) => Some(Topic::new(&name).ok()?),
                None => None,
            },
            topics: topics.collect::<Option<_>>()?,
            subject: self.subject,
            size: self.size,
            action: self.action.parse().ok()?,
            score: self
                .score
                .map(|(value, required)| Score { value, required }),
            hits: self
                .hits
                .into_iter()
                .map(|(name, score)| RuleHit {
                    name: Cow::Owned(name),
                    score,
                })
                .collect(),
            reason: self.reason,
            procedure: self.procedure,
            duration: Duration::from_micros(self.duration_us),
            deliveries: self.deliveries,
        })
    }
}

impl JournalEntry {
    /// The entry as bytes.
    pub fn to_bytes(&self) -> Bytes {
        let text = serde_json::to_vec(&JournalText::from(self));
        text.unwrap_or_default().into()
    }

    /// The entry of these bytes; `None` if this version cannot read them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<JournalText>(bytes).ok()?.entry()
    }
}

impl QuarantineEntry {
    /// The message as bytes.
    pub fn to_bytes(&self) -> Bytes {
        let text = serde_json::to_vec(&QuarantineText {
            journal: JournalText::from(&self.journal),
            properties: rows::properties_to_text(self.properties.as_deref()),
            retain: self.retain,
        });
        let text = text.unwrap_or_default();
        let mut bytes = BytesMut::with_capacity(4 + text.len() + self.body.len());
        bytes.put_u32(text.len() as u32);
        bytes.put_slice(&text);
        bytes.put_slice(&self.body);
        bytes.freeze()
    }

    /// The message of these bytes; `None` if this version cannot read them.
    pub fn from_bytes(mut bytes: Bytes) -> Option<Self> {
        if bytes.len() < 4 {
            return None;
        }
        let length = bytes.get_u32() as usize;
        if bytes.len() < length {
            return None;
        }
        let text = bytes.split_to(length);
        let text: QuarantineText = serde_json::from_slice(&text).ok()?;
        Some(Self {
            journal: text.journal.entry()?,
            body: bytes,
            properties: rows::properties_from_text(text.properties),
            retain: text.retain,
        })
    }
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Action, Listener, Properties};

    use super::*;

    fn entry() -> QuarantineEntry {
        QuarantineEntry {
            journal: JournalEntry {
                id: MessageId::from_number(77),
                envelope: Envelope {
                    listener: Listener::Smtp,
                    peer: Peer::Address("[2001:db8::1]:25".parse().expect("an address")),
                    client: Some("mail.example.org".to_owned()),
                    user: None,
                    sender: Some(String::new()),
                    recipients: vec!["anna@example.org".to_owned()],
                },
                topic: Topic::new("mail/anna").ok(),
                topics: vec![Topic::new("mail/anna").expect("a topic")],
                subject: Some("für Anna".to_owned()),
                size: 9,
                action: Action::Quarantine,
                score: Some(Score {
                    value: 7.25,
                    required: 5.0,
                }),
                hits: vec![RuleHit {
                    name: Cow::Borrowed("RULE"),
                    score: 7.25,
                }],
                reason: "spam".to_owned(),
                procedure: "/judge".to_owned(),
                duration: Duration::from_micros(1_500),
                deliveries: 2,
            },
            body: Bytes::from_static(b"\0\xff\r\n body"),
            properties: Some(Box::new(Properties {
                expiry_seconds: Some(3),
                ..Properties::default()
            })),
            retain: true,
        }
    }

    #[test]
    fn a_message_and_its_entry_read_back() {
        let entry = entry();
        assert_eq!(
            QuarantineEntry::from_bytes(entry.to_bytes()),
            Some(entry.clone())
        );
        let journal = entry.journal;
        assert_eq!(JournalEntry::from_bytes(&journal.to_bytes()), Some(journal));
    }

    #[test]
    fn bytes_that_are_not_complete_are_refused() {
        let whole = entry().to_bytes();
        let text = whole.len() - entry().body.len();
        for length in 0..text {
            assert_eq!(
                QuarantineEntry::from_bytes(whole.slice(..length)),
                None,
                "{length}"
            );
        }
        assert_eq!(JournalEntry::from_bytes(b"{}"), None);
    }
}
