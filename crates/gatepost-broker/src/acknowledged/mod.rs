//! The part of a session for QoS 1 and 2: waiting deliveries, deliveries in flight, and packet
//! identifiers in use (MQTT 5 section 4.3, section 4.4).
//!
//! Each delivery has a sequence within its session, and its packet identifier follows from that. So
//! a stored session need not contain packet identifiers: after a restart the same delivery is sent
//! under the same identifier, and the client recognises it.
//!
//! Invariants: a packet identifier belongs to one message from its PUBLISH to its PUBACK or PUBCOMP
//! \[MQTT-2.2.1-4\]; messages are sent in the order of their arrival \[MQTT-4.6.0-5\]; at most the
//! receiver's quota is in flight \[MQTT-3.3.4-9\]. `in_flight` and `waiting` are each sorted by
//! sequence.

mod delivery;
mod received;
mod steps;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU16;

use gatepost_message::Topic;
use gatepost_store::{SessionChange, Ticket};

use crate::counters::DropCause;
use crate::persistence::{AwaitedCommit, PersistentSession};
use crate::trace::{AcknowledgementSteps, StepOutcome};
use delivery::PACKET_IDS;
pub(crate) use delivery::{Delivery, DeliveryPhase, InFlightDelivery, identifier_of};
pub use received::Receipt;
use received::ReceivedIds;
pub use steps::StrayAcknowledgement;

/// The number of topics without waiting messages that may be remembered before such topics are
/// removed.
const NEWEST_SLACK: usize = 1024;

/// The queue and the window of one session.
#[derive(Default)]
pub(crate) struct AcknowledgedDeliveries {
    pub(crate) in_flight: VecDeque<InFlightDelivery>,
    pub(crate) waiting: VecDeque<Delivery>,
    waiting_bytes: usize,
    in_flight_bytes: usize,
    last_sequence: u64,
    /// For deliveries up to this sequence, the rights of the client must be checked again.
    recheck_until: u64,
    /// The highest sequence that was ever sent.
    last_sent: u64,
    /// Identifiers of QoS 2 publications that this client sent and has not released.
    pub(crate) received: ReceivedIds,
    /// The sequence of each topic's last delivery, if only the newest is wanted.
    newest: HashMap<Topic, u64>,
    /// Present if the session outlives its connection and the broker has a store.
    pub(crate) persistent: Option<Box<PersistentSession>>,
    /// Traced deliveries that are not yet acknowledged.
    pub(crate) awaited: AcknowledgementSteps,
    /// The commit that the next delivery waits for; polled by the connection's own task.
    pub(crate) awaited_commit: Option<AwaitedCommit>,
}

impl AcknowledgedDeliveries {
    pub(crate) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(crate) const fn last_sent(&self) -> u64 {
        self.last_sent
    }

