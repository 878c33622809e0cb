//! How a publication gets into a session, or why it does not.

use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Publication, Qos};

use std::sync::atomic::Ordering;

use super::{Batch, Ended, Pressure, Session, State, Surroundings};
use crate::counters::{Counters, DropCause};
use crate::encoder::FrameOptions;
use crate::keeping::Gathering;
use crate::newest::Latest;
use crate::settings::SlowSubscriber;
use crate::subscription::Target;
use crate::trace::StepOutcome;

/// What publishers that cannot be slowed (they have read ahead, or are of this process) may bring
/// beyond the outbox's bound before it is dropped.
const UNSLOWED_FACTOR: usize = 4;
/// Where only the newest is wanted, no more than this is made ready for the socket, so that what
/// waits can still be replaced.
const NEWEST_OUTBOX_BYTES: usize = 16 * 1024;

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
            self.after_write(state, sent, around);
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
        let messages_max = around.settings.outbox_messages_max;
        let has_room = |state: &State, factor: usize| {
            let bytes_fit = state.outbox.bytes() + bytes <= bytes_max.saturating_mul(factor);
            let messages_fit = state.outbox.messages() < messages_max.saturating_mul(factor);
            (bytes_fit && messages_fit) || state.outbox.is_empty()
        };
        if has_room(state, 1) {
            return true;
        }
        match state.policy {
            // Publishers stop after what they have read; this is for those who cannot stop.
            SlowSubscriber::SlowPublisher => {
                if has_room(state, UNSLOWED_FACTOR) {
                    return true;
                }
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropNewest | SlowSubscriber::NewestOnly => {
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
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
        let settings = around.settings;
        let outbox_is_full = state.outbox.bytes() > settings.outbox_max.as_usize()
            || state.outbox.messages() > settings.outbox_messages_max;
        let queue_is_filling = state.link.is_some()
            && state
                .acknowledged
                .as_ref()
                .is_some_and(|queue| queue.waiting.len() > settings.queue_messages_max / 2);
        let slows = state.policy == SlowSubscriber::SlowPublisher;
        if slows && (outbox_is_full || queue_is_filling) {
            state.congested_since.get_or_insert_with(Instant::now);
            self.congested.store(true, Ordering::Relaxed);
            state.dirty = true;
            return if outbox_is_full {
                Pressure::Congested
            } else {
                Pressure::Filling
            };
        }
        if state.blocked || state.dirty || state.outbox.is_empty() {
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
            let note = |outcome| {
                let trace = gathering.trace.as_ref()?;
                trace.at_session(self, publication, Qos::AtMostOnce, outcome)
            };
            if state.link.is_none() {
                note(StepOutcome::Away);
                return Pressure::None;
            }
            if self.put_newest(state, publication, target, retain, around) {
                note(StepOutcome::Waiting);
                return Pressure::None;
            }
            if !self.make_room(state, publication.payload.len(), 1, around) {
                let is_given_up = state.policy == SlowSubscriber::Disconnect;
                note(StepOutcome::Dropped(if is_given_up {
                    DropCause::Stalled
                } else {
                    DropCause::OutboxFull
                }));
                return Pressure::None;
            }
            let options = FrameOptions {
                retain,
                identifiers: &target.identifiers,
                expiry_seconds: expiry_left(publication),
                ..FrameOptions::default()
            };
            if !self.encode(state, publication, &options, around) {
                note(StepOutcome::Dropped(DropCause::TooLarge));
            } else if let Some(step) = note(StepOutcome::Sent) {
                let number = self.delivered.load(Ordering::Relaxed);
                let traced = state.traced.get_or_insert_default();
                traced.add(number, Some(step));
            }
        } else {
            let is_taken = self.enqueue(state, publication, target, retain, gathering, around);
            if is_taken && state.is_kept() {
                return match self.pressure(state, around) {
                    Pressure::None | Pressure::Dirty => Pressure::Held,
                    pressure => pressure,
                };
            }
            self.pump(state, around);
            if !is_taken {
                return Pressure::Refused;
            }
        }
        self.pressure(state, around)
    }

    /// Lets a QoS 0 delivery wait behind a full outbox in place of its topic's last one, if that
    /// is the policy; tells whether it waits there.
    fn put_newest(
        &self,
        state: &mut State,
        publication: &Arc<Publication>,
        target: &Target,
        retain: bool,
        around: Surroundings<'_>,
    ) -> bool {
        let has_room = !state.blocked && state.outbox.bytes() < NEWEST_OUTBOX_BYTES;
        let is_first = state.newest.as_ref().is_none_or(|newest| newest.is_empty());
        if state.policy != SlowSubscriber::NewestOnly || (has_room && is_first) {
            return false;
        }
        let latest = Latest {
            publication: publication.clone(),
            retain,
            identifiers: target.identifiers.clone(),
        };
        let topics_max = around.settings.queue_messages_max;
        let replaced = state.newest.get_or_insert_default().put(latest, topics_max);
        self.count_drop(around, DropCause::Superseded, replaced);
        true
    }

    /// Moves what waits behind the outbox into it, as far as it goes; tells whether anything was.
    pub(super) fn refill(&self, state: &mut State, around: Surroundings<'_>) -> bool {
        let mut has_moved = false;
        while !state.blocked
            && state.outbox.bytes() < NEWEST_OUTBOX_BYTES
            && let Some(newest) = &mut state.newest
        {
            let Some(latest) = newest.pop() else {
                state.newest = None;
                break;
            };
            let options = FrameOptions {
                retain: latest.retain,
                identifiers: &latest.identifiers,
                expiry_seconds: expiry_left(&latest.publication),
                ..FrameOptions::default()
            };
            has_moved |= self.encode(state, &latest.publication, &options, around);
        }
        has_moved
    }

    /// Appends a frame of this session's own; tells whether the client can take it.
    pub(super) fn encode(
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
        let bytes_before = state.outbox.bytes();
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
            let bytes = (state.outbox.bytes() - bytes_before) as u64;
            Counters::add(&around.counters.bytes_out, counts * bytes);
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
