//! A session's live connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use gatepost_message::{Peer, Topic};

use crate::encoder::{SubscriberSocket, TopicAlias, WireFormat};

/// Topics with an alias on one connection, even if the client permits more: each takes memory until
/// the connection ends.
const ALIASES_MAX: u16 = 4_096;
/// Bytes of these topics.
const ALIASES_BYTES_MAX: usize = 256 * 1024;

/// A live connection of a session. What each delivery uses comes first (see
/// [`Session`](super::Session)).
#[repr(C)]
pub(crate) struct LiveLink {
    pub(crate) format: WireFormat,
    pub(crate) socket: Arc<dyn SubscriberSocket>,
    pub(crate) aliases: Option<Box<TopicAliases>>,
    /// The largest frame that the client accepts, in bytes.
    pub(crate) frame_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    /// The other end of the connection.
    pub(crate) peer: Peer,
    pub(crate) since: SystemTime,
}

/// Topic aliases that this connection knows (section 3.3.2.3.4).
pub(crate) struct TopicAliases {
    max: u16,
    numbers: HashMap<Topic, u16>,
    /// Bytes of these topics.
    bytes: usize,
}

impl TopicAliases {
    pub(crate) fn new(max: u16) -> Self {
        Self {
            max: max.min(ALIASES_MAX),
            numbers: HashMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn of(&mut self, topic: &Topic) -> Option<TopicAlias> {
        if let Some(&number) = self.numbers.get(topic) {
            return Some(TopicAlias {
                number,
                is_new: false,
            });
        }
        let bytes = self.bytes + topic.as_str().len();
        if self.numbers.len() >= usize::from(self.max) || bytes > ALIASES_BYTES_MAX {
            return None; // [MQTT-3.1.2-26]
        }
        let number = self.numbers.len() as u16 + 1;
        self.numbers.insert(topic.clone(), number);
        self.bytes = bytes;
        Some(TopicAlias {
            number,
            is_new: true,
        })
    }

    /// Removes the newest alias, whose defining frame was not sent. An earlier one stays: the next
    /// number follows from how many there are.
    pub(super) fn forget_newest(&mut self, topic: &Topic) {
        let number = self.numbers.get(topic).copied();
        if number.is_some_and(|number| usize::from(number) == self.numbers.len()) {
            self.numbers.remove(topic);
            self.bytes -= topic.as_str().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::new(name).expect("a topic")
    }

    #[test]
    fn a_number_stands_for_one_topic_however_many_there_are() {
        let mut aliases = TopicAliases::new(u16::MAX);
        let mut used = HashMap::new();
        for index in 0..=u32::from(u16::MAX) + 1 {
            let topic = topic(&index.to_string());
            if let Some(alias) = aliases.of(&topic) {
                assert!(alias.is_new && alias.number > 0, "{alias:?}");
                assert!(used.insert(alias.number, topic).is_none(), "{alias:?}");
            }
        }
        assert_eq!(used.len(), usize::from(ALIASES_MAX));
        for (number, topic) in used {
            assert_eq!(aliases.of(&topic).map(|alias| alias.number), Some(number));
        }
    }

    #[test]
    fn topics_with_aliases_are_bounded_in_bytes() {
        let mut aliases = TopicAliases::new(100);
        let long = |index: usize| topic(&format!("{index}/{}", "x".repeat(60_000)));
        let with_alias = (0..100).filter(|&index| aliases.of(&long(index)).is_some());
        assert_eq!(with_alias.count(), ALIASES_BYTES_MAX / 60_000);
        aliases.forget_newest(&long(0));
        assert!(aliases.of(&long(50)).is_none(), "an earlier one stays");
        aliases.forget_newest(&long(3));
        let next = aliases.of(&long(50)).expect("its bytes are free again");
        assert_eq!(next.number, 4, "the number that no topic has");
    }
}
