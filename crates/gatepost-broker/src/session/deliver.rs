//! How a publication gets into a session, or why it does not.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Publication, Qos};
use gatepost_store::{Change, DeliveryRow, SessionChange};

use std::sync::atomic::Ordering;

use super::{Batch, Ended, Pressure, Session, State, Surroundings, wake};
use crate::acknowledged::{Acknowledged, Delivery, Phase};
use crate::counters::{Counters, DropCause};
use crate::encoder::FrameOptions;
use crate::keeping::{Gathering, Standing};
use crate::settings::SlowSubscriber;
use crate::subscription::Target;

impl Session {
    /// Delivers QoS 0 frames that others share; writes them at once if `send`.
    pub(crate) fn deliver_batch(
        &self,
        batch: &Batch,
        send: bool,
        around: Surroundings<'_>,
        delivered: &mut u64,
    ) -> Pressure {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return Pressure::None; // QoS 0 is for those who are there.
        };
        if link.format.name() != batch.format.name() {
            // Returned in another version since the route was found.
            self.count_drop(around, DropCause::ConnectionLost, u64::from(batch.messages));
            return Pressure::None;
        }
        if !self.make_room(state, batch.bytes.len(), batch.messages, around) {
            return Pressure::None;
        }
        *delivered += u64::from(batch.messages);
        Counters::add(&self.delivered, u64::from(batch.messages));
        if send && !state.blocked {
            let Some(link) = &state.link else {
                return Pressure::None;
            };
            let sent = state
                .outbox
                .send_shared(&batch.bytes, batch.messages, &*link.sink);
            state.dirty = false;
            self.after_write(state, sent);
        } else {
            state.outbox.append_shared(&batch.bytes, batch.messages);
        }
        self.pressure(state, around)
    }

    /// Applies the policy for a full outbox; tells whether the bytes may be appended.
    fn make_room(
        &self,
        state: &mut State,
        bytes: usize,
        messages: u32,
        around: Surroundings<'_>,
    ) -> bool {
        let bytes_max = around.settings.outbox_max.as_usize();
        if state.outbox.bytes() + bytes <= bytes_max || state.outbox.is_empty() {
            return true;
        }
        match around.settings.slow_subscriber {
            // Publishers stop after what they have read; this is for those who cannot stop.
            SlowSubscriber::SlowPublisher => {
                if state.outbox.bytes() < bytes_max.saturating_mul(4) {
                    return true;
                }
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropNewest => {
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropOldest => {
                let dropped = state.outbox.drop_oldest(bytes_max.saturating_sub(bytes));
                self.count_drop(around, DropCause::OutboxFull, dropped);
                true
            }
            SlowSubscriber::Disconnect => {
                self.end_locked(state, Ended::TooSlow);
                false
            }
        }
    }

    fn pressure(&self, state: &mut State, around: Surroundings<'_>) -> Pressure {
        if state.outbox.is_empty() {
            return Pressure::None;
        }
        let is_full = state.outbox.bytes() > around.settings.outbox_max.as_usize()
            || state.acknowledged.as_ref().is_some_and(|acknowledged| {
                state.link.is_some()
                    && acknowledged.waiting.len() > around.settings.queue_messages_max / 2
            });
        if is_full && around.settings.slow_subscriber == SlowSubscriber::SlowPublisher {
            state.congested_since.get_or_insert_with(Instant::now);
            self.congested.store(true, Ordering::Relaxed);
            state.dirty = true;
            return Pressure::Congested;
        }
        if state.blocked || state.dirty {
            return Pressure::None;
        }
        state.dirty = true;
        Pressure::Dirty
    }

    /// Delivers one publication in a frame of this session's own. What must be stored for it
    /// goes to `gathering`, and then nothing is sent before that is submitted.
    pub(crate) fn deliver(
        &self,
        publication: &Arc<Publication>,
        target: &Target,
        retain: bool,
        gathering: &mut Gathering,
        around: Surroundings<'_>,
    ) -> Pressure {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.has_ended {
            return Pressure::None;
        }
        if publication.qos.min(target.qos) == Qos::AtMostOnce {
            if state.link.is_none() || !self.make_room(state, publication.payload.len(), 1, around)
            {
                return Pressure::None;
            }
            let options = FrameOptions {
                retain,
                identifiers: &target.identifiers,
                expiry_seconds: expiry_left(publication),
                ..FrameOptions::default()
            };
            self.encode(state, publication, &options, around);
        } else {
            let is_taken = self.enqueue(state, publication, target, retain, gathering, around);
            if is_taken && state.is_kept() {
                return match self.pressure(state, around) {
                    Pressure::Congested => Pressure::Congested,
                    _ => Pressure::Held,
                };
            }
            self.pump(state, around);
        }
        self.pressure(state, around)
    }

    /// Lets a QoS 1 or 2 delivery wait for its turn; tells whether there was room.
    fn enqueue(
        &self,
        state: &mut State,
        publication: &Arc<Publication>,
        target: &Target,
        retain: bool,
        gathering: &mut Gathering,
        around: Surroundings<'_>,
    ) -> bool {
        let queue = state.acknowledged.get_or_insert_default();
        if !self.make_room_in_queue(queue, publication.payload.len(), around) {
            if around.settings.slow_subscriber == SlowSubscriber::Disconnect && state.link.is_some()
            {
                self.end_locked(state, Ended::TooSlow);
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
        queue.push(delivery);
        true
    }

    /// Applies the policy for a full queue; tells whether another delivery may wait in it.
    fn make_room_in_queue(
        &self,
        queue: &mut Acknowledged,
        bytes: usize,
        around: Surroundings<'_>,
    ) -> bool {
        let settings = around.settings;
        let is_full = |queue: &Acknowledged| {
            queue.waiting.len() >= settings.queue_messages_max
                || queue.waiting_bytes() + bytes > settings.queue_bytes_max.as_usize()
        };
        if settings.slow_subscriber == SlowSubscriber::DropOldest {
            while is_full(queue) && queue.drop_front() {
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
                    queue.drop_front();
                    self.count_drop(around, DropCause::NotStored, 1);
                    continue;
                }
                Standing::Submitted(_) | Standing::Committed => {}
            }
            if expiry_left(&next.publication) == Some(0) {
                queue.drop_front();
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

    /// Appends a frame of this session's own; tells whether the client can take it.
    fn encode(
        &self,
        state: &mut State,
        publication: &Publication,
        options: &FrameOptions<'_>,
        around: Surroundings<'_>,
    ) -> bool {
        let Some(link) = &mut state.link else {
            return false;
        };
        let alias = link
            .aliases
            .as_mut()
            .and_then(|aliases| aliases.of(&publication.topic));
        let options = FrameOptions { alias, ..*options };
        // A frame that tells an alias must arrive, or later ones mean nothing.
        let defines_alias = alias.is_some_and(|alias| alias.is_new);
        let droppable = options.qos == Qos::AtMostOnce && !defines_alias;
        let (format, frame_bytes_max) = (link.format, link.frame_bytes_max);
        let is_written = state.outbox.append(1, droppable, |out| {
            let start = out.len();
            let encoded = format.encode(publication, &options, out);
            let fits = encoded.is_ok() && out.len() - start <= frame_bytes_max;
            if !fits {
                out.truncate(start);
            }
            fits
        });
        if is_written {
            Counters::add(&self.delivered, 1);
            let counts = u64::from(!publication.topic.is_internal());
            Counters::add(&around.counters.deliveries, counts);
        } else {
            state.outbox.uncount_message();
            if defines_alias
                && let Some(aliases) = state.link.as_mut().and_then(|link| link.aliases.as_mut())
            {
                aliases.forget(&publication.topic);
            }
            self.count_drop(around, DropCause::TooLarge, 1);
        }
        is_written
    }
}

/// Only publications that expire need to look at the clock.
pub(crate) fn expiry_left(publication: &Publication) -> Option<u32> {
    publication.properties.as_ref()?.expiry_seconds?;
    publication.expiry_seconds_left(std::time::SystemTime::now())
}
