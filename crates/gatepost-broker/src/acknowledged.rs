//! The part of a session that QoS 1 and 2 need: what waits, what is in flight, which packet
//! identifiers are in use (MQTT 5 § 4.3, § 4.4).
//!
//! Each delivery has a sequence within its session, and its packet identifier follows from that.
//! So a stored session need not write which identifier it used: after a restart the same delivery
//! goes out under the same one, and the client recognises what it has.
//!
//! Invariants: a packet identifier belongs to one message from its PUBLISH to its PUBACK or
//! PUBCOMP \[MQTT-2.2.1-4\]; messages go out in the order in which they came
//! \[MQTT-4.6.0-5\]; at most the receiver's quota is in flight \[MQTT-3.3.4-9\]. `in_flight` and
//! `waiting` are each sorted by sequence.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;

use gatepost_message::{Publication, Qos, Topic};
use gatepost_store::SessionChange;
use smallvec::SmallVec;

use crate::keeping::{Kept, Standing, Stored};

/// Sequences after which packet identifiers come round.
const PACKET_IDS: u64 = u16::MAX as u64;
/// Topics that may be remembered beyond what waits, before they are looked through.
const NEWEST_SLACK: usize = 1024;

/// A QoS 1 or 2 delivery.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) publication: Arc<Publication>,
    /// Where the publication is stored, for a session that outlives its connection.
    pub(crate) stored: Option<Arc<Stored>>,
    /// Its place in the session's order; given by [`Acknowledged::push`].
    pub(crate) sequence: u64,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// Whether it may have been sent before.
    pub(crate) dup: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
}

impl Delivery {
    pub(crate) fn packet_id(&self) -> NonZeroU16 {
        let number = self.sequence.wrapping_sub(1) % PACKET_IDS + 1;
        u16::try_from(number)
            .ok()
            .and_then(NonZeroU16::new)
            .unwrap_or(NonZeroU16::MIN)
    }

    pub(crate) fn standing(&self) -> Standing {
        match &self.stored {
            None => Standing::Committed,
            Some(stored) => stored.standing(),
        }
    }
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Sent; PUBACK or PUBREC is awaited.
    Sent,
    /// Released; PUBCOMP is awaited.
    Released,
}

/// A delivery that was sent and is not yet complete.
pub(crate) struct InFlight {
    pub(crate) packet_id: NonZeroU16,
    pub(crate) delivery: Delivery,
    pub(crate) phase: Phase,
}

/// Why an acknowledgement means nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StrayAcknowledgement {
    /// No delivery has this identifier; a repetition, perhaps.
    #[error("no delivery has this packet identifier")]
    Unknown,
    /// The delivery awaits another step: the client does not keep to the protocol.
    #[error("the delivery awaits another acknowledgement")]
    OutOfStep,
}

/// Queue and window of one session.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) waiting: VecDeque<Delivery>,
    waiting_bytes: usize,
    last_sequence: u64,
    /// The highest sequence that was ever sent.
    last_sent: u64,
    /// Identifiers of QoS 2 publications that this client sent and has not released.
    pub(crate) received: HashSet<NonZeroU16>,
    /// The sequence of each topic's last delivery, where only the newest is wanted.
    newest: HashMap<Topic, u64>,
    /// Present where the session outlives its connection, and a store is there to outlive it in.
    pub(crate) kept: Option<Box<Kept>>,
}

impl Acknowledged {
    pub(crate) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(crate) const fn last_sent(&self) -> u64 {
        self.last_sent
    }

