//! Retained messages of new subscriptions, until the session has space for them.
//!
//! A filter may match any number of topics, whose messages are sent as fast as the client reads and
//! acknowledges (`retained_space.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;

use gatepost_message::{MessageId, Publication, Topic, TopicFilter};

use crate::filter::DeliveryOptions;
use crate::retained::RetainedMessages;

/// A message that was found for a subscription. What its topic retains is read when it is sent: a
/// client that does not read must not keep messages in memory that their topics have replaced.
enum FoundRetained {
    InMemory(Topic, MessageId),
    /// It was read from the disk for this subscription.
    OnDisk(Arc<Publication>),
}

impl From<Arc<Publication>> for FoundRetained {
    fn from(publication: Arc<Publication>) -> Self {
        // A topic refers to its message in memory too.
        if Arc::strong_count(&publication) == 1 {
            Self::OnDisk(publication)
        } else {
            Self::InMemory(publication.topic.clone(), publication.id)
        }
    }
}

impl FoundRetained {
    fn present(&self, retained: &RetainedMessages) -> Option<Arc<Publication>> {
        match self {
            Self::InMemory(topic, id) => retained.present(topic, *id, None),
            Self::OnDisk(found) => retained.present(&found.topic, found.id, Some(found)),
        }
    }
}

/// The messages of one subscription.
struct WaitingGroup {
    filter: TopicFilter,
    options: DeliveryOptions,
    messages: vec::IntoIter<FoundRetained>,
}

/// All retained messages that wait for one session, by subscription.
#[derive(Default)]
pub(crate) struct WaitingRetained {
    /// By their numbers, in which order they are delivered.
    groups: BTreeMap<u64, WaitingGroup>,
    /// The number of the group of each filter.
    numbers: BTreeMap<TopicFilter, u64>,
    last_number: u64,
    /// Messages of all groups.
    count: usize,
}

impl WaitingRetained {
    /// Adds the messages of a new subscription, in place of those of an earlier one of the same
    /// filter.
    pub(crate) fn push(
        &mut self,
        filter: TopicFilter,
        options: DeliveryOptions,
        messages: Vec<Arc<Publication>>,
    ) {
        self.remove(&filter);
        if messages.is_empty() {
            return;
        }
        let messages: Vec<_> = messages.into_iter().map(FoundRetained::from).collect();
        self.count += messages.len();
        self.last_number += 1;
        self.numbers.insert(filter.clone(), self.last_number);
        let group = WaitingGroup {
            filter,
            options,
            messages: messages.into_iter(),
        };
        self.groups.insert(self.last_number, group);
    }

    /// Removes the messages of a subscription.
    pub(super) fn remove(&mut self, filter: &TopicFilter) {
        if let Some(number) = self.numbers.remove(filter)
            && let Some(group) = self.groups.remove(&number)
        {
            self.count -= group.messages.len();
        }
    }

    /// The number of messages.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The next message, or `None` in its place if its topic has a later one or none by now, with
    /// the options of its delivery.
    pub(super) fn front(
        &self,
        retained: &RetainedMessages,
    ) -> Option<(Option<Arc<Publication>>, &DeliveryOptions)> {
        let (_, group) = self.groups.first_key_value()?;
        let next = group.messages.as_slice().first()?;
        Some((next.present(retained), &group.options))
    }

    /// Removes the next message.
    pub(super) fn pop(&mut self) {
        let Some(mut group) = self.groups.first_entry() else {
            return;
        };
        if group.get_mut().messages.next().is_some() {
            self.count -= 1;
        }
        if group.get().messages.len() == 0 {
            self.numbers.remove(&group.remove().filter);
        }
    }
}
