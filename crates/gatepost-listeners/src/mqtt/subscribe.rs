//! SUBSCRIBE and UNSUBSCRIBE (sections 3.8 and 3.10).

use std::num::NonZeroU32;

use gatepost_broker::{Limit, RequestedFilter, RetainHandling, SubscribeError, SubscribeOptions};
use gatepost_message::TopicFilter;
use gatepost_mqtt::{Packet, PacketId, PacketProperties, Reason, Suback, Subscribe, Unsubscribe};
use smallvec::SmallVec;

use super::acknowledgements::{RetainedMessages, SessionAcknowledgement};
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;

/// So many retained messages may wait for a client's SUBACK, also where `retained_messages_max` is
/// less.
const RETAINED_WAITING_MIN: usize = 100_000;

impl MqttConnection {
    pub(super) fn subscribe(&mut self, subscribe: &Subscribe<'_>) -> Result<(), ConnectionEnd> {
        let identifier = subscribe.identifier().and_then(NonZeroU32::new);
        let mut reasons = SmallVec::new();
        let mut kept = Vec::new();
        let settings = self.context.broker.settings();
        let filters_max = settings.subscriptions_per_session_max;
        let retained_max = settings.retained_messages_max.max(RETAINED_WAITING_MIN);
        let mut retained_waiting = self.acknowledgements.retained_waiting();
        for (number, filter) in subscribe.filters.iter().enumerate() {
            // One filter may match everything, and a packet holds millions of it.
            if number >= filters_max || retained_waiting > retained_max {
                let client = self.attachment.session().client_id();
                self.context.broker.note_limit(Limit::Subscriptions, client);
                let left = subscribe.filters.len() - number;
                reasons.extend(std::iter::repeat_n(Reason::QUOTA_EXCEEDED, left));
                break;
            }
            let options = SubscribeOptions {
                qos: filter.options.qos,
                no_local: filter.options.no_local,
                retain_as_published: filter.options.retain_as_published,
                retain_handling: match filter.options.retain_handling {
                    0 => RetainHandling::Send,
                    1 => RetainHandling::SendIfNew,
                    _ => RetainHandling::DoNotSend,
                },
                identifier,
            };
            let Ok(requested) = RequestedFilter::new(filter.text) else {
                reasons.push(Reason::TOPIC_FILTER_INVALID);
                continue;
            };
            if requested.share.is_some() && options.no_local {
                return Err(ConnectionEnd::Server(
                    Reason::PROTOCOL_ERROR,
                    "a shared subscription is never no-local [MQTT-3.8.3-4]",
                ));
            }
            if !self.may_have(&requested) {
                tracing::debug!(target: "mqtt", peer = %self.peer,
                    filter = filter.text, "subscription not allowed");
                reasons.push(Reason::NOT_AUTHORIZED);
                continue;
            }
            match self.attachment.subscribe(&requested, &options) {
                Ok(retained) => {
                    reasons.push(Reason(options.qos.level()));
                    if !retained.is_empty() {
                        retained_waiting += retained.len();
                        kept.push((retained, options));
                    }
                }
                Err(SubscribeError::TooMany | SubscribeError::OutOfMemory) => {
                    reasons.push(Reason::QUOTA_EXCEEDED);
                }
                Err(SubscribeError::BeyondLimits) => reasons.push(Reason::TOPIC_FILTER_INVALID),
            }
        }
        self.step(SessionAcknowledgement::Subscribed(
            subscribe.packet_id,
            reasons,
            kept,
        ));
        Ok(())
    }

    /// SUBACK. The client learns of its subscription before what it brings.
    pub(super) fn subscribed(
        &mut self,
        packet_id: PacketId,
        reasons: SmallVec<[Reason; 8]>,
        retained: &RetainedMessages,
    ) {
        self.answer(&Packet::Suback(Suback {
            packet_id,
            properties: PacketProperties::EMPTY,
            reasons,
        }));
        if !retained.is_empty() {
            self.send_answers();
            for (retained, options) in retained {
                self.attachment.deliver_retained(retained, options);
            }
        }
    }

    pub(super) fn unsubscribe(
        &mut self,
        unsubscribe: &Unsubscribe<'_>,
    ) -> Result<(), ConnectionEnd> {
        let mut reasons = SmallVec::new();
        for text in &unsubscribe.filters {
            reasons.push(match TopicFilter::new(text) {
                Ok(filter) if self.attachment.unsubscribe(&filter) => Reason::SUCCESS,
                Ok(_) => Reason::NO_SUBSCRIPTION_EXISTED,
                // MQTT 3 has no code for it, and an UNSUBACK would mean success [MQTT-4.7.1-3].
                Err(_) if !self.version.has_properties() => {
                    return Err(ConnectionEnd::Server(
                        Reason::TOPIC_FILTER_INVALID,
                        "a filter that is none [MQTT-4.7.1-3]",
                    ));
                }
                Err(_) => Reason::TOPIC_FILTER_INVALID,
            });
        }
        self.step(SessionAcknowledgement::Unsubscribed(
            unsubscribe.packet_id,
            reasons,
        ));
        Ok(())
    }

    pub(super) fn unsubscribed(&mut self, packet_id: PacketId, reasons: SmallVec<[Reason; 8]>) {
        self.answer(&Packet::Unsuback(Suback {
            packet_id,
            properties: PacketProperties::EMPTY,
            reasons,
        }));
    }
}
