//! Retained messages of new subscriptions, until the session has space for them.
//!
//! A filter may match any number of topics, whose messages are sent as fast as the client reads and
//! acknowledges. They take at most half of the session's space, so that the other half is left to
//! live messages, and none while publishers wait for the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;

use gatepost_message::{MessageId, Publication, Qos, Topic, TopicFilter};

use super::deliver::NEWEST_OUTBOX_BYTES;
use super::{BrokerView, Session, SessionState, expiry_left};
use crate::filter::DeliveryOptions;
use crate::persistence::ChangeBatch;
use crate::retained::RetainedMessages;
use crate::settings::SlowSubscriber;
use crate::weight::content_bytes;

/// A message that was found for a subscription. What its topic retains is read when it is sent: a
/// client that does not read must not keep messages in memory that their topics have replaced.
enum WaitingMessage {
    InMemory(Topic, MessageId),
    /// It was read from the disk for this subscription.
    OnDisk(Arc<Publication>),
}

impl From<Arc<Publication>> for WaitingMessage {
    fn from(publication: Arc<Publication>) -> Self {
        // A topic refers to its message in memory too.
        if Arc::strong_count(&publication) == 1 {
            Self::OnDisk(publication)
        } else {
            Self::InMemory(publication.topic.clone(), publication.id)
        }
    }
}

impl WaitingMessage {
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
    messages: vec::IntoIter<WaitingMessage>,
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
        let messages: Vec<_> = messages.into_iter().map(WaitingMessage::from).collect();
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

    fn remove(&mut self, filter: &TopicFilter) {
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
    fn front(
        &self,
        retained: &RetainedMessages,
    ) -> Option<(Option<Arc<Publication>>, &DeliveryOptions)> {
        let (_, group) = self.groups.first_key_value()?;
        let next = group.messages.as_slice().first()?;
        Some((next.present(retained), &group.options))
    }

    fn pop(&mut self) {
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

/// The space that retained messages may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainedSpace {
    /// Half of the space of a connected session.
    Half,
    /// The whole queue of a session whose client is absent.
    WholeQueue,
}

impl Session {
    /// Delivers the next of the waiting retained messages, or discards it if it is obsolete
    /// \[MQTT-4.6.0-5\]; returns `false` if there is none or no space for it.
    pub(crate) fn deliver_next_retained(
        &self,
        state: &mut SessionState,
        space: RetainedSpace,
        retained: &RetainedMessages,
        batch: &mut ChangeBatch,
        broker: BrokerView<'_>,
    ) -> bool {
        let Some(mut waiting) = state.retained.take() else {
            return false;
        };
        let Some((next, options)) = waiting.front(retained) else {
            return false;
        };
        let is_sent = next.is_none_or(|publication| {
            let has_room = Self::has_room_for(state, space, &publication, options, broker);
            // [MQTT-3.3.2-5]
            if has_room && expiry_left(&publication, broker.clock) != Some(0) {
                self.deliver_locked(state, &publication, options, true, batch, broker);
            }
            has_room
        });
        if is_sent {
            waiting.pop();
        }
        state.retained = Some(waiting);
        is_sent
    }

    /// Whether the next of the waiting retained messages can be delivered now.
    pub(crate) fn may_deliver_retained(
        state: &mut SessionState,
        retained: &RetainedMessages,
        broker: BrokerView<'_>,
    ) -> bool {
        let Some(waiting) = state.retained.take() else {
            return false;
        };
        let Some((next, options)) = waiting.front(retained) else {
            return false;
        };
        let half = RetainedSpace::Half;
        let may = next.is_none_or(|one| Self::has_room_for(state, half, &one, options, broker));
        state.retained = Some(waiting);
        may
    }

    fn has_room_for(
        state: &SessionState,
        space: RetainedSpace,
        publication: &Publication,
        options: &DeliveryOptions,
        broker: BrokerView<'_>,
    ) -> bool {
        let is_unacknowledged = publication.qos.min(options.qos) == Qos::AtMostOnce;
        let part = match space {
            RetainedSpace::Half => 2,
            // A message at QoS 0 is lost with its connection, and takes no space.
            RetainedSpace::WholeQueue if is_unacknowledged => return true,
            RetainedSpace::WholeQueue => 1,
        };
        if state.congested_since.is_some() {
            return false;
        }
        if !is_unacknowledged {
            let bounds = state.bounds(broker);
            return state.acknowledged.as_ref().is_none_or(|queue| {
                let bytes = queue.waiting_bytes() + content_bytes(publication);
                let fits = queue.waiting.len() < bounds.messages_max / part
                    && bytes <= bounds.bytes_max / part;
                fits || queue.waiting.is_empty()
            });
        }
        if state.policy == SlowSubscriber::NewestOnly {
            // It must not replace a later message of its topic that waits.
            return state.newest.as_ref().is_none_or(|newest| newest.is_empty())
                && !state.blocked
                && state.outbox.bytes() < NEWEST_OUTBOX_BYTES;
        }
        let bytes = state.outbox.bytes() + publication.payload.len();
        let fits = bytes <= broker.settings.outbox_max.as_usize() / part
            && state.outbox.messages() < broker.settings.outbox_messages_max / part;
        fits || state.outbox.is_empty()
    }
}

impl SessionState {
    /// Ends the delivery of the retained messages of this filter.
    pub(crate) fn end_retained(&mut self, filter: &TopicFilter) {
        if let Some(waiting) = &mut self.retained {
            waiting.remove(filter);
        }
    }
}
