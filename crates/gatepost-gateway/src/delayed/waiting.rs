//! The order of the messages that wait, and what each may be found by.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_message::{MessageId, Publication, SEQUENCE_ID};

use crate::delayed_listing::DelayedMessage;

/// The time after its own at which a message that is not on disk never was.
const OVERDUE: Duration = Duration::from_mins(1);
/// The pause after the first attempt that failed; each further one doubles it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two attempts: the reason may end at any time.
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(1);

/// The place of a message in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DuePosition {
    pub(super) due_unix_ms: u64,
    pub(super) id: MessageId,
}

impl DuePosition {
    pub(super) fn new(due: SystemTime, id: MessageId) -> Self {
        Self {
            due_unix_ms: unix_ms(due),
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

/// A time in Unix milliseconds.
pub(super) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The part of a message that is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WaitingMessage {
    pub(super) topic: String,
    /// Its sequence id, otherwise its id.
    pub(super) name: String,
    /// The bytes of its topic and payload.
    pub(super) bytes: usize,
    /// Attempts to deliver it that failed.
    pub(super) failures: u32,
    /// The time of the next attempt; 0 for its own time.
    retry_unix_ms: u64,
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
            failures: 0,
            retry_unix_ms: 0,
        }
    }

    /// Counts an attempt that failed, and sets the time of the next one: after `wait`, if that is
    /// known, otherwise after twice the last pause.
    pub(super) fn put_off(&mut self, now: SystemTime, wait: Option<Duration>) {
        let doubled = || RETRY_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures));
        let pause = wait.unwrap_or_else(doubled).min(RETRY_PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.retry_unix_ms = unix_ms(now + pause);
    }

    /// The time of the next attempt, in Unix milliseconds.
    fn attempt_unix_ms(&self, place: DuePosition) -> u64 {
        place.due_unix_ms.max(self.retry_unix_ms)
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
    /// The same by the times of their next attempts.
    attempts: BTreeSet<(u64, DuePosition)>,
    by_name: HashMap<(String, String), DuePosition>,
    bytes: usize,
}

impl WaitingMessages {
    pub(super) fn insert(&mut self, place: DuePosition, message: WaitingMessage) {
        self.bytes += message.bytes;
        self.by_name.insert(message.key(), place);
        self.attempts
            .insert((message.attempt_unix_ms(place), place));
        self.in_order.insert(place, message);
    }

    pub(super) fn remove(&mut self, place: DuePosition) -> Option<WaitingMessage> {
        let message = self.in_order.remove(&place)?;
        self.bytes -= message.bytes;
        self.attempts
            .remove(&(message.attempt_unix_ms(place), place));
        let key = message.key();
        if self.by_name.get(&key) == Some(&place) {
            self.by_name.remove(&key);
        }
        Some(message)
    }

    /// Takes messages that are due: at most `count`, with at most `bytes_max` bytes in total, but
    /// at least one.
    pub(super) fn take_due(
        &mut self,
        now: SystemTime,
        count: usize,
        bytes_max: usize,
    ) -> Vec<(DuePosition, WaitingMessage)> {
        let now = unix_ms(now);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < count
            && let Some(&(attempt, place)) = self.attempts.first()
            && attempt <= now
        {
            let next = self.in_order.get(&place);
            bytes += next.map_or(0, |message| message.bytes);
            if !taken.is_empty() && bytes > bytes_max {
                break;
            }
            let Some(message) = self.remove(place) else {
                break;
            };
            taken.push((place, message));
        }
        taken
    }

    /// The time of the next attempt, in Unix milliseconds.
    pub(super) fn next_attempt_unix_ms(&self) -> Option<u64> {
        self.attempts.first().map(|&(attempt, _)| attempt)
    }

    /// Returns the message at a place.
    pub(super) fn get(&self, place: DuePosition) -> Option<&WaitingMessage> {
        self.in_order.get(&place)
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
            failures: 0,
            retry_unix_ms: 0,
        }
    }

    fn second(number: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(number)
    }

    #[test]
    fn messages_are_found_by_name_and_in_order() {
        let mut waiting = WaitingMessages::default();
        let at = |number| DuePosition::new(second(number), MessageId::next());
        let (early, late) = (at(1), at(2));
        waiting.insert(late, message("late"));
        waiting.insert(early, message("early"));
        assert_eq!(waiting.next_attempt_unix_ms(), Some(1_000));
        assert_eq!((waiting.count(), waiting.bytes()), (2, 20));
        assert_eq!(waiting.place_of("a", "late"), Some(late));
        assert_eq!(waiting.place_of("b", "late"), None);
        assert_eq!(waiting.remove(early), Some(message("early")));
        assert_eq!(waiting.remove(early), None);
        assert_eq!(waiting.next_attempt_unix_ms(), Some(2_000));
        assert_eq!((waiting.count(), waiting.bytes()), (1, 10));
        assert!(early.is_overdue());
    }

    #[test]
    fn a_message_that_was_put_off_leaves_its_turn_to_others() {
        let mut waiting = WaitingMessages::default();
        for number in 1..=3 {
            let place = DuePosition::new(second(number), MessageId::next());
            waiting.insert(place, message(&number.to_string()));
        }
        let names = |taken: &[(DuePosition, WaitingMessage)]| -> Vec<String> {
            taken.iter().map(|(_, it)| it.name.clone()).collect()
        };
        let now = second(2);
        let mut taken = waiting.take_due(now, 1, 100);
        assert_eq!(names(&taken), ["1"]);
        let (place, mut first) = taken.remove(0);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            first.put_off(now, None);
            assert_eq!(first.retry_unix_ms, unix_ms(second(2 + seconds)));
        }
        first.put_off(now, Some(Duration::from_secs(3)));
        waiting.insert(place, first);
        assert_eq!(names(&waiting.take_due(now, 10, 100)), ["2"]);
        assert!(waiting.take_due(second(2), 10, 100).is_empty());
        // Each alone if both are too large.
        assert_eq!(names(&waiting.take_due(second(5), 10, 15)), ["3"]);
        assert_eq!(names(&waiting.take_due(second(5), 10, 15)), ["1"]);
        assert_eq!((waiting.count(), waiting.bytes()), (0, 0));
        assert_eq!(waiting.next_attempt_unix_ms(), None);
    }
}
