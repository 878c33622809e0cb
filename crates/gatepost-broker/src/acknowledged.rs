//! The part of a session that QoS 1 and 2 need: what waits, what is in flight, which packet
//! identifiers are in use (MQTT 5 § 4.3, § 4.4).
//!
//! Invariants: a packet identifier belongs to one message from its PUBLISH to its PUBACK or
//! PUBCOMP \[MQTT-2.2.1-4\]; messages go out in the order in which they came
//! \[MQTT-4.6.0-5\]; at most the receiver's quota is in flight \[MQTT-3.3.4-9\].

use std::collections::{HashSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;

use gatepost_message::{Publication, Qos};
use smallvec::SmallVec;

/// A QoS 1 or 2 delivery.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) publication: Arc<Publication>,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
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
    last_packet_id: u16,
    /// Identifiers of QoS 2 publications that this client sent and has not released.
    pub(crate) received: HashSet<NonZeroU16>,
}

impl Acknowledged {
    pub(crate) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.waiting_bytes += delivery.publication.payload.len();
        self.waiting.push_back(delivery);
    }

    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.waiting_bytes -= delivery.publication.payload.len();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(delivery)
    }

    /// Puts a delivery in flight under the next free identifier.
    pub(crate) fn send(&mut self, delivery: Delivery) -> NonZeroU16 {
        let packet_id = self.free_packet_id();
        self.in_flight.push_back(InFlight {
            packet_id,
            delivery,
            phase: Phase::Sent,
        });
        packet_id
    }

    fn free_packet_id(&mut self) -> NonZeroU16 {
        loop {
            self.last_packet_id = self.last_packet_id.checked_add(1).unwrap_or(1);
            let candidate = NonZeroU16::new(self.last_packet_id).unwrap_or(NonZeroU16::MIN);
            // Identifiers rise, so the oldest in flight is the first that could collide; only
            // when it does not is a walk spared. The window is far below 65,535.
            let oldest = self.in_flight.front().map(|oldest| oldest.packet_id);
            let has_wrapped = oldest.is_some_and(|oldest| oldest >= candidate);
            if !has_wrapped || self.position(candidate).is_none() {
                return candidate;
            }
        }
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
                self.in_flight[at].phase = Phase::Released;
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
        self.in_flight.remove(at);
        if self.in_flight.is_empty() {
            self.in_flight = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;

    fn delivery(qos: Qos) -> Delivery {
        let topic = Topic::new("a").expect("a topic");
        Delivery {
            publication: Arc::new(Publication::new(topic, "x")),
            qos,
            retain: false,
            identifiers: SmallVec::new(),
        }
    }

    #[test]
    fn mqtt_2_2_1_4_identifiers_in_use_are_not_given_again() {
        let mut state = Acknowledged::default();
        let kept = state.send(delivery(Qos::AtLeastOnce));
        for _ in 0..70_000 {
            let packet_id = state.send(delivery(Qos::AtLeastOnce));
            assert_ne!(packet_id, kept);
            state.acknowledge(packet_id).expect("in flight");
        }
        assert_eq!(state.acknowledge(kept), Ok(()));
        assert_eq!(state.acknowledge(kept), Err(StrayAcknowledgement::Unknown));
    }

    #[test]
    fn exactly_once_takes_its_four_steps() {
        let mut state = Acknowledged::default();
        let packet_id = state.send(delivery(Qos::ExactlyOnce));
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
}
