//! Acknowledgements of the client, step by step (MQTT 5 section 4.3).

use std::collections::VecDeque;
use std::num::NonZeroU16;

use gatepost_message::Qos;
use gatepost_store::SessionChange;

use super::{AcknowledgedDeliveries, DeliveryPhase};
use crate::trace::StepOutcome;

/// The reason why an acknowledgement has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StrayAcknowledgement {
    /// No delivery has this identifier; the acknowledgement may be a repetition.
    #[error("no delivery has this packet identifier")]
    Unknown,
    /// The delivery awaits another step: the client violates the protocol.
    #[error("the delivery awaits another acknowledgement")]
    OutOfStep,
}

impl AcknowledgedDeliveries {
    /// Acknowledgements nearly always arrive in order, so the search ends immediately.
    pub(super) fn position(&self, packet_id: NonZeroU16) -> Option<usize> {
        self.in_flight
            .iter()
            .position(|flight| flight.packet_id == packet_id)
    }

    fn expect(
        &self,
        packet_id: NonZeroU16,
        qos: Qos,
        phase: DeliveryPhase,
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
        let at = self.expect(packet_id, Qos::AtLeastOnce, DeliveryPhase::Sent)?;
        self.complete(at);
        Ok(())
    }

    /// PUBREC: the QoS 2 delivery arrived and must be released.
    pub(crate) fn release(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        match self.expect(packet_id, Qos::ExactlyOnce, DeliveryPhase::Sent) {
            Ok(at) => {
                let flight = &mut self.in_flight[at];
                flight.phase = DeliveryPhase::Released;
                let sequence = flight.delivery.sequence;
                if let Some(persistent) = &mut self.persistent {
                    let session = persistent.number;
                    persistent.push(SessionChange::Release { session, sequence });
                }
                Ok(())
            }
            // PUBREC is repeated by a client that did not receive PUBREL.
            Err(_) => self
                .expect(packet_id, Qos::ExactlyOnce, DeliveryPhase::Released)
                .map(|_| ()),
        }
    }

    /// PUBREC with a failure: the QoS 2 delivery ends \[MQTT-4.3.3\].
    pub(crate) fn refuse(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        let at = self.expect(packet_id, Qos::ExactlyOnce, DeliveryPhase::Sent)?;
        self.complete(at);
        Ok(())
    }

    /// PUBCOMP: the QoS 2 delivery is complete.
    pub(crate) fn finish(&mut self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        let at = self.expect(packet_id, Qos::ExactlyOnce, DeliveryPhase::Released)?;
        self.complete(at);
        Ok(())
    }

    pub(super) fn complete(&mut self, at: usize) {
        if let Some(flight) = self.in_flight.remove(at) {
            self.in_flight_bytes -= flight.delivery.bytes();
            let sequence = flight.delivery.sequence;
            self.awaited.settle(sequence, StepOutcome::Acknowledged);
            self.forget(&flight.delivery);
        }
        if self.in_flight.is_empty() {
            self.in_flight = VecDeque::new();
        }
    }
}