    /// The sequence of the next delivery: the next whose identifier is not in flight, so that one
    /// message that is never acknowledged does not stop those behind it.
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
        self.waiting_bytes += delivery.publication.payload.len();
        self.waiting.push_back(delivery);
    }

    /// Takes back what an earlier run of the server stored, and may have sent up to `sent`.
    pub(crate) fn take_back(&mut self, mut delivery: Delivery, released: bool, sent: u64) {
        self.last_sequence = self.last_sequence.max(delivery.sequence);
        if released {
            self.last_sent = self.last_sent.max(delivery.sequence);
            self.put_in_flight(delivery, Phase::Released);
            return;
        }
        delivery.dup = delivery.sequence <= sent;
        if delivery.dup {
            self.last_sent = self.last_sent.max(delivery.sequence);
        }
        self.push(delivery);
    }

    /// The next delivery in turn; it stays where it is.
    pub(crate) fn front(&self) -> Option<&Delivery> {
        self.waiting.front()
    }

    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.waiting_bytes -= delivery.publication.payload.len();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(delivery)
    }

    /// Gives up the next delivery in turn; tells whether there was one.
    pub(crate) fn drop_front(&mut self) -> bool {
        let dropped = self.pop();
        if let Some(delivery) = &dropped {
            self.forget(delivery);
        }
        dropped.is_some()
    }

    /// Gives up the waiting delivery of this topic, where only the newest of each is wanted; tells
    /// whether there was one. Every delivery of such a session passes here before it is pushed.
    pub(crate) fn supersede(&mut self, topic: &Topic) -> bool {
        let next = self.last_sequence + 1;
        let newest = &mut self.newest;
        if newest.len() > self.waiting.len() * 2 + NEWEST_SLACK {
            let oldest = self.waiting.front().map_or(next, |front| front.sequence);
            newest.retain(|_, sequence| *sequence >= oldest);
        }
        // Should this sequence be skipped, the delivery is the first behind it.
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
            self.waiting_bytes -= delivery.publication.payload.len();
            self.forget(&delivery);
        }
        true
    }

    /// Removes what is stored of a delivery that is over.
    fn forget(&mut self, delivery: &Delivery) {
        if let (Some(kept), Some(stored)) = (&mut self.kept, &delivery.stored) {
            let (session, sequence) = (kept.number, delivery.sequence);
            kept.push(SessionChange::Dequeue { session, sequence });
            stored.let_go(&mut kept.changes);
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

    /// Puts the next delivery in turn in flight.
    pub(crate) fn send(&mut self) -> Option<Delivery> {
        let delivery = self.pop()?;
        self.last_sent = self.last_sent.max(delivery.sequence);
        self.put_in_flight(delivery.clone(), Phase::Sent);
        Some(delivery)
    }

    fn put_in_flight(&mut self, delivery: Delivery, phase: Phase) {
        let sequence = delivery.sequence;
        let flight = InFlight {
            packet_id: delivery.packet_id(),
            delivery,
            phase,
        };
        // Nearly always the last.
        let behind = self.in_flight.iter().rev();
        let later = behind
            .take_while(|other| other.delivery.sequence > sequence)
            .count();
        self.in_flight.insert(self.in_flight.len() - later, flight);
    }

    /// Gives up a delivery that was just put in flight.
    pub(crate) fn abandon(&mut self, packet_id: NonZeroU16) {
        if let Some(at) = self.position(packet_id) {
            self.complete(at);
        }
    }

    /// A new connection begins: what was sent and not acknowledged waits again, in its place, to
    /// be sent as far as the new connection's quota goes.
    pub(crate) fn send_again(&mut self) {
        let (again, released): (Vec<_>, Vec<_>) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|flight| flight.phase == Phase::Sent);
        self.in_flight = released.into();
        for mut flight in again.into_iter().rev() {
            flight.delivery.dup = true;
            self.waiting_bytes += flight.delivery.publication.payload.len();
            self.waiting.push_front(flight.delivery);
        }
    }

    /// Forgets everything: the session is over.
    pub(crate) fn end(&mut self) -> Option<Box<Kept>> {
        let mut kept = self.kept.take()?;
        kept.push(SessionChange::End {
            session: kept.number,
        });
        let in_flight = self.in_flight.drain(..).map(|flight| flight.delivery);
        for delivery in in_flight.chain(self.waiting.drain(..)) {
            if let Some(stored) = delivery.stored {
                stored.let_go(&mut kept.changes);
            }
        }
        self.waiting_bytes = 0;
        Some(kept)
    }

    /// Acknowledgements come nearly always in order, so the search ends at once.
    fn position(&self, packet_id: NonZeroU16) -> Option<usize> {
        self.in_flight
            .iter()
            .position(|flight| flight.packet_id == packet_id)
    }

    fn expect(
        &self,
        packet_id: NonZeroU16,
        qos: Qos,
        phase: Phase,
    ) -> Result<usize, StrayAcknowledgement> {
        let at = self
            .position(packet_id)
            .ok_or(StrayAcknowledgement::Unknown)?;
        let flight = &self.in_flight[at];
        if flight.delivery.qos == qos && flight.phase == phase {
            Ok(at)
        } else {
            Err(StrayAcknowledgement::OutOfStep)
        }
    }

    /// PUBACK: the QoS 1 delivery is complete.
    pub(crate) fn acknowledge(
        &mut self,
        packet_id: NonZeroU16,
    ) -> Result<(), StrayAcknowledgement> {
        let at = self.expect(packet_id, Qos::AtLeastOnce, Phase::Sent)?;
        self.complete(at);
        Ok(())
    }

    /// PUBREC: the QoS 2 delivery arrived and is to be released.
    pub(crate) fn release(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        match self.expect(packet_id, Qos::ExactlyOnce, Phase::Sent) {
            Ok(at) => {
                let flight = &mut self.in_flight[at];
                flight.phase = Phase::Released;
                let sequence = flight.delivery.sequence;
                if let Some(kept) = &mut self.kept {
                    let session = kept.number;
                    kept.push(SessionChange::Release { session, sequence });
                }
                Ok(())
            }
            // Sent again by a client that did not see our PUBREL.
            Err(_) => self
                .expect(packet_id, Qos::ExactlyOnce, Phase::Released)
                .map(|_| ()),
        }
    }

    /// PUBREC with a failure: the QoS 2 delivery is over \[MQTT-4.3.3\].
    pub(crate) fn refuse(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        let at = self.expect(packet_id, Qos::ExactlyOnce, Phase::Sent)?;
        self.complete(at);
        Ok(())
    }

    /// PUBCOMP: the QoS 2 delivery is complete.
    pub(crate) fn finish(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        let at = self.expect(packet_id, Qos::ExactlyOnce, Phase::Released)?;
        self.complete(at);
        Ok(())
    }

    fn complete(&mut self, at: usize) {
        if let Some(flight) = self.in_flight.remove(at) {
            self.forget(&flight.delivery);
        }
        if self.in_flight.is_empty() {
            self.in_flight = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(state: &mut Acknowledged, qos: Qos) -> NonZeroU16 {
        let topic = Topic::new("a").expect("a topic");
        let delivery = Delivery {
            publication: Arc::new(Publication::new(topic, "x")),
            stored: None,
            sequence: state.next_sequence(),
            qos,
            retain: false,
            dup: false,
            identifiers: SmallVec::new(),
        };
        state.push(delivery);
        assert!(!state.must_wait_for_identifier());
        state.send().expect("it waits").packet_id()
    }

    #[test]
    fn mqtt_2_2_1_4_identifiers_in_use_are_not_given_again() {
        let mut state = Acknowledged::default();
        let kept = send(&mut state, Qos::AtLeastOnce);
        for _ in 0..140_000 {
            let packet_id = send(&mut state, Qos::AtLeastOnce);
            assert_ne!(packet_id, kept);
            state.acknowledge(packet_id).expect("in flight");
        }
        assert_eq!(state.acknowledge(kept), Ok(()));
        assert_eq!(state.acknowledge(kept), Err(StrayAcknowledgement::Unknown));
    }

    #[test]
    fn exactly_once_takes_its_four_steps() {
        let mut state = Acknowledged::default();
        let packet_id = send(&mut state, Qos::ExactlyOnce);
        assert_eq!(
            state.acknowledge(packet_id),
            Err(StrayAcknowledgement::OutOfStep),
            "no PUBACK at QoS 2"
        );
        assert_eq!(
            state.finish(packet_id),
            Err(StrayAcknowledgement::OutOfStep),
            "not released yet"
        );
        assert_eq!(state.release(packet_id), Ok(()));
        assert_eq!(state.release(packet_id), Ok(()), "a repeated PUBREC");
        assert_eq!(state.finish(packet_id), Ok(()));
        assert!(state.in_flight.is_empty());
    }

    #[test]
    fn what_was_not_acknowledged_waits_again_in_its_place() {
        let mut state = Acknowledged::default();
        let ids: Vec<_> = [Qos::AtLeastOnce, Qos::ExactlyOnce, Qos::AtLeastOnce]
            .map(|qos| send(&mut state, qos))
            .into();
        state.release(ids[1]).expect("in flight");
        state.send_again();
        assert_eq!(
            state.in_flight.len(),
            1,
            "what is released is not sent again"
        );
        let again: Vec<_> = std::iter::from_fn(|| state.send()).collect();
        let sent: Vec<_> = again
            .iter()
            .map(|delivery| (delivery.packet_id(), delivery.dup))
            .collect();
        assert_eq!(sent, [(ids[0], true), (ids[2], true)]);
        let order: Vec<_> = state
            .in_flight
            .iter()
            .map(|flight| flight.packet_id)
            .collect();
        assert_eq!(order, ids, "sorted by sequence");
    }
}
