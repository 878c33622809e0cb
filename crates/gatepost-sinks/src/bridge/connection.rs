//! One connection of a bridge: packets from our session to the other broker, and back.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Buf;
use gatepost_broker::DisconnectCause;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Filter, Frame, Packet, PacketId, PacketProperties, PacketType, PropertiesBuffer, Property,
    Publish, Reason, Subscribe, SubscriptionOptions,
};
use tokio::time::Instant;

use super::MARKER;
use super::error::BridgeError;
use super::gathering::{MessageGathering, PAUSE, PAUSE_BYTES_MAX};
use super::inbound::InboundMessages;
use super::mqtt_client::{MqttClient, MqttClientProgress, RECEIVE_MAX, packet_bytes_max};
use super::work::{ConnectionEnding, RunningBridge, stopped};
use crate::attempt::explained;
use crate::frame::{SinkDelivery, SinkFrame};
use crate::given_up::give_up;
use crate::session::SinkSession;
use crate::status::SinkState;

/// Bytes that may wait for the other broker's socket; above this, nothing is read from the session.
const OUT_BYTES_MAX: usize = 256 * 1024;

/// The state of one connection.
pub(super) struct BridgeConnection<'a> {
    pub(super) running: &'a RunningBridge,
    pub(super) client: MqttClient,
    pub(super) session: SinkSession,
    pub(super) inbound: InboundMessages,
    /// The deliveries that were sent and are not acknowledged.
    pub(super) in_flight: HashMap<PacketId, Box<SinkDelivery>>,
    /// The number of these that both brokers permit.
    pub(super) in_flight_max: u16,
    pub(super) sent: Instant,
    pub(super) heard: Instant,
    pub(super) gathering: MessageGathering,
}

