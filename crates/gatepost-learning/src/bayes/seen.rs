//! The learned messages (SpamAssassin's `bayes_seen`), so that none is learned twice.

use std::collections::HashMap;

use super::message_key::MessageKey;
use super::record::Class;

/// The keys of learned messages, up to a limit. Beyond it, the oldest eighth is removed at once, so
/// that memory stays bounded when messages are learned automatically.
#[derive(Debug)]
pub(super) struct Seen {
    messages: HashMap<MessageKey, (Class, u32)>,
    messages_max: usize,
}

impl Seen {
    pub(super) fn new(messages_max: usize) -> Self {
        Self {
            messages: HashMap::new(),
            messages_max: messages_max.max(8),
        }
    }

    pub(super) fn get(&self, key: MessageKey) -> Option<Class> {
        self.messages.get(&key).map(|(class, _)| *class)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }

    pub(super) fn remove(&mut self, key: MessageKey) {
        self.messages.remove(&key);
    }

    /// Adds a message; returns those that were removed to make room.
    pub(super) fn insert(&mut self, key: MessageKey, class: Class, time: u32) -> Vec<MessageKey> {
        self.messages.insert(key, (class, time));
        if self.messages.len() <= self.messages_max {
            return Vec::new();
        }
        let mut by_age: Vec<(u32, MessageKey)> = self
            .messages
            .iter()
            .filter(|(other, _)| **other != key)
            .map(|(key, (_, time))| (*time, *key))
            .collect();
        by_age.sort_unstable();
        by_age.truncate(self.messages_max.div_ceil(8));
        for (_, old) in &by_age {
            self.messages.remove(old);
        }
        by_age.into_iter().map(|(_, key)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_when_there_are_too_many() {
        let mut seen = Seen::new(16);
        let key = |number: u32| MessageKey::of(&number.to_be_bytes());
        for number in 0..16 {
            assert!(seen.insert(key(number), Class::Ham, number).is_empty());
        }
        assert_eq!(seen.insert(key(16), Class::Spam, 16), [key(0), key(1)]);
        assert_eq!(seen.get(key(0)), None);
        assert_eq!(seen.get(key(2)), Some(Class::Ham));
        assert_eq!(seen.get(key(16)), Some(Class::Spam));
    }
}
