//! PUBLISH from a client (section 3.3): directly to the broker, or first to the procedures.

use bytes::Bytes;
use gatepost_broker::{PublishRefusal, Publisher, Receipt, TopicSlot};
use gatepost_gateway::{DELAY, Gateway};
use gatepost_message::{
    Action, BRIDGE_STATE_BYTES_MAX, Envelope, Format, Listener, Message, MessageId, Properties,
    Publication, Qos, SEQUENCE_ID, Topic, Verdict, is_bridge_state,
};
use gatepost_mqtt::{PacketId, Property, Publish, Reason};
use gatepost_users::Identity;

use super::acknowledgements::PublishAcknowledgement;
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::publishing::{
    JudgedPublication, PublishingState, WaitingPublication, reason, reason_of_violation,
};
use super::settings::OnReject;
use crate::mount::MountPrefix;

impl MqttConnection {
    pub(super) fn publish(&mut self, publish: &Publish<'_>) -> Result<(), ConnectionEnd> {
        if !self.publishing().publisher.is_within_rate() {
            return Err(ConnectionEnd::Server(
                Reason::MESSAGE_RATE_TOO_HIGH,
                "more publications per second than this server permits",
            ));
        }
        let names_subscription =
            |property| matches!(property, Property::SubscriptionIdentifier(_)).then_some(());
        if publish.properties.find(names_subscription).is_some() {
            return Err(ConnectionEnd::Server(
                Reason::PROTOCOL_ERROR,
                "a publication of a client has no subscription identifier [MQTT-3.3.4-6]",
            ));
        }
        let slot = self.enter_topic(publish)?;
        if let Some(packet_id) = publish.packet_id {
            if publish.qos == Qos::ExactlyOnce && self.is_repetition(publish, packet_id) {
                return Ok(());
            }
            self.check_receive_maximum()?;
        }
        if let Some((reason, text)) = self.rejection_reason(publish, slot) {
            self.push_answer(publish, reason, text);
            return Ok(());
        }
        let publishing = &mut self.publishing;
        if let (Some(gateway), Some(publishing)) = (&self.context.gateway, publishing) {
            // Delayed messages and their replacements go through the gateway, judged or not.
            let may_wait = [DELAY, SEQUENCE_ID]
                .into_iter()
                .any(|name| user_property(publish, name).is_some());
            if publishing.is_judged(slot, gateway) || may_wait || publishing.is_awaited(slot) {
                let gateway = gateway.clone();
                self.submit(publish, slot, &gateway);
                return Ok(());
            }
            gateway.counters().count(Listener::Mqtt, Action::Accept);
        }
        self.publish_unjudged(publish, slot);
        Ok(())
    }

    fn publishing(&mut self) -> &mut PublishingState {
        let attachment = &self.attachment;
        self.publishing.get_or_insert_with(|| {
            Box::new(PublishingState::new(
                attachment.publisher(),
                attachment.verdicts(),
            ))
        })
    }

    /// Finds the topic, by its name or by an alias (section 3.3.2.3.4).
    fn enter_topic(&mut self, publish: &Publish<'_>) -> Result<TopicSlot, ConnectionEnd> {
        let alias_max = self.context.settings.topic_alias_max;
        // Without a prefix this copies nothing.
        let mount = self.mount.clone();
        let topic = MountPrefix::topic(mount.as_ref(), publish.topic);
        let publishing = self.publishing();
        let enter = |publisher: &mut Publisher, name: &str| {
            publisher.enter(name).map_err(|error| {
                ConnectionEnd::Server(Reason::TOPIC_NAME_INVALID, error.explanation())
            })
        };
        let Some(alias) = publish.topic_alias() else {
            return enter(&mut publishing.publisher, &topic);
        };
        if alias > alias_max {
            return Err(ConnectionEnd::Server(
                Reason::TOPIC_ALIAS_INVALID,
                "a topic alias above the maximum [MQTT-3.3.2-9]",
            ));
        }
        let index = usize::from(alias) - 1; // Zero is refused when decoding [MQTT-3.3.2-8].
        if !topic.is_empty() {
            if publishing.aliases.len() <= index {
                publishing.aliases.resize(index + 1, Box::default());
            }
            publishing.aliases[index] = topic.as_ref().into();
            return enter(&mut publishing.publisher, &topic);
        }
        match publishing.aliases.get(index) {
            Some(name) if !name.is_empty() => enter(&mut publishing.publisher, name),
            _ => Err(ConnectionEnd::Server(
                Reason::PROTOCOL_ERROR,
                "a topic alias that was not set [MQTT-3.3.2-7]",
            )),
        }
    }

