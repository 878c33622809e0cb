//! QoS 1 and 2 deliveries: the queue of a session, and the conditions for sending.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatepost_message::{Publication, Qos};
use gatepost_store::{DeliveryRow, SessionChange, StoreChange};

use super::{BrokerView, DisconnectCause, QueueBounds, Session, SessionState, expiry_left, wake};
use crate::acknowledged::{AcknowledgedDeliveries, Delivery, DeliveryPhase};
use crate::counters::DropCause;
use crate::encoder::FrameOptions;
use crate::filter::DeliveryOptions;
use crate::persistence::{ChangeBatch, CommitStatus};
use crate::settings::SlowSubscriber;
use crate::trace::{OpenStep, StepOutcome};
use crate::weight::queued_bytes;

impl Session {
    /// Queues a QoS 1 or 2 delivery; returns whether there was free space.
    pub(super) fn enqueue(
        &self,
        state: &mut SessionState,
        publication: &Arc<Publication>,
        options: &DeliveryOptions,
        retain: bool,
        batch: &mut ChangeBatch,
        broker: BrokerView<'_>,
    ) -> bool {
        let bounds = state.bounds(broker);
        let queue = state.acknowledged.get_or_insert_default();
        let new = (&**publication, &*options.identifiers);
        if !self.make_room_in_queue(queue, state.policy, bounds, new, broker) {
            if state.policy == SlowSubscriber::Disconnect && state.link.is_some() {
                self.end_locked(state, DisconnectCause::TooSlow);
            }
            let outcome = StepOutcome::Dropped(DropCause::QueueFull);
            let _ = self.traced(batch, publication, options.qos, outcome);
            return false;
        }
        let mut delivery = Delivery {
            publication: publication.clone(),
            stored: None,
            commit: None,
            sequence: queue.next_sequence(),
            qos: publication.qos.min(options.qos),
            retain,
            dup: false,
            identifiers: options.identifiers.clone(),
        };
        if let Some(persistent) = &queue.persistent {
            let stored = batch.stored(publication);
            stored.add_reference();
            let row = DeliveryRow {
                session: persistent.number,
                sequence: delivery.sequence,
                message: stored.number,
                qos: delivery.qos,
                retain,
                released: false,
                identifiers: delivery.identifiers.to_vec(),
            };
            let change = SessionChange::Enqueue(Box::new(row));
            batch.changes.push(StoreChange::Session(change));
            delivery.stored = Some(stored);
        } else if delivery.qos == Qos::ExactlyOnce && broker.is_stored {
            // The publisher repeats a refused publication, so it must not be delivered before the
            // commit.
            delivery.commit = Some(batch.commit());
        }
        let step = self.traced(batch, publication, delivery.qos, StepOutcome::Waiting);
        queue.awaited.add(delivery.sequence, step);
        queue.push(delivery);
        self.note_fullness(queue, bounds);
        true
    }

    /// Records the step of a delivery, if its publication is traced.
    fn traced(
        &self,
        batch: &ChangeBatch,
        publication: &Publication,
        qos: Qos,
        outcome: StepOutcome,
    ) -> Option<OpenStep> {
        let trace = batch.trace.as_ref()?;
        trace.at_session(&self.client_id, &self.kind, publication, qos, outcome)
    }

    fn note_fullness(&self, queue: &AcknowledgedDeliveries, bounds: QueueBounds) {
        let is_full = queue.is_full(bounds.messages_max, bounds.bytes_max);
        if is_full != self.has_full_queue() {
            self.has_full_queue.store(is_full, Ordering::Relaxed);
        }
    }

    /// Applies the policy for a full queue; returns whether another delivery may wait in it.
    fn make_room_in_queue(
        &self,
        queue: &mut AcknowledgedDeliveries,
        policy: SlowSubscriber,
        bounds: QueueBounds,
        (publication, identifiers): (&Publication, &[u32]),
        broker: BrokerView<'_>,
    ) -> bool {
        let bytes = queued_bytes(publication, identifiers);
        if policy == SlowSubscriber::NewestOnly && queue.supersede(&publication.topic) {
            self.count_drop(broker, DropCause::Superseded, 1);
        }
        let is_full = |queue: &AcknowledgedDeliveries| {
            queue.waiting.len() >= bounds.messages_max
                || queue.waiting_bytes() + bytes > bounds.bytes_max
        };
        if matches!(
            policy,
            SlowSubscriber::DropOldest | SlowSubscriber::NewestOnly
        ) {
            while is_full(queue) && queue.drop_front(DropCause::QueueFull) {
                self.count_drop(broker, DropCause::QueueFull, 1);
            }
        }
        let is_full = is_full(queue);
        if is_full {
            self.count_drop(broker, DropCause::QueueFull, 1);
        }
        !is_full
    }

