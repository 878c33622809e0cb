//! Reconstruction of a stored message from its journal entry and its body.

use bytes::Bytes;
use gatepost_message::{Format, Listener, Message};
use gatepost_store::JournalEntry;

/// The format of a listener's messages.
pub(super) const fn format_of(entry: &JournalEntry) -> Format {
    match entry.envelope.listener {
        Listener::Mqtt | Listener::Http => Format::Payload,
        _ => Format::Mail,
    }
}

/// The message as it arrived, under its own id.
pub(super) fn message_of(entry: &JournalEntry, format: Format, body: Bytes) -> Message {
    let mut message = Message::new(entry.envelope.clone(), entry.topic.clone(), format, body);
    message.id = entry.id;
    message
}