    /// Section 3.3.4: more publications than the client may have unacknowledged, of those that it
    /// has sent over this connection (section 4.9). MQTT 3 has no such limit.
    fn check_receive_maximum(&self) -> Result<(), ConnectionEnd> {
        let receive_max = self.context.settings.receive_max();
        let received = self.attachment.received_count();
        let received = received.saturating_sub(self.inherited.len());
        let count = self.acknowledgements.unacknowledged() + received;
        if self.version.has_properties() && count >= receive_max {
            return Err(ConnectionEnd::Server(
                Reason::RECEIVE_MAXIMUM_EXCEEDED,
                "more unacknowledged publications than the Receive Maximum [MQTT-3.3.4-7]",
            ));
        }
        Ok(())
    }

    /// The reason why a publication is not accepted although the connection continues.
    fn rejection_reason(
        &self,
        publish: &Publish<'_>,
        slot: TopicSlot,
    ) -> Option<(Reason, &'static str)> {
        let publishing = self.publishing.as_ref()?;
        let topic = publishing.publisher.topic(slot);
        if topic.is_internal() && !self.is_bridge_state(publish, topic) {
            return Some((
                Reason::NOT_AUTHORIZED,
                "topics that begin with $ are the server's",
            ));
        }
        let topic = topic.as_str();
        let identity = self.identity.as_ref();
        if identity.is_some_and(|who| !who.may_publish(topic, publish.retain).is_allowed()) {
            tracing::debug!(target: "mqtt", peer = %self.peer, topic, "publication not allowed");
            return Some((Reason::NOT_AUTHORIZED, "the access rules do not permit it"));
        }
        if let (Some(delay), Some(gateway)) = (user_property(publish, DELAY), &self.context.gateway)
            && let Err(mistake) = gateway.due_unix_seconds(delay)
        {
            tracing::debug!(target: "mqtt", peer = %self.peer, topic, "{}", mistake.explanation());
            return Some((
                Reason::IMPLEMENTATION_SPECIFIC_ERROR,
                "the user property delay names no time to come that this server waits for",
            ));
        }
        let is_text = publish.properties.find(|property| match property {
            Property::PayloadFormatIndicator(is_text) => Some(is_text),
            _ => None,
        });
        if is_text == Some(true) && std::str::from_utf8(publish.payload).is_err() {
            return Some((Reason::PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8"));
        }
        None
    }

    /// Whether this is the state of the client's own bridge.
    fn is_bridge_state(&self, publish: &Publish<'_>, topic: &Topic) -> bool {
        is_bridge_state(topic.as_str(), self.attachment.session().client_id())
            && publish.payload.len() <= BRIDGE_STATE_BYTES_MAX
    }

    /// Whether the same exactly-once publication arrived before: then it is answered like the first
    /// one, and not published \[MQTT-4.3.3-10\].
    fn is_repetition(&mut self, publish: &Publish<'_>, packet_id: PacketId) -> bool {
        let receipt = self.attachment.receipt(packet_id);
        if !matches!(receipt, Receipt::Unknown) {
            // It counts as a publication of this connection, as it does for the client.
            self.inherited.remove(&packet_id);
        }
        match receipt {
            Receipt::Unknown => return false,
            Receipt::Received => self.push_answer(publish, Reason::SUCCESS, ""),
            Receipt::Undecided | Receipt::Submitted(_) => {
                self.acknowledgements.push_repetition(packet_id);
            }
        }
        true
    }

    fn push_answer(&mut self, publish: &Publish<'_>, reason: Reason, text: &str) {
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        self.acknowledgements.push_decided(PublishAcknowledgement {
            packet_id,
            reason,
            text: text.to_owned(),
            exactly_once: publish.qos == Qos::ExactlyOnce,
            is_delivered: false,
            is_forbidden: false,
        });
    }

    fn publish_unjudged(&mut self, publish: &Publish<'_>, slot: TopicSlot) {
        let can_fail = self.version.has_properties();
        let mount = self.mount.clone();
        let publishing = self.publishing();
        let publication = Publication {
            id: MessageId::next(),
            topic: publishing.publisher.topic(slot).clone(),
            payload: Bytes::copy_from_slice(publish.payload),
            qos: publish.qos,
            retain: publish.retain,
            properties: carried(publish, mount.as_ref()),
        };
        let delivery = publishing.publisher.publish_at(slot, publication);
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        let is_delivered = delivery.refused == Some(PublishRefusal::Retain) && !can_fail;
        let violation = match &delivery.refused {
            Some(PublishRefusal::Rule(violation)) => Some(violation.clone()),
            _ => None,
        };
        // Otherwise a client whose connection ended because its publication could not be retained
        // would repeat that publication forever.
        let is_lasting = is_delivered && publish.dup;
        let refused = delivery.refused.filter(|_| !is_lasting);
        let refusal = refused.map(|refused| refused.to_string());
        let (reason, text) = if let Some(refusal) = &refusal {
            let of_rule = violation.as_ref().map(reason_of_violation);
            (of_rule.unwrap_or(Reason::QUOTA_EXCEEDED), refusal.as_str())
        } else if delivery.receivers == 0 && !delivery.is_forwarded {
            (Reason::NO_MATCHING_SUBSCRIBERS, "")
        } else {
            (Reason::SUCCESS, "")
        };
        let exactly_once = publish.qos == Qos::ExactlyOnce;
        if exactly_once && (is_delivered || !reason.is_error()) {
            publishing.publisher.note_received(packet_id);
        }
        self.acknowledgements.push(PublishAcknowledgement {
            packet_id,
            reason,
            text: text.to_owned(),
            exactly_once,
            is_delivered,
            is_forbidden: violation.is_some_and(|violation| !violation.is_temporary()),
        });
    }

    /// Submits a publication to the procedures first.
    fn submit(&mut self, publish: &Publish<'_>, slot: TopicSlot, gateway: &Gateway) {
        let mut envelope = Envelope::new(Listener::Mqtt, self.peer);
        envelope.client = Some(self.attachment.session().client_id().to_owned());
        let user = self.identity.as_ref().and_then(Identity::user);
        envelope.user = user.map(str::to_owned);
        let exactly_once = publish.qos == Qos::ExactlyOnce;
        let mount = self.mount.clone();
        let publishing = self.publishing();
        let topic = publishing.publisher.topic(slot).clone();
        let body = Bytes::copy_from_slice(publish.payload);
        let mut message = Message::new(envelope, Some(topic), Format::Payload, body);
        message.qos = publish.qos;
        message.retain = publish.retain;
        message.properties = carried(publish, mount.as_ref());
        let id = message.id;
        let sender = self.attachment.record_sender(id);
        let publishing = self.publishing();
        publishing.waiting.push_back(WaitingPublication {
            message,
            packet_id: publish.packet_id,
            sender,
        });
        publishing.judge_next(gateway);
        if let Some(packet_id) = publish.packet_id {
            if exactly_once {
                self.attachment.expect_received(packet_id, id);
            }
            self.acknowledgements
                .push_undecided(packet_id, exactly_once);
        }
    }

    /// Handles a verdict: acknowledges the publication, and submits the next one.
    pub(super) fn judged(&mut self, judged: JudgedPublication) {
        let on_reject = self.context.settings.on_reject;
        let text = explanation(&judged.outcome.verdict);
        if let Some(publishing) = &self.publishing {
            publishing.settle(&judged, on_reject);
        }
        let violation = judged.outcome.violation.as_ref();
        let is_rejected = judged.outcome.verdict.action == Action::Reject && violation.is_none();
        if is_rejected && on_reject == OnReject::Disconnect {
            self.end_with(ConnectionEnd::Refused(text));
            return;
        }
        if judged.packet_id.is_some() {
            let reason = reason(&judged.outcome, on_reject);
            let is_forbidden = violation.is_some_and(|violation| !violation.is_temporary());
            self.acknowledgements.decide(reason, text, is_forbidden);
        }
        let gateway = self.context.gateway.clone();
        if let (Some(gateway), Some(publishing)) = (gateway, &mut self.publishing) {
            publishing.judge_next(&gateway);
        }
    }
}

/// The properties of the message itself, with the whole topic of a response.
fn carried(publish: &Publish<'_>, mount: Option<&MountPrefix>) -> Option<Box<Properties>> {
    let mut carried = publish.properties.carried();
    if let Some(properties) = &mut carried {
        MountPrefix::complete(mount, properties);
    }
    carried
}

/// The first user property of this name.
fn user_property<'a>(publish: &Publish<'a>, wanted: &str) -> Option<&'a str> {
    publish.properties.find(|property| match property {
        Property::UserProperty((name, value)) if name == wanted => Some(value),
        _ => None,
    })
}

/// The reason for the refusal, in one line.
fn explanation(verdict: &Verdict) -> String {
    match verdict.action {
        Action::Reject | Action::Defer if verdict.reason.is_empty() => verdict.procedure.clone(),
        Action::Reject | Action::Defer => verdict.reason.clone(),
        _ => String::new(),
    }
}
