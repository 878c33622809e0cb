//! Messages from the other broker, and the acknowledgements that wait until the messages are on
//! disk.
//!
//! All packets of one read are published and stored together. Their acknowledgements are sent
//! together after the commit, in the order of the packets.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use gatepost_broker::{PublishRefusal, Publisher, Receipt};
use gatepost_message::{MessageId, Publication, Qos};
use gatepost_mqtt::{Ack, PacketId, PacketType, Publish, Version};
use gatepost_store::{StoreError, Ticket};

use super::error::BridgeError;
use super::{Bridge, MARKER};
use crate::session::SinkSession;

type CommitFuture = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Acknowledgements that wait for a commit.
struct WaitingAcknowledgements {
    commit: CommitFuture,
    packets: BytesMut,
    /// The number of the other broker's publications that these packets acknowledge.
    publications: usize,
}

/// The incoming direction of one connection.
pub(super) struct InboundMessages {
    publisher: Publisher,
    version: Version,
    waiting: VecDeque<WaitingAcknowledgements>,
    /// The acknowledgements of the present batch.
    packets: BytesMut,
    tickets: Vec<Ticket>,
    publications: usize,
    unacknowledged: usize,
}

impl InboundMessages {
    pub(super) fn new(session: &SinkSession, version: Version) -> Self {
        Self {
            publisher: session.publisher(),
            version,
            waiting: VecDeque::new(),
            packets: BytesMut::new(),
            tickets: Vec::new(),
            publications: 0,
            unacknowledged: 0,
        }
    }

    /// Publications of the other broker that are not acknowledged yet.
    pub(super) const fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    /// Publishes a message of the other broker; returns whether it was accepted. A message that has
    /// passed this bridge before, or that no line of the config maps, is acknowledged and
    /// discarded.
    pub(super) fn publish(
        &mut self,
        bridge: &Bridge,
        session: &SinkSession,
        publish: &Publish<'_>,
    ) -> Result<bool, BridgeError> {
        if let Some(packet_id) = publish.packet_id {
            self.publications += 1;
            self.unacknowledged += 1;
            let answer = match publish.qos {
                Qos::ExactlyOnce => PacketType::Pubrec,
                _ => PacketType::Puback,
            };
            self.answer(answer, packet_id)?;
            if publish.qos == Qos::ExactlyOnce {
                match session.receipt(packet_id) {
                    Receipt::Unknown => {}
                    Receipt::Submitted(ticket) => {
                        self.tickets.push(ticket);
                        return Ok(false);
                    }
                    // The first copy is part of this batch, or is on disk.
                    Receipt::Undecided | Receipt::Received => return Ok(false),
                }
            }
        }
        let is_taken = self.publish_new(bridge, publish)?;
        if let Some(packet_id) = publish
            .packet_id
            .filter(|_| publish.qos == Qos::ExactlyOnce)
        {
            self.publisher.note_received(packet_id);
        }
        Ok(is_taken)
    }

    fn publish_new(&mut self, bridge: &Bridge, publish: &Publish<'_>) -> Result<bool, BridgeError> {
        let mut marks = publish.properties.user_properties();
        let has_passed = marks.any(|(name, value)| name == MARKER && value == bridge.client_id);
        let Some(topic) = bridge.maps.inward(publish.topic).filter(|_| !has_passed) else {
            return Ok(false);
        };
        let slot = match self.publisher.enter(&topic) {
            Ok(slot) if !self.publisher.topic(slot).is_internal() => slot,
            _ => {
                tracing::debug!(target: "sinks", sink = bridge.name, topic,
                    "the other broker sent a message for a topic that cannot be published to");
                return Ok(false);
            }
        };
        let publication = Publication {
            id: MessageId::next(),
            topic: self.publisher.topic(slot).clone(),
            payload: Bytes::copy_from_slice(publish.payload),
            qos: publish.qos,
            retain: publish.retain,
            properties: publish.properties.carried(),
        };
        let outcome = self.publisher.publish_at(slot, publication);
        match outcome.refused {
            // The subscribers have received the message.
            None | Some(PublishRefusal::Retain) => Ok(true),
            // A repetition by the other broker could not succeed.
            Some(PublishRefusal::Rule(violation)) if !violation.is_temporary() => {
                tracing::warn!(target: "sinks", sink = bridge.name, topic,
                    "a message of the other broker is dropped: {violation}");
                Ok(false)
            }
            // The message is not acknowledged, so the other broker repeats it over the next
            // connection.
            Some(refusal) => Err(BridgeError::NotTaken(refusal.to_string())),
        }
    }

    /// Queues a packet in reply, to be sent after the batch is committed.
    pub(super) fn answer(
        &mut self,
        packet_type: PacketType,
        packet_id: PacketId,
    ) -> Result<(), BridgeError> {
        Ack::success(packet_id).encode(packet_type, self.version, &mut self.packets)?;
        Ok(())
    }

    /// Ends a batch: passes everything to the broker and to the store.
    pub(super) fn flush(&mut self, session: &SinkSession) -> Result<(), BridgeError> {
        for ticket in [self.publisher.flush(), session.submit()]
            .into_iter()
            .flatten()
        {
            self.tickets
                .push(ticket.map_err(|_| BridgeError::NotStored)?);
        }
        if self.packets.is_empty() {
            self.tickets.clear();
            return Ok(());
        }
        let tickets = std::mem::take(&mut self.tickets);
        self.waiting.push_back(WaitingAcknowledgements {
            commit: Box::pin(async move {
                for ticket in tickets {
                    ticket.committed().await?;
                }
                Ok(())
            }),
            packets: std::mem::take(&mut self.packets),
            publications: std::mem::take(&mut self.publications),
        });
        Ok(())
    }

    /// The next acknowledgements that may be sent. Cancel-safe.
    pub(super) async fn committed(&mut self) -> Result<BytesMut, BridgeError> {
        let Some(first) = self.waiting.front_mut() else {
            return std::future::pending().await;
        };
        let stored = first.commit.as_mut().await;
        let Some(first) = self.waiting.pop_front() else {
            return std::future::pending().await;
        };
        stored.map_err(|_| BridgeError::NotStored)?;
        self.unacknowledged -= first.publications;
        Ok(first.packets)
    }

    /// Waits for local subscribers that are slower than the incoming messages.
    pub(super) async fn relief(&mut self) {
        std::future::poll_fn(|context| self.publisher.poll_relief(context)).await;
    }

    pub(super) fn is_congested(&self) -> bool {
        self.publisher.is_congested()
    }
}
