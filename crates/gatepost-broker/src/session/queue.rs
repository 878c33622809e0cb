//! QoS 1 and 2 deliveries: how they wait in a session, and when they leave.

use std::num::NonZeroU16;
use std::sync::Arc;

use gatepost_message::{Publication, Qos};
use gatepost_store::{Change, DeliveryRow, SessionChange};

use super::{Ended, Session, State, Surroundings, expiry_left, wake};
use crate::acknowledged::{Acknowledged, Delivery, Phase};
use crate::counters::DropCause;
use crate::encoder::FrameOptions;
use crate::keeping::{Gathering, Standing};
use crate::settings::SlowSubscriber;
use crate::subscription::Target;
use crate::trace::StepOutcome;

impl Session {
    /// Lets a QoS 1 or 2 delivery wait for its turn; tells whether there was room.
    pub(super) fn enqueue(
        &self,
        state: &mut State,
        publication: &Arc<Publication>,
        target: &Target,
        retain: bool,
        gathering: &mut Gathering,
        around: Surroundings<'_>,
    ) -> bool {
        let queue = state.acknowledged.get_or_insert_default();
        if !self.make_room_in_queue(queue, state.policy, publication, around) {
            if state.policy == SlowSubscriber::Disconnect && state.link.is_some() {
                self.end_locked(state, Ended::TooSlow);
            }
            if let Some(trace) = &gathering.trace {
                let outcome = StepOutcome::Dropped(DropCause::QueueFull);
                let _ = trace.at_session(self, publication, target.qos, outcome);
            }
            return false;
        }
        let mut delivery = Delivery {
            publication: publication.clone(),
            stored: None,
            sequence: queue.next_sequence(),
            qos: publication.qos.min(target.qos),
            retain,
            dup: false,
            identifiers: target.identifiers.clone(),
        };
        if let Some(kept) = &queue.kept {
            let stored = gathering.stored(publication);
            stored.hold();
            let row = DeliveryRow {
                session: kept.number,
                sequence: delivery.sequence,
                message: stored.number,
                qos: delivery.qos,
                retain,
                released: false,
                identifiers: delivery.identifiers.to_vec(),
            };
            let change = SessionChange::Enqueue(Box::new(row));
            gathering.changes.push(Change::Session(change));
            delivery.stored = Some(stored);
        }
        if let Some(trace) = &gathering.trace {
            let step = trace.at_session(self, publication, delivery.qos, StepOutcome::Waiting);
            queue.awaited.add(delivery.sequence, step);
        }
        queue.push(delivery);
        true
    }

    /// Applies the policy for a full queue; tells whether another delivery may wait in it.
    fn make_room_in_queue(
        &self,
        queue: &mut Acknowledged,
        policy: SlowSubscriber,
        publication: &Publication,
        around: Surroundings<'_>,
    ) -> bool {
        let settings = around.settings;
        let bytes = publication.payload.len();
        if policy == SlowSubscriber::NewestOnly && queue.supersede(&publication.topic) {
            self.count_drop(around, DropCause::Superseded, 1);
        }
        let is_full = |queue: &Acknowledged| {
            queue.waiting.len() >= settings.queue_messages_max
                || queue.waiting_bytes() + bytes > settings.queue_bytes_max.as_usize()
        };
        if matches!(
            policy,
            SlowSubscriber::DropOldest | SlowSubscriber::NewestOnly
        ) {
            while is_full(queue) && queue.drop_front(DropCause::QueueFull) {
                self.count_drop(around, DropCause::QueueFull, 1);
            }
        }
        let is_full = is_full(queue);
        if is_full {
            self.count_drop(around, DropCause::QueueFull, 1);
        }
        !is_full
    }

    /// Sends what waits, as far as the client's quota goes \[MQTT-3.3.4-9\] and as far as it is
    /// safe (`keeping.rs`).
    pub(super) fn pump(&self, state: &mut State, around: Surroundings<'_>) {
        while let (Some(link), Some(queue)) = (&state.link, &mut state.acknowledged) {
            let has_quota = queue.in_flight.len() < link.in_flight_max;
            let Some(next) = queue.front().filter(|_| has_quota) else {
                return;
            };
            match next.standing() {
                Standing::Gathered => return,
                Standing::Submitted(ticket) if next.qos == Qos::ExactlyOnce => {
                    if let Some(kept) = &mut queue.kept {
                        kept.await_commit(ticket);
                        wake(&mut state.owner);
                    }
                    return;
                }
                Standing::Failed => {
                    queue.drop_front(DropCause::NotStored);
                    self.count_drop(around, DropCause::NotStored, 1);
                    continue;
                }
                Standing::Submitted(_) | Standing::Committed => {}
            }
            // One that may have been sent goes its way to the end [MQTT-4.3.3-7].
            if !next.dup && expiry_left(&next.publication) == Some(0) {
                queue.drop_front(DropCause::Expired);
                self.count_drop(around, DropCause::Expired, 1);
                continue; // [MQTT-3.3.2-5]
            }
            if queue.must_wait_for_identifier() {
                return;
            }
            let Some(delivery) = queue.send() else {
                return;
            };
            if !self.send_delivery(state, &delivery, around)
                && let Some(queue) = &mut state.acknowledged
            {
                // Too large for the client: as if it were complete [MQTT-3.1.2-25].
                queue.abandon(delivery.packet_id());
            }
        }
    }

    /// Everything unacknowledged, in its order \[MQTT-4.4.0-1\].
    pub(super) fn resend(&self, state: &mut State, around: Surroundings<'_>) {
        let (Some(link), Some(queue)) = (&state.link, &mut state.acknowledged) else {
            return;
        };
        queue.send_again();
        let format = link.format;
        let released: Vec<NonZeroU16> = queue
            .in_flight
            .iter()
            .filter(|flight| flight.phase == Phase::Released)
            .map(|flight| flight.packet_id)
            .collect();
        for packet_id in released {
            state
                .outbox
                .append(0, false, |out| format.encode_release(packet_id, out));
        }
        self.pump(state, around);
    }

    fn send_delivery(
        &self,
        state: &mut State,
        delivery: &Delivery,
        around: Surroundings<'_>,
    ) -> bool {
        let options = FrameOptions {
            qos: delivery.qos,
            dup: delivery.dup,
            retain: delivery.retain,
            packet_id: Some(delivery.packet_id()),
            identifiers: &delivery.identifiers,
            alias: None,
            expiry_seconds: expiry_left(&delivery.publication),
        };
        self.encode(state, &delivery.publication, &options, around)
    }
}
