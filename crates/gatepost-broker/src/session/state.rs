//! The state that a session's mutex guards.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use gatepost_message::TopicFilter;

use super::{
    BrokerView, DisconnectCause, LiveLink, QueueBounds, SessionWill, WaitingRetained, wake,
};
use crate::acknowledged::AcknowledgedDeliveries;
use crate::authorization::Authorization;
use crate::newest::NewestPerTopic;
use crate::outbox::Outbox;
use crate::persistence::PersistentSession;
use crate::settings::SlowSubscriber;
use crate::trace::OpenSteps;

/// A socket that refuses bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StalledSocket {
    pub(super) since: Instant,
    /// The bytes that the outbox had written by then.
    pub(super) written: u64,
}

/// The part of a session that its mutex guards, in the declared order: a delivery at QoS 0 touches
/// the fields before `outbox`, the first ones of `outbox`, and the first ones of `link`, which are
/// in the first and third cache line of the session.
#[derive(Default)]
#[repr(C)]
pub(crate) struct SessionState {
    /// Whether the socket refused bytes; until it accepts them, only the owner writes.
    pub(super) blocked: bool,
    pub(super) dirty: bool,
    /// Whether publishers have waited for the maximum time: they do not wait again until half of
    /// the space is free, even if the client reconnects.
    pub(super) is_given_up: bool,
    /// The policy for a subscriber that is slower than its publications.
    pub(crate) policy: SlowSubscriber,
    pub(crate) ended: Option<DisconnectCause>,
    pub(crate) has_ended: bool,
    /// Whether everything had been written to the connection that lost the session.
    pub(crate) was_cut_cleanly: bool,
    pub(crate) acknowledged: Option<Box<AcknowledgedDeliveries>>,
    pub(crate) outbox: Outbox,
    /// Deliveries that wait for the outbox, if only the newest of each topic is wanted.
    pub(crate) newest: Option<Box<NewestPerTopic>>,
    /// Retained messages of new subscriptions, until there is space for them.
    pub(crate) retained: Option<Box<WaitingRetained>>,
    pub(crate) link: Option<LiveLink>,
    /// The connection's own task.
    pub(super) owner: Option<Waker>,
    /// The user that owns the session; `None` if any client may use it.
    pub(crate) user: Option<Arc<str>>,
    /// The rights of the client; `None` if they are not limited, or unknown since a restart.
    pub(crate) authorization: Option<Arc<dyn Authorization>>,
    /// The limits of its queue, if they differ from the settings.
    pub(crate) queue_bounds: Option<QueueBounds>,
    pub(crate) will: Option<Box<SessionWill>>,
    /// The instant at which the will is due, after the end of the connection.
    pub(crate) will_due: Option<Instant>,
    /// The instant at which the session ends, after the end of the connection; `None` for never.
    pub(crate) expires: Option<Instant>,
    pub(crate) expiry: Duration,
    /// Publishers that wait for free space.
    pub(super) waiting: Vec<Waker>,
    /// The last time at which the socket accepted bytes, while it refuses others; the session's
    /// `is_stalled` says whether there is one.
    pub(super) stalled: Option<StalledSocket>,
    /// The instant since which publishers wait for this session; the session's `congested` says
    /// whether there is one.
    pub(super) congested_since: Option<Instant>,
    /// Traced QoS 0 deliveries that may still be lost, by their place among all deliveries.
    pub(super) traced: Option<Box<OpenSteps>>,
}

impl SessionState {
    /// Ends the delivery of the retained messages of this filter.
    pub(crate) fn end_retained(&mut self, filter: &TopicFilter) {
        if let Some(waiting) = &mut self.retained {
            waiting.remove(filter);
        }
    }

    /// Wakes the connection's own task.
    pub(crate) fn wake_owner(&mut self) {
        wake(&mut self.owner);
    }

    pub(crate) fn set_owner(&mut self, waker: &Waker) {
        if !self
            .owner
            .as_ref()
            .is_some_and(|owner| owner.will_wake(waker))
        {
            self.owner = Some(waker.clone());
        }
    }

    /// Whether the housekeeper has something to do for this session, whose client is not connected:
    /// its will or its end is due, or a failing disk refused its changes.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_will_due = self.will_due.is_some_and(|due| due <= now);
        is_will_due
            || self.has_expired(now)
            || self
                .persistent_mut()
                .is_some_and(PersistentSession::has_unsubmitted)
    }

    /// Whether the session's expiry has passed since its connection ended.
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.link.is_none() && self.expires.is_some_and(|at| at <= now)
    }

    /// Permits the greeting and all later frames to be written.
    pub(crate) const fn begin(&mut self) {
        self.blocked = false;
        // A publisher may have tried to write meanwhile, and left the bytes to the connection's
        // task.
        self.dirty = true;
    }

    /// The instant since which publishers wait for this session.
    pub(crate) const fn congested_since(&self) -> Option<Instant> {
        self.congested_since
    }

    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// QoS 1 and 2 messages that wait or are unacknowledged, publications in the outbox, and
    /// retained messages that wait for space.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.messages()
            + self.retained.as_ref().map_or(0, |retained| retained.len())
            + self.newest.as_ref().map_or(0, |newest| newest.len())
            + self
                .acknowledged
                .as_ref()
                .map_or(0, |queue| queue.waiting.len())
    }

    /// QoS 1 and 2 messages that were sent and are unacknowledged.
    pub(crate) fn in_flight(&self) -> usize {
        let queue = self.acknowledged.as_ref();
        queue.map_or(0, |queue| queue.in_flight.len())
    }

    /// Whether more than this part of the queue is full.
    pub(super) fn has_queued_more_than(&self, part: usize, broker: BrokerView<'_>) -> bool {
        self.acknowledged.as_ref().is_some_and(|queue| {
            let bounds = self.bounds(broker);
            queue.waiting.len() > bounds.messages_max / part
                || queue.waiting_bytes() > bounds.bytes_max / part
        })
    }

    /// The limits of the queue.
    pub(crate) fn bounds(&self, broker: BrokerView<'_>) -> QueueBounds {
        self.queue_bounds.unwrap_or_else(|| QueueBounds {
            messages_max: broker.settings.queue_messages_max,
            bytes_max: broker.settings.queue_bytes_max.as_usize(),
        })
    }
}
