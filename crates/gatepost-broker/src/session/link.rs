//! A session's live connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use gatepost_message::{Peer, Topic};

use crate::encoder::{SubscriberSocket, TopicAlias, WireFormat};

/// A live connection of a session.
pub(crate) struct LiveLink {
    pub(crate) socket: Arc<dyn SubscriberSocket>,
    pub(crate) format: WireFormat,
    /// The largest frame that the client accepts, in bytes.
    pub(crate) frame_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) aliases: Option<Box<TopicAliases>>,
    /// The other end of the connection.
    pub(crate) peer: Peer,
    pub(crate) since: SystemTime,
}

/// Topic aliases that this connection knows (section 3.3.2.3.4).
pub(crate) struct TopicAliases {
    max: u16,
    numbers: HashMap<Topic, u16>,
}

impl TopicAliases {
    pub(crate) fn new(max: u16) -> Self {
        Self {
            max,
            numbers: HashMap::new(),
        }
    }

    pub(super) fn of(&mut self, topic: &Topic) -> Option<TopicAlias> {
        if let Some(&number) = self.numbers.get(topic) {
            return Some(TopicAlias {
                number,
                is_new: false,
            });
        }
        let number = self.numbers.len() as u16 + 1;
        if number > self.max {
            return None; // [MQTT-3.1.2-26]
        }
        self.numbers.insert(topic.clone(), number);
        Some(TopicAlias {
            number,
            is_new: true,
        })
    }

    /// Removes an alias whose defining frame was not sent.
    pub(super) fn forget(&mut self, topic: &Topic) {
        self.numbers.remove(topic);
    }
}
