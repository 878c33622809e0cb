//! Handling of each packet of a connected client; PUBLISH, SUBSCRIBE and AUTH have files of their
//! own.

use gatepost_broker::StrayAcknowledgement;
use gatepost_mqtt::{Ack, Frame, Packet, Reason, ReasonedPacket};

use super::acknowledgements::SessionAcknowledgement;
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;

impl MqttConnection {
    /// Handles every whole packet in `bytes`, and returns how many bytes they have.
    pub(super) fn process(&mut self, bytes: &[u8]) -> usize {
        let packet_max = self.context.settings.packet_max.as_usize();
        let mut used = 0;
        while self.ended_by.is_none() {
            if self.turn.is_over() {
                return used;
            }
            let frame = match Frame::split(&bytes[used..], packet_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return used,
                Err(error) => {
                    self.end_with(error.into());
                    break;
                }
            };
            used += frame.length;
            let handled = Packet::decode(self.version, frame)
                .map_err(ConnectionEnd::from)
                .and_then(|packet| self.handle(packet));
            if let Err(end) = handled {
                self.end_with(end);
            }
        }
        bytes.len()
    }

    fn handle(&mut self, packet: Packet<'_>) -> Result<(), ConnectionEnd> {
        match packet {
            Packet::Publish(publish) => self.publish(&publish),
            Packet::Puback(ack) => in_step(self.attachment.acknowledge(ack.packet_id)),
            Packet::Pubrec(ack) => self.received(ack),
            Packet::Pubrel(ack) => {
                self.released(ack);
                Ok(())
            }
            Packet::Pubcomp(ack) => in_step(self.attachment.finish(ack.packet_id)),
            Packet::Subscribe(subscribe) => self.subscribe(&subscribe),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(&unsubscribe),
            Packet::Pingreq => {
                self.answer(&Packet::Pingresp); // [MQTT-3.12.4-1]
                Ok(())
            }
            Packet::Disconnect(outcome) => Err(self.disconnected(outcome)),
            Packet::Connect(_) => Err(ConnectionEnd::Server(
                Reason::PROTOCOL_ERROR,
                "a second CONNECT [MQTT-3.1.0-2]",
            )),
            Packet::Auth(auth) => self.authenticate(&auth),
            Packet::Connack(_) | Packet::Suback(_) | Packet::Unsuback(_) | Packet::Pingresp => Err(
                ConnectionEnd::Server(Reason::PROTOCOL_ERROR, "a packet that only servers send"),
            ),
        }
    }

    /// PUBREC: the second of four steps, answered by the third \[MQTT-4.3.3-4\].
    fn received(&mut self, ack: Ack<'_>) -> Result<(), ConnectionEnd> {
        if ack.reason.is_error() {
            return in_step(self.attachment.refuse(ack.packet_id));
        }
        let released = self.attachment.release(ack.packet_id);
        let reason = match released {
            Ok(()) => Reason::SUCCESS,
            Err(_) => Reason::PACKET_IDENTIFIER_NOT_FOUND,
        };
        in_step(released)?;
        self.step(SessionAcknowledgement::Release(ack.packet_id, reason));
        Ok(())
    }

    /// PUBREL: the client's publication is released, its identifier free \[MQTT-4.3.3-11\].
    fn released(&mut self, ack: Ack<'_>) {
        let is_known = self.attachment.note_released(ack.packet_id);
        let is_inherited = self.inherited.remove(&ack.packet_id);
        let reason = if is_known {
            Reason::SUCCESS
        } else {
            Reason::PACKET_IDENTIFIER_NOT_FOUND
        };
        self.step(SessionAcknowledgement::Complete {
            packet_id: ack.packet_id,
            reason,
            counts: is_known && !is_inherited,
        });
    }

    /// Acknowledges a change of the session: immediately, or when it is durable and known to the
    /// other nodes.
    pub(super) fn step(&mut self, step: SessionAcknowledgement) {
        if self.attachment.is_persistent() {
            self.acknowledgements.push_step(step);
        } else if step.waits_for_other_nodes() {
            self.acknowledgements.push_volatile_step(step);
        } else {
            self.take_step(step);
        }
    }

    pub(super) fn take_step(&mut self, step: SessionAcknowledgement) {
        match step {
            SessionAcknowledgement::Release(packet_id, reason) => {
                self.answer(&Packet::Pubrel(Ack::new(packet_id, reason)));
            }
            SessionAcknowledgement::Complete {
                packet_id, reason, ..
            } => {
                self.answer(&Packet::Pubcomp(Ack::new(packet_id, reason)));
            }
            SessionAcknowledgement::Subscribed(subscribed) => self.subscribed(subscribed),
            SessionAcknowledgement::Unsubscribed(packet_id, reasons) => {
                self.unsubscribed(packet_id, reasons);
            }
        }
    }

    fn disconnected(&self, outcome: ReasonedPacket<'_>) -> ConnectionEnd {
        let expiry_seconds = outcome.session_expiry_seconds();
        let revives = self.expiry_seconds == 0 && expiry_seconds.is_some_and(|s| s > 0);
        if revives {
            return ConnectionEnd::Server(
                Reason::PROTOCOL_ERROR,
                "a session that began without an expiry cannot set one at its end [MQTT-3.1.2-11]",
            );
        }
        ConnectionEnd::Client {
            with_will: outcome.reason != Reason::SUCCESS,
            expiry_seconds,
        }
    }
}

/// An unknown identifier is a repetition, or a harmless mistake; a step in the wrong order means
/// that client and server no longer agree.
fn in_step(result: Result<(), StrayAcknowledgement>) -> Result<(), ConnectionEnd> {
    match result {
        Err(StrayAcknowledgement::OutOfStep) => Err(ConnectionEnd::Server(
            Reason::PROTOCOL_ERROR,
            "an acknowledgement in the wrong order [MQTT-4.3.3-4]",
        )),
        _ => Ok(()),
    }
}
