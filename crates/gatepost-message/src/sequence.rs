//! Sequences: messages of one topic with the same sequence id, of which subscribers show only the
//! latest. An event of a sequence has no text of its own: it has subscribers clear or delete what
//! they show of it.
//!
//! Both are user properties, as in ntfy's JSON, so they reach every protocol, and any publisher of
//! the topic may set them.

use crate::publication::Properties;

/// The user property with the sequence id. A message without one is a sequence of its own, which
/// has the message's id.
pub const SEQUENCE_ID: &str = "sequence_id";
/// The user property with the name of an event.
pub const SEQUENCE_EVENT: &str = "event";

/// The treatment by subscribers of the messages of a sequence that they show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceEvent {
    /// Mark them as read, and dismiss the notification.
    Clear,
    /// Remove them.
    Delete,
}

impl SequenceEvent {
    /// The event that a publication is; `None` for a message.
    pub fn of(properties: &Properties) -> Option<Self> {
        properties.user_property(SEQUENCE_ID)?;
        match properties.user_property(SEQUENCE_EVENT)? {
            "message_clear" => Some(Self::Clear),
            "message_delete" => Some(Self::Delete),
            _ => None,
        }
    }

    /// The name that ntfy's clients know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "message_clear",
            Self::Delete => "message_delete",
        }
    }

    /// The user properties of a publication that is this event.
    pub fn properties(self, sequence_id: &str) -> Vec<(String, String)> {
        vec![
            (SEQUENCE_EVENT.to_owned(), self.name().to_owned()),
            (SEQUENCE_ID.to_owned(), sequence_id.to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(user: Vec<(String, String)>) -> Properties {
        Properties {
            user,
            ..Properties::default()
        }
    }

    #[test]
    fn an_event_names_its_sequence() {
        for event in [SequenceEvent::Clear, SequenceEvent::Delete] {
            let properties = with(event.properties("7"));
            assert_eq!(SequenceEvent::of(&properties), Some(event));
            assert_eq!(properties.user_property(SEQUENCE_ID), Some("7"));
            let without_id = with(event.properties("7").drain(..1).collect());
            assert_eq!(SequenceEvent::of(&without_id), None);
        }
        let other = with(vec![
            (SEQUENCE_ID.to_owned(), "7".to_owned()),
            (SEQUENCE_EVENT.to_owned(), "door opened".to_owned()),
        ]);
        assert_eq!(SequenceEvent::of(&other), None);
    }
}