    /// Sends waiting deliveries within the client's quota \[MQTT-3.3.4-9\], as far as that is safe
    /// (`persistence.rs`) and the outbox is not full.
    #[inline]
    pub(super) fn pump(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        // Most sessions have no such queue, and this is called after each write.
        if state.acknowledged.is_none() {
            return;
        }
        self.send_waiting(state, broker);
        if self.has_full_queue()
            && let Some(queue) = &state.acknowledged
        {
            self.note_fullness(queue, state.bounds(broker));
        }
    }

    fn send_waiting(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        let bytes_max = state.bounds(broker).bytes_max;
        while let (Some(link), Some(queue)) = (&state.link, &mut state.acknowledged) {
            let is_full = state.outbox.bytes() > broker.settings.outbox_max.as_usize();
            let has_quota = !is_full && queue.has_quota(link.in_flight_max, bytes_max);
            let Some(next) = queue.front().filter(|_| has_quota) else {
                return;
            };
            match next.commit_status() {
                CommitStatus::Collected => return,
                CommitStatus::Submitted(ticket) if next.qos == Qos::ExactlyOnce => {
                    queue.await_commit(ticket);
                    wake(&mut state.owner);
                    return;
                }
                CommitStatus::Failed => {
                    queue.drop_front(DropCause::NotStored);
                    self.count_drop(broker, DropCause::NotStored, 1);
                    continue;
                }
                CommitStatus::Submitted(_) | CommitStatus::Committed => {}
            }
            if queue.must_recheck(next)
                && let Some(authorization) = &state.authorization
                && !authorization.may_receive(next.publication.topic.as_str())
            {
                queue.drop_front(DropCause::Denied);
                self.count_drop(broker, DropCause::Denied, 1);
                continue;
            }
            // A delivery that may have been sent is always completed [MQTT-4.3.3-7].
            if !next.dup && expiry_left(&next.publication, broker.clock) == Some(0) {
                queue.drop_front(DropCause::Expired);
                self.count_drop(broker, DropCause::Expired, 1);
                continue; // [MQTT-3.3.2-5]
            }
            if queue.must_wait_for_identifier() {
                return;
            }
            let Some(delivery) = queue.send() else {
                return;
            };
            if !self.send_delivery(state, &delivery, broker)
                && let Some(queue) = &mut state.acknowledged
            {
                // Too large for the client: handled as if it were complete [MQTT-3.1.2-25].
                queue.abandon(delivery.packet_id());
            }
        }
    }

    /// Sends all unacknowledged deliveries again, in order \[MQTT-4.4.0-1\].
    pub(super) fn resend(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        let (Some(link), Some(queue)) = (&state.link, &mut state.acknowledged) else {
            return;
        };
        queue.send_again();
        let format = &link.format;
        let released: Vec<NonZeroU16> = queue
            .in_flight
            .iter()
            .filter(|flight| flight.phase == DeliveryPhase::Released)
            .map(|flight| flight.packet_id)
            .collect();
        for packet_id in released {
            state
                .outbox
                .append(0, false, |out| format.encode_release(packet_id, out));
        }
        self.pump(state, broker);
    }

    fn send_delivery(
        &self,
        state: &mut SessionState,
        delivery: &Delivery,
        broker: BrokerView<'_>,
    ) -> bool {
        let options = FrameOptions {
            qos: delivery.qos,
            dup: delivery.dup,
            retain: delivery.retain,
            packet_id: Some(delivery.packet_id()),
            identifiers: &delivery.identifiers,
            alias: None,
            expiry_seconds: expiry_left(&delivery.publication, broker.clock),
        };
        self.encode(state, &delivery.publication, &options, broker)
    }
}
