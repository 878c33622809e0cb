//! The order of the messages that wait, and what each may be found by.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_message::{MessageId, Publication, SEQUENCE_ID};

use crate::delayed_listing::DelayedMessage;

/// The time after its own at which a message that is not on disk never was.
const OVERDUE: Duration = Duration::from_mins(1);

/// The place of a message in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DuePosition {
    pub(super) due_unix_ms: u64,
    pub(super) id: MessageId,
}

impl DuePosition {
    pub(super) fn new(due: SystemTime, id: MessageId) -> Self {
        let since = due.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            due_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            id,
        }
    }

    pub(super) fn due(self) -> SystemTime {
        let since = Duration::from_millis(self.due_unix_ms);
        // A time beyond the range of the system clock is never due.
        let far = UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX) * 60);
        UNIX_EPOCH.checked_add(since).unwrap_or(far)
    }

    /// Whether its commit would have been known long ago.
    pub(super) fn is_overdue(self) -> bool {
        SystemTime::now()
            .duration_since(self.due())
            .is_ok_and(|since| since > OVERDUE)
    }
}

/// The part of a message that is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WaitingMessage {
    pub(super) topic: String,
    /// Its sequence id, otherwise its id.
    pub(super) name: String,
    /// The bytes of its topic and payload.
    pub(super) bytes: usize,
}

impl WaitingMessage {
    pub(super) fn of(publication: &Publication) -> Self {
        let properties = publication.properties.as_ref();
        let name = properties.and_then(|properties| properties.user_property(SEQUENCE_ID));
        let topic = publication.topic.as_str().to_owned();
        Self {
            name: name.map_or_else(|| publication.id.to_string(), str::to_owned),
            bytes: topic.len() + publication.payload.len(),
            topic,
        }
    }

    fn key(&self) -> (String, String) {
        (self.topic.clone(), self.name.clone())
    }

    /// The message, for the list that operators see.
    pub(super) fn delayed_message(&self, place: DuePosition) -> DelayedMessage {
        DelayedMessage {
            id: place.id.to_string(),
            topic: self.topic.clone(),
            sequence_id: self.name.clone(),
            due_unix_ms: place.due_unix_ms,
            bytes: self.bytes,
        }
    }
}

/// All messages that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingMessages {
    in_order: BTreeMap<DuePosition, WaitingMessage>,
    by_name: HashMap<(String, String), DuePosition>,
    bytes: usize,
}

impl WaitingMessages {
    pub(super) fn insert(&mut self, place: DuePosition, message: WaitingMessage) {
        self.bytes += message.bytes;
        self.by_name.insert(message.key(), place);
        self.in_order.insert(place, message);
    }

    pub(super) fn remove(&mut self, place: DuePosition) -> Option<WaitingMessage> {
        let message = self.in_order.remove(&place)?;
        self.bytes -= message.bytes;
        let key = message.key();
        if self.by_name.get(&key) == Some(&place) {
            self.by_name.remove(&key);
        }
        Some(message)
    }

    /// The next that is due.
    pub(super) fn first(&self) -> Option<DuePosition> {
        self.in_order.keys().next().copied()
    }

    pub(super) fn place_of(&self, topic: &str, name: &str) -> Option<DuePosition> {
        let key = (topic.to_owned(), name.to_owned());
        self.by_name.get(&key).copied()
    }

    /// The messages in the order of their times.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&DuePosition, &WaitingMessage)> {
        self.in_order.iter()
    }

    pub(super) fn count(&self) -> usize {
        self.in_order.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> WaitingMessage {
        WaitingMessage {
            topic: "a".to_owned(),
            name: name.to_owned(),
            bytes: 10,
        }
    }

    #[test]
    fn messages_are_found_by_name_and_in_order() {
        let mut waiting = WaitingMessages::default();
        let at = |seconds| {
            DuePosition::new(UNIX_EPOCH + Duration::from_secs(seconds), MessageId::next())
        };
        let (early, late) = (at(1), at(2));
        waiting.insert(late, message("late"));
        waiting.insert(early, message("early"));
        assert_eq!((waiting.first(), waiting.bytes()), (Some(early), 20));
        assert_eq!(waiting.place_of("a", "late"), Some(late));
        assert_eq!(waiting.place_of("b", "late"), None);
        assert_eq!(waiting.remove(early), Some(message("early")));
        assert_eq!(waiting.remove(early), None);
        assert_eq!(
            (waiting.first(), waiting.count(), waiting.bytes()),
            (Some(late), 1, 10)
        );
        assert!(early.is_overdue());
    }
}
