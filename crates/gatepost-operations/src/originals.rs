//! Judges stored messages again, in the form in which they arrived.

use bytes::Bytes;
use gatepost_message::{Format, Listener, Message};
use gatepost_store::{JournalEntry, Store, StoreError};

/// A message with its story.
#[derive(Debug, Clone)]
pub struct JudgedOriginal {
    /// Its journal entry.
    pub story: JournalEntry,
    /// The format of the body.
    pub format: Format,
    /// The bytes as they arrived.
    pub body: Bytes,
}

impl JudgedOriginal {
    /// The newest completely stored messages, in order of arrival: those that scopes judged, and
    /// those in quarantine.
    pub fn newest(store: &Store, count: usize) -> Result<Vec<Self>, StoreError> {
        let mut kept: Vec<Self> = Vec::new();
        for (id, format, body) in store.originals(count)? {
            if let Some(story) = store.journal_entry(id)? {
                kept.push(Self {
                    story,
                    format,
                    body,
                });
            }
        }
        for story in store.quarantine(count)? {
            let is_known = kept.iter().any(|one| one.story.id == story.id);
            if !is_known && let Some(entry) = store.quarantined(story.id)? {
                kept.push(Self {
                    format: format_of(&story),
                    story: entry.journal,
                    body: entry.body,
                });
            }
        }
        kept.sort_by_key(|one| std::cmp::Reverse(one.story.id));
        kept.truncate(count);
        kept.reverse();
        Ok(kept)
    }

    /// The message as it arrived, under its own id.
    pub fn message(&self) -> Message {
        message_of(&self.story, self.format, self.body.clone())
    }
}

/// The format of the messages of the listener that took this one.
pub const fn format_of(entry: &JournalEntry) -> Format {
    match entry.envelope.listener {
        Listener::Mqtt | Listener::Http => Format::Payload,
        _ => Format::Mail,
    }
}

/// A message of this story and body, under its own id.
pub fn message_of(entry: &JournalEntry, format: Format, body: Bytes) -> Message {
    let mut message = Message::new(entry.envelope.clone(), entry.topic.clone(), format, body);
    message.id = entry.id;
    message
}
