//! Delivery of a publication to a session, and the reasons against it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatepost_message::{Publication, Qos};

use super::write::is_congested;
use super::{BrokerView, DeliveryOutcome, DisconnectCause, Session, SessionState, SharedFrames};
use crate::clock::BrokerClock;
use crate::counters::{Counters, DropCause};
use crate::encoder::FrameOptions;
use crate::filter::DeliveryOptions;
use crate::newest::NewestDelivery;
use crate::persistence::{Audience, ChangeBatch};
use crate::settings::SlowSubscriber;
use crate::trace::StepOutcome;

/// The factor by which publishers that cannot be slowed (they have read ahead, or belong to this
/// process) may exceed the outbox's bound before the session is dropped.
const UNSLOWED_FACTOR: usize = 4;
/// The size of the outbox under a policy that keeps only the newest, so that other waiting messages
/// can still be replaced.
pub(super) const NEWEST_OUTBOX_BYTES: usize = 16 * 1024;

impl Session {
    /// Delivers QoS 0 frames that others share; writes them immediately if `send`.
    pub(crate) fn deliver_batch(
        &self,
        frames: &SharedFrames,
        send: bool,
        broker: BrokerView<'_>,
        delivered: &mut u64,
    ) -> DeliveryOutcome {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return DeliveryOutcome::None; // QoS 0 is delivered to connected sessions only.
        };
        if !link.format.shares_bytes_with(&frames.format) {
            // The client has reconnected with another version since the route was found.
            self.count_drop(
                broker,
                DropCause::ConnectionLost,
                u64::from(frames.messages),
            );
            return DeliveryOutcome::None;
        }
        if !self.make_room(state, frames.bytes.len(), frames.messages, broker) {
            return DeliveryOutcome::None;
        }
        *delivered += u64::from(frames.messages);
        Counters::add(&self.delivered, u64::from(frames.messages));
        if send && !state.blocked {
            let Some(link) = &state.link else {
                return DeliveryOutcome::None;
            };
            let sent = state
                .outbox
                .send_shared(&frames.bytes, frames.messages, &*link.socket);
            state.dirty = false;
            self.after_write(state, sent, broker);
            // Deliveries may have waited for this space.
            self.pump(state, broker);
        } else {
            state.outbox.append_shared(&frames.bytes, frames.messages);
        }
        self.pressure(state, broker)
    }

    /// Applies the policy for a full outbox; returns whether the bytes may be appended.
    fn make_room(
        &self,
        state: &mut SessionState,
        bytes: usize,
        messages: u32,
        broker: BrokerView<'_>,
    ) -> bool {
        let bytes_max = broker.settings.outbox_max.as_usize();
        let messages_max = broker.settings.outbox_messages_max;
        let has_room = |state: &SessionState, factor: usize| {
            let bytes_fit = state.outbox.bytes() + bytes <= bytes_max.saturating_mul(factor);
            let messages_fit = state.outbox.messages() < messages_max.saturating_mul(factor);
            (bytes_fit && messages_fit) || state.outbox.is_empty()
        };
        if has_room(state, 1) {
            return true;
        }
        match state.policy {
            // Most publishers stop after the bytes that they have read; this is for publishers that
            // cannot stop.
            SlowSubscriber::SlowPublisher => {
                if !state.is_given_up && has_room(state, UNSLOWED_FACTOR) {
                    return true;
                }
                self.count_drop(broker, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropNewest | SlowSubscriber::NewestOnly => {
                self.count_drop(broker, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropOldest => {
                let waiting = state.outbox.messages() as u64;
                let dropped = state.outbox.drop_oldest(
                    bytes_max.saturating_sub(bytes),
                    messages_max.saturating_sub(messages as usize),
                );
                if let Some(traced) = &mut state.traced {
                    let last = self.delivered.load(Ordering::Relaxed);
                    let oldest = last.saturating_sub(waiting);
                    let outcome = StepOutcome::Dropped(DropCause::OutboxFull);
                    traced.settle_range(oldest, oldest + dropped, outcome);
                }
                self.count_drop(broker, DropCause::OutboxFull, dropped);
                true
            }
            SlowSubscriber::Disconnect => {
                self.end_locked(state, DisconnectCause::TooSlow);
                false
            }
        }
    }

    #[inline]
    fn pressure(&self, state: &mut SessionState, broker: BrokerView<'_>) -> DeliveryOutcome {
        // The socket accepted everything, and nothing waits for an acknowledgement.
        if state.outbox.is_empty() && state.acknowledged.is_none() && !state.is_given_up {
            return DeliveryOutcome::None;
        }
        self.pressure_of_waiting(state, broker)
    }

    fn pressure_of_waiting(
        &self,
        state: &mut SessionState,
        broker: BrokerView<'_>,
    ) -> DeliveryOutcome {
        let settings = broker.settings;
        let outbox_is_full = state.outbox.bytes() > settings.outbox_max.as_usize()
            || state.outbox.messages() > settings.outbox_messages_max;
        let queue_is_filling = state.link.is_some() && state.has_queued_more_than(2, broker);
        if state.is_given_up && !is_congested(state, broker) {
            state.is_given_up = false;
        }
        let slows = state.policy == SlowSubscriber::SlowPublisher && !state.is_given_up;
        if slows && (outbox_is_full || queue_is_filling) {
            state
                .congested_since
                .get_or_insert_with(|| broker.clock.now());
            self.congested.store(true, Ordering::Relaxed);
            state.dirty = true;
            return if outbox_is_full {
                DeliveryOutcome::Congested
            } else {
                DeliveryOutcome::Filling
            };
        }
        if state.blocked || state.dirty || state.outbox.is_empty() {
            return DeliveryOutcome::None;
        }
        state.dirty = true;
        DeliveryOutcome::Dirty
    }

    /// Delivers one publication in a frame of this session's own. Its stored changes are added to
    /// `batch`, and then nothing is sent before that is submitted.
    pub(crate) fn deliver(
        &self,
        publication: &Arc<Publication>,
        options: &DeliveryOptions,
        retain: bool,
        batch: &mut ChangeBatch,
        broker: BrokerView<'_>,
    ) -> DeliveryOutcome {
        let mut state = self.state.lock();
        self.deliver_locked(&mut state, publication, options, retain, batch, broker)
    }

    /// As [`Session::deliver`], under the session's lock.
    #[inline]
    pub(crate) fn deliver_locked(
        &self,
        state: &mut SessionState,
        publication: &Arc<Publication>,
        options: &DeliveryOptions,
        retain: bool,
        batch: &mut ChangeBatch,
        broker: BrokerView<'_>,
    ) -> DeliveryOutcome {
        if state.has_ended {
            return DeliveryOutcome::Ended;
        }
        let is_acknowledged = publication.qos.min(options.qos) > Qos::AtMostOnce;
        let is_served = match batch.audience {
            Audience::All => true,
            Audience::NotPersistent => !(is_acknowledged && state.is_persistent()),
            Audience::Persistent => is_acknowledged && state.is_persistent(),
        };
        if !is_served {
            return DeliveryOutcome::None;
        }
        if is_acknowledged {
            let is_taken = self.enqueue(state, publication, options, retain, batch, broker);
            let qos = publication.qos.min(options.qos);
            let waits = qos == Qos::ExactlyOnce && broker.is_stored;
            if is_taken && (waits || state.is_persistent()) {
                return match self.pressure(state, broker) {
                    DeliveryOutcome::None | DeliveryOutcome::Dirty => DeliveryOutcome::Held,
                    pressure => pressure,
                };
            }
            self.pump(state, broker);
            if !is_taken {
                return DeliveryOutcome::Refused;
            }
        } else if !self.deliver_unacknowledged(state, publication, options, retain, batch, broker) {
            return DeliveryOutcome::None;
        }
        self.pressure(state, broker)
    }

    /// Writes a QoS 0 delivery to the outbox, or drops it; returns whether the outbox may have
    /// changed.
    #[inline]
    fn deliver_unacknowledged(
        &self,
        state: &mut SessionState,
        publication: &Arc<Publication>,
        options: &DeliveryOptions,
        retain: bool,
        batch: &ChangeBatch,
        broker: BrokerView<'_>,
    ) -> bool {
        let note = |outcome| {
            let trace = batch.trace.as_ref()?;
            trace.at_session(
                &self.client_id,
                &self.kind,
                publication,
                Qos::AtMostOnce,
                outcome,
            )
        };
        if state.link.is_none() {
            note(StepOutcome::NotConnected);
            return false;
        }
        if self.put_newest(state, publication, options, retain, broker) {
            note(StepOutcome::Waiting);
            return false;
        }
        if !self.make_room(state, publication.payload.len(), 1, broker) {
            let is_given_up = state.policy == SlowSubscriber::Disconnect;
            note(StepOutcome::Dropped(if is_given_up {
                DropCause::Stalled
            } else {
                DropCause::OutboxFull
            }));
            return false;
        }
        let frame = FrameOptions {
            retain,
            identifiers: &options.identifiers,
            expiry_seconds: expiry_left(publication, broker.clock),
            ..FrameOptions::default()
        };
        if !self.encode(state, publication, &frame, broker) {
            note(StepOutcome::Dropped(DropCause::TooLarge));
        } else if let Some(step) = note(StepOutcome::Sent) {
            let number = self.delivered.load(Ordering::Relaxed);
            let traced = state.traced.get_or_insert_default();
            traced.add(number, Some(step));
        }
        true
    }

    /// Queues a QoS 0 delivery after a full outbox in place of its topic's last one, if that is
    /// the policy; returns whether it is queued.
    fn put_newest(
        &self,
        state: &mut SessionState,
        publication: &Arc<Publication>,
        options: &DeliveryOptions,
        retain: bool,
        broker: BrokerView<'_>,
    ) -> bool {
        let has_room = !state.blocked && state.outbox.bytes() < NEWEST_OUTBOX_BYTES;
        let is_first = state.newest.as_ref().is_none_or(|newest| newest.is_empty());
        if state.policy != SlowSubscriber::NewestOnly || (has_room && is_first) {
            return false;
        }
        let latest = NewestDelivery {
            publication: publication.clone(),
            retain,
            identifiers: options.identifiers.clone(),
        };
        let bounds = state.bounds(broker);
        let newest = state.newest.get_or_insert_default();
        let replaced = newest.put(latest, bounds.messages_max, bounds.bytes_max);
        self.count_drop(broker, DropCause::Superseded, replaced);
        true
    }

    /// Moves waiting deliveries into the outbox, as many as fit.
    pub(super) fn refill(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        while !state.blocked
            && state.outbox.bytes() < NEWEST_OUTBOX_BYTES
            && let Some(newest) = &mut state.newest
        {
            let Some(latest) = newest.pop() else {
                state.newest = None;
                break;
            };
            let expiry_seconds = expiry_left(&latest.publication, broker.clock);
            if expiry_seconds == Some(0) {
                self.count_drop(broker, DropCause::Expired, 1); // [MQTT-3.3.2-5]
                continue;
            }
            let options = FrameOptions {
                retain: latest.retain,
                identifiers: &latest.identifiers,
                expiry_seconds,
                ..FrameOptions::default()
            };
            self.encode(state, &latest.publication, &options, broker);
        }
    }

    /// Appends a frame of this session's own; returns whether the frame fits the client's limit.
    pub(super) fn encode(
        &self,
        state: &mut SessionState,
        publication: &Publication,
        options: &FrameOptions<'_>,
        broker: BrokerView<'_>,
    ) -> bool {
        let Some(link) = &mut state.link else {
            return false;
        };
        let alias = link
            .aliases
            .as_mut()
            .and_then(|aliases| aliases.of(&publication.topic));
        let without_alias = *options;
        let options = FrameOptions { alias, ..*options };
        // A frame that defines an alias must be sent, or later frames would be undefined.
        let defines_alias = alias.is_some_and(|alias| alias.is_new);
        let mut is_undefined = false;
        let droppable = options.qos == Qos::AtMostOnce && !defines_alias;
        let (format, frame_bytes_max) = (&link.format, link.frame_bytes_max);
        let bytes_before = state.outbox.bytes();
        let is_written = state.outbox.append(1, droppable, |out| {
            let start = out.len();
            let mut put = |options: &FrameOptions<'_>| {
                let encoded = format.encode(publication, options, out);
                let fits = encoded.is_ok() && out.len() - start <= frame_bytes_max;
                if !fits {
                    out.truncate(start);
                }
                fits
            };
            if put(&options) {
                return true;
            }
            is_undefined = defines_alias;
            // The definition of an alias makes the frame longer.
            defines_alias && put(&without_alias)
        });
        if is_undefined
            && let Some(aliases) = state.link.as_mut().and_then(|link| link.aliases.as_mut())
        {
            aliases.forget_newest(&publication.topic);
        }
        if is_written {
            Counters::add(&self.delivered, 1);
            let counts = u64::from(!publication.topic.is_internal());
            Counters::add(&broker.counters.deliveries, counts);
            let bytes = (state.outbox.bytes() - bytes_before) as u64;
            Counters::add(&broker.counters.bytes_out, counts * bytes);
        } else {
            state.outbox.uncount_message();
            self.count_drop(broker, DropCause::TooLarge, 1);
        }
        is_written
    }
}

/// The remaining expiry. The clock is read only for publications that expire.
pub(crate) fn expiry_left(publication: &Publication, clock: &BrokerClock) -> Option<u32> {
    publication.properties.as_ref()?.expiry_seconds?;
    publication.expiry_seconds_left(clock.time_of_day())
}
