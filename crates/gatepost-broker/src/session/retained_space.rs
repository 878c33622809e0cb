//! The space of a session for the retained messages of new subscriptions.
//!
//! They take at most half of the session's space, so that the other half is left to live messages,
//! and none while publishers wait for the session.

use gatepost_message::{Publication, Qos};

use super::deliver::NEWEST_OUTBOX_BYTES;
use super::{BrokerView, Session, SessionState, expiry_left};
use crate::filter::DeliveryOptions;
use crate::persistence::ChangeBatch;
use crate::retained::RetainedMessages;
use crate::settings::SlowSubscriber;
use crate::weight::content_bytes;

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