impl BridgeConnection<'_> {
    /// Subscribes at the other broker, and publishes there that the bridge is connected.
    pub(super) fn begin(&mut self) -> Result<(), BridgeError> {
        let bridge = &self.running.bridge;
        let filters = bridge.maps.0.iter().filter_map(|map| {
            let options = SubscriptionOptions {
                no_local: true,
                retain_as_published: true,
                retain_handling: 1, // retained messages only if the subscription is new
                ..SubscriptionOptions::at(map.qos)
            };
            let text = map.remote_filter()?.as_str();
            Some(Filter { text, options })
        });
        let subscribe = Subscribe {
            packet_id: self.session.unused_packet_id(),
            properties: PacketProperties::EMPTY,
            filters: filters.collect(),
        };
        if !subscribe.filters.is_empty() {
            self.client.put(&Packet::Subscribe(subscribe))?;
        }
        if let Some(topic) = &bridge.notification_topic {
            self.client.announce(topic, true)?;
        }
        Ok(())
    }

    pub(super) async fn serve(&mut self) -> ConnectionEnding {
        match self.pass_on().await {
            Ok(ending) => ending,
            Err(error) => ConnectionEnding::Again(error.to_string()),
        }
    }

    async fn pass_on(&mut self) -> Result<ConnectionEnding, BridgeError> {
        let mut stop = self.running.stop.clone();
        // Packets that arrived together with the CONNACK.
        self.receive_packets().await?;
        loop {
            if self.gathers() {
                tokio::select! {
                    () = stopped(&mut stop) => return Ok(ConnectionEnding::Stop),
                    () = self.session.filled(PAUSE_BYTES_MAX) => {}
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
            let may_read = self.inbound.unacknowledged() < usize::from(RECEIVE_MAX);
            let may_send = self.client.out.len() < OUT_BYTES_MAX;
            let duty = self.next_duty();
            tokio::select! {
                () = stopped(&mut stop) => return Ok(ConnectionEnding::Stop),
                exchanged = self.client.exchange(may_read) => {
                    if exchanged? == MqttClientProgress::Read {
                        self.heard = Instant::now();
                        self.receive_packets().await?;
                    } else {
                        self.sent = Instant::now();
                    }
                }
                packets = self.inbound.committed() => {
                    self.client.out.extend_from_slice(&packets?);
                }
                handed = self.session.next(), if may_send => match handed {
                    Ok(handed) => self.send_all(handed).await?,
                    Err(DisconnectCause::ShuttingDown) => return Ok(ConnectionEnding::Stop),
                    Err(cause) => return Ok(ConnectionEnding::Again(explained(cause).to_owned())),
                },
                () = tokio::time::sleep_until(duty) => self.stay_alive()?,
            }
        }
    }

    /// Whether to pause now. Not while bytes wait to be sent, nor where the pause could end with
    /// every permitted delivery unacknowledged.
    fn gathers(&mut self) -> bool {
        self.client.out.is_empty()
            && self.in_flight.len() < usize::from(self.in_flight_max / 2)
            && self.gathering.is_due(Instant::now)
    }

    /// The instant at which a PINGREQ is due, or the connection counts as lost.
    fn next_duty(&self) -> Instant {
        let keep_alive = self.keep_alive();
        (self.sent + keep_alive).min(self.heard + keep_alive * 2)
    }

    fn keep_alive(&self) -> Duration {
        match self.client.properties.keep_alive {
            Duration::ZERO => self.running.bridge.keep_alive,
            keep_alive => keep_alive,
        }
    }

    fn stay_alive(&mut self) -> Result<(), BridgeError> {
        if self.heard.elapsed() >= self.keep_alive() * 2 {
            return Err(BridgeError::Silent);
        }
        self.sent = Instant::now();
        self.client.put(&Packet::Pingreq)
    }

    /// Sends the messages that are ready in the session, up to a bound.
    async fn send_all(&mut self, first: SinkFrame) -> Result<(), BridgeError> {
        let mut next = Some(first);
        while let Some(handed) = next {
            match handed {
                SinkFrame::Delivery(delivery) => {
                    self.gathering.count_message();
                    self.send(delivery).await?;
                }
                SinkFrame::Release(packet_id) => {
                    self.client.put(&Packet::Pubrel(Ack::success(packet_id)))?;
                }
            }
            let has_room = self.client.out.len() < OUT_BYTES_MAX;
            next = has_room.then(|| self.session.next_ready()).flatten();
        }
        Ok(())
    }

    async fn send(&mut self, delivery: Box<SinkDelivery>) -> Result<(), BridgeError> {
        let bridge = &self.running.bridge;
        let marks = || {
            delivery
                .properties
                .user
                .iter()
                .filter(|(name, _)| name == MARKER)
        };
        let has_passed = marks().any(|(_, value)| *value == bridge.client_id);
        let topic = bridge.maps.outward(&delivery.topic).filter(|_| !has_passed);
        let Some(topic) = topic else {
            // The message came over this bridge, or was queued under a topic line that has been
            // removed.
            self.session.complete(&delivery);
            return Ok(());
        };
        let mut properties = PropertiesBuffer::new();
        if self.client.version.has_properties() {
            if let Some(seconds) = delivery.properties.expiry_seconds {
                properties.push(&Property::MessageExpiryInterval(seconds))?;
            }
            properties.push_carried(&delivery.properties)?;
            properties.push(&Property::UserProperty((MARKER, &bridge.client_id)))?;
        }
        let broker = self.client.properties;
        let qos = delivery.qos.min(broker.qos_max);
        let is_answered = qos != Qos::AtMostOnce;
        let before = self.client.out.len();
        let publish = Publish {
            dup: delivery.dup && is_answered,
            qos,
            retain: delivery.retain && broker.takes_retained,
            topic: &topic,
            packet_id: delivery.packet_id.filter(|_| is_answered),
            properties: properties.as_properties(),
            payload: &delivery.payload,
        };
        let fits = self.client.publish(&publish).is_ok()
            && self.client.out.len() - before <= broker.packet_bytes_max;
        if !fits {
            self.client.out.truncate(before);
            let reason = "the message is larger than the other broker accepts";
            return self.give_up(&delivery, reason).await;
        }
        if let Some(packet_id) = delivery.packet_id.filter(|_| is_answered) {
            self.running.progress.began(delivery.id);
            self.in_flight.insert(packet_id, delivery);
        } else {
            self.session.complete(&delivery);
            self.running.progress.delivered(1);
        }
        Ok(())
    }

    async fn give_up(&mut self, delivery: &SinkDelivery, reason: &str) -> Result<(), BridgeError> {
        let running = self.running;
        let (name, dead_letter) = (&running.settings.name, running.dead_letter.as_ref());
        running.progress.failed(reason, SinkState::Running);
        if !give_up(&running.broker, name, dead_letter, delivery, 1, reason).await {
            // The message is sent again over the next connection.
            return Err(BridgeError::NotStored);
        }
        running.progress.gave_up();
        self.session.complete(delivery);
        Ok(())
    }

    /// Reads all complete packets, and passes them on as one batch.
    async fn receive_packets(&mut self) -> Result<(), BridgeError> {
        let mut received = std::mem::take(&mut self.client.received);
        let mut refused = Vec::new();
        let bytes_max = packet_bytes_max(self.client.version);
        while let Some(frame) = Frame::split(&received, bytes_max)? {
            let length = frame.length;
            let packet = Packet::decode(self.client.version, frame)?;
            refused.extend(self.take_packet(&packet)?);
            drop(packet);
            received.advance(length);
        }
        self.client.received = received;
        for (delivery, reason) in refused {
            self.give_up(&delivery, &reason).await?;
        }
        self.inbound.flush(&self.session)?;
        if self.inbound.is_congested() {
            self.inbound.relief().await;
        }
        Ok(())
    }

    /// Handles one packet; returns the delivery that the other broker refuses with it.
    fn take_packet(
        &mut self,
        packet: &Packet<'_>,
    ) -> Result<Option<(Box<SinkDelivery>, String)>, BridgeError> {
        match packet {
            Packet::Publish(publish) => {
                let bridge = &self.running.bridge;
                if self.inbound.publish(bridge, &self.session, publish)? {
                    self.running.progress.received();
                }
            }
            Packet::Puback(ack) | Packet::Pubrec(ack) if ack.reason.is_error() => {
                let reason = format!("the other broker refused it: {}", ack.reason.name());
                return Ok(self
                    .arrived(ack.packet_id)
                    .map(|delivery| (delivery, reason)));
            }
            Packet::Puback(ack) => {
                match self.in_flight.get(&ack.packet_id) {
                    // The other broker accepts no QoS 2, so the message was sent at QoS 1.
                    Some(sent) if sent.qos == Qos::ExactlyOnce => drop(self.session.complete(sent)),
                    _ => self.session.acknowledge(ack.packet_id),
                }
                self.delivered(ack.packet_id);
            }
            Packet::Pubrec(ack) => {
                // PUBREL is sent once the release is on disk: after PUBREL the other broker forgets
                // the delivery, and would treat a repetition as a new message.
                self.session.release(ack.packet_id);
                self.inbound.answer(PacketType::Pubrel, ack.packet_id)?;
                self.delivered(ack.packet_id);
            }
            Packet::Pubcomp(ack) => self.session.finish(ack.packet_id),
            Packet::Pubrel(ack) => {
                self.session.note_released(ack.packet_id);
                self.inbound.answer(PacketType::Pubcomp, ack.packet_id)?;
            }
            Packet::Suback(suback) => self.check_subscriptions(suback.reasons.iter().copied())?,
            Packet::Pingresp => {}
            Packet::Disconnect(end) => {
                let said = end.properties.reason_string().unwrap_or_default();
                return Err(BridgeError::Ended(end.reason, said.to_owned()));
            }
            _ => return Err(BridgeError::Unexpected("a packet that servers do not send")),
        }
        Ok(None)
    }

    fn arrived(&mut self, packet_id: PacketId) -> Option<Box<SinkDelivery>> {
        let delivery = self.in_flight.remove(&packet_id)?;
        self.running.progress.end_delivery(delivery.id);
        Some(delivery)
    }

    fn delivered(&mut self, packet_id: PacketId) {
        if self.arrived(packet_id).is_some() {
            self.running.progress.delivered(1);
        }
    }

    fn check_subscriptions(
        &self,
        reasons: impl Iterator<Item = Reason>,
    ) -> Result<(), BridgeError> {
        let maps = self.running.bridge.maps.0.iter();
        let filters = maps.filter_map(|map| map.remote_filter());
        for (reason, filter) in reasons.zip(filters) {
            if reason.is_error() {
                return Err(BridgeError::NotSubscribed(filter.to_string()));
            }
        }
        Ok(())
    }
}
