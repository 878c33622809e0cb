//! The messages that wait for their time, as a list.

use gatepost_message::MessageId;

use super::DelayedMessages;
use super::waiting::{Place, WaitingMessage};
use crate::delayed_listing::{DelayedListing, DelayedMessage};

fn shown((place, message): (&Place, &WaitingMessage)) -> DelayedMessage {
    DelayedMessage {
        id: place.id.to_string(),
        topic: message.topic.clone(),
        sequence_id: message.name.clone(),
        due_unix_ms: place.due_unix_ms,
        bytes: message.bytes,
    }
}

impl DelayedMessages {
    /// At most `count` of the messages that wait, after the first `skip`.
    pub(crate) fn listing(&self, skip: usize, count: usize) -> DelayedListing {
        let waiting = self.0.waiting.lock();
        let messages = waiting.in_order().skip(skip).take(count);
        DelayedListing {
            messages: messages.map(shown).collect(),
            total: waiting.count(),
            bytes: waiting.bytes(),
        }
    }

    /// The topic and the name of the message with this id.
    pub(crate) fn find(&self, id: MessageId) -> Option<(String, String)> {
        let waiting = self.0.waiting.lock();
        let mut all = waiting.in_order();
        let (_, found) = all.find(|(place, _)| place.id == id)?;
        Some((found.topic.clone(), found.name.clone()))
    }
}