    /// The sequence of the next delivery: the next whose identifier is not in flight, so that one
    /// message that is never acknowledged does not block later ones.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        loop {
            self.last_sequence += 1;
            let oldest = self
                .in_flight
                .front()
                .map(|flight| flight.delivery.sequence);
            let collides = |oldest: u64| (self.last_sequence - oldest).is_multiple_of(PACKET_IDS);
            if !oldest.is_some_and(collides) {
                return self.last_sequence;
            }
        }
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.waiting_bytes += delivery.bytes();
        self.waiting.push_back(delivery);
    }

    /// Restores a delivery that an earlier run of the server stored; deliveries up to `sent` may
    /// have been sent.
    pub(crate) fn take_back(&mut self, mut delivery: Delivery, released: bool, sent: u64) {
        self.last_sequence = self.last_sequence.max(delivery.sequence);
        if released {
            self.last_sent = self.last_sent.max(delivery.sequence);
            self.put_in_flight(delivery, DeliveryPhase::Released);
            return;
        }
        delivery.dup = delivery.sequence <= sent;
        if delivery.dup {
            self.last_sent = self.last_sent.max(delivery.sequence);
        }
        self.push(delivery);
    }

    /// Records that rights may have changed: the rights for waiting deliveries must be checked
    /// again.
    pub(crate) const fn recheck(&mut self) {
        self.recheck_until = self.last_sequence;
    }

    /// Whether the right to receive this delivery must be checked again. A delivery that may have
    /// been sent before is always completed \[MQTT-4.3.3-7\].
    pub(crate) const fn must_recheck(&self, delivery: &Delivery) -> bool {
        !delivery.dup && delivery.sequence <= self.recheck_until
    }

    /// Whether the next delivery may be sent although others are unacknowledged: `count_max` at
    /// most \[MQTT-3.3.4-9\], of `bytes_max` bytes together, or a larger one alone.
    pub(crate) fn has_quota(&self, count_max: usize, bytes_max: usize) -> bool {
        self.waiting.front().is_some_and(|next| {
            let fits = self.in_flight_bytes + next.bytes() <= bytes_max;
            self.in_flight.len() < count_max && (fits || self.in_flight.is_empty())
        })
    }

    /// Whether there is no room for one more delivery like the last one.
    pub(crate) fn is_full(&self, messages_max: usize, bytes_max: usize) -> bool {
        let last = self.waiting.back().map_or(0, Delivery::bytes);
        self.waiting.len() >= messages_max || self.waiting_bytes + last > bytes_max
    }

    /// The next delivery, which stays in the queue.
    pub(crate) fn front(&self) -> Option<&Delivery> {
        self.waiting.front()
    }

    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.waiting_bytes -= delivery.bytes();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(delivery)
    }

    /// Drops the next delivery; returns whether there was one.
    pub(crate) fn drop_front(&mut self, cause: DropCause) -> bool {
        let dropped = self.pop();
        if let Some(delivery) = &dropped {
            let outcome = StepOutcome::Dropped(cause);
            self.awaited.settle(delivery.sequence, outcome);
            self.forget(delivery);
        }
        dropped.is_some()
    }

    /// Drops the waiting delivery of this topic, if only the newest of each topic is wanted;
    /// returns whether there was one. Every delivery of such a session passes here before it is
    /// pushed.
    pub(crate) fn supersede(&mut self, topic: &Topic) -> bool {
        let next = self.last_sequence + 1;
        let newest = &mut self.newest;
        if newest.len() > self.waiting.len() * 2 + NEWEST_SLACK {
            let oldest = self.waiting.front().map_or(next, |front| front.sequence);
            newest.retain(|_, sequence| *sequence >= oldest);
        }
        // If this sequence was skipped, the delivery is the first after it.
        let Some(sequence) = newest.insert(topic.clone(), next) else {
            return false;
        };
        let at = self
            .waiting
            .partition_point(|delivery| delivery.sequence < sequence);
        let is_it = |delivery: &Delivery| delivery.publication.topic == *topic && !delivery.dup;
        if !self.waiting.get(at).is_some_and(is_it) {
            return false; // Sent already.
        }
        if let Some(delivery) = self.waiting.remove(at) {
            self.waiting_bytes -= delivery.bytes();
            let outcome = StepOutcome::Dropped(DropCause::Superseded);
            self.awaited.settle(delivery.sequence, outcome);
            self.forget(&delivery);
        }
        true
    }

    /// Removes the stored rows of a completed delivery.
    fn forget(&mut self, delivery: &Delivery) {
        if let (Some(persistent), Some(stored)) = (&mut self.persistent, &delivery.stored) {
            let (session, sequence) = (persistent.number, delivery.sequence);
            persistent.push(SessionChange::Dequeue { session, sequence });
            stored.release_reference(&mut persistent.changes);
        }
    }

    /// Makes the connection's task wait for this commit.
    pub(crate) fn await_commit(&mut self, ticket: Ticket) {
        if self.awaited_commit.is_none() {
            self.awaited_commit = Some(Box::pin(async move { ticket.committed().await }));
        }
    }

    /// Whether the next delivery's identifier is still in use.
    pub(crate) fn must_wait_for_identifier(&self) -> bool {
        let (Some(next), Some(oldest)) = (self.waiting.front(), self.in_flight.front()) else {
            return false;
        };
        next.sequence >= oldest.delivery.sequence + PACKET_IDS
            && self.position(next.packet_id()).is_some()
    }

    /// Puts the next delivery in flight.
    pub(crate) fn send(&mut self) -> Option<Delivery> {
        let delivery = self.pop()?;
        self.last_sent = self.last_sent.max(delivery.sequence);
        self.put_in_flight(delivery.clone(), DeliveryPhase::Sent);
        Some(delivery)
    }

    fn put_in_flight(&mut self, delivery: Delivery, phase: DeliveryPhase) {
        let sequence = delivery.sequence;
        self.in_flight_bytes += delivery.bytes();
        let flight = InFlightDelivery {
            packet_id: delivery.packet_id(),
            delivery,
            phase,
        };
        // This is nearly always the last one.
        let newest_first = self.in_flight.iter().rev();
        let later = newest_first
            .take_while(|other| other.delivery.sequence > sequence)
            .count();
        self.in_flight.insert(self.in_flight.len() - later, flight);
    }

    /// Drops a delivery that was just put in flight.
    pub(crate) fn abandon(&mut self, packet_id: NonZeroU16) {
        if let Some(at) = self.position(packet_id) {
            let sequence = self.in_flight[at].delivery.sequence;
            let outcome = StepOutcome::Dropped(DropCause::TooLarge);
            self.awaited.settle(sequence, outcome);
            self.complete(at);
        }
    }

    /// Begins a new connection: unacknowledged deliveries wait again, in their places, and are sent
    /// within the new connection's quota.
    pub(crate) fn send_again(&mut self) {
        let (again, released): (Vec<_>, Vec<_>) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|flight| flight.phase == DeliveryPhase::Sent);
        self.in_flight = released.into();
        for mut flight in again.into_iter().rev() {
            flight.delivery.dup = true;
            let bytes = flight.delivery.bytes();
            self.in_flight_bytes -= bytes;
            self.waiting_bytes += bytes;
            self.waiting.push_front(flight.delivery);
        }
    }

    /// Discards everything at the end of the session.
    pub(crate) fn end(&mut self) -> Option<Box<PersistentSession>> {
        let mut persistent = self.persistent.take()?;
        persistent.push(SessionChange::End {
            session: persistent.number,
        });
        let in_flight = self.in_flight.drain(..).map(|flight| flight.delivery);
        for delivery in in_flight.chain(self.waiting.drain(..)) {
            if let Some(stored) = delivery.stored {
                stored.release_reference(&mut persistent.changes);
            }
        }
        (self.waiting_bytes, self.in_flight_bytes) = (0, 0);
        Some(persistent)
    }
}

#[cfg(test)]
mod tests;
