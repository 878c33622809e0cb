//! SUBSCRIBE and UNSUBSCRIBE (sections 3.8 and 3.10).
//!
//! The user property `since` of a SUBSCRIBE requests earlier publications, with the syntax of
//! HTTP's `since=`. The standard leaves user properties to the application, and permits PUBLISH
//! packets of a subscription before its SUBACK (section 3.8.4), which the replay makes use of.

use std::num::NonZeroU32;

use gatepost_broker::{
    Limit, MalformedSince, RequestedFilter, RetainHandling, RetainedOfSubscription, Since,
    SubscribeError, SubscribeOptions,
};
use gatepost_message::TopicFilter;
use gatepost_mqtt::{
    Filter, Packet, PacketId, PacketProperties, PropertiesBuffer, Property, Reason, Suback,
    Subscribe, Unsubscribe,
};
use smallvec::SmallVec;

use super::acknowledgements::{SessionAcknowledgement, SubscribeOutcome};
use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use crate::mount::MountPrefix;

/// The number of retained messages that may wait for a client even if `retained_messages_max` is
/// less.
const RETAINED_WAITING_MIN: usize = 100_000;

/// Searches of as many topics as may retain messages that the filters of one SUBSCRIBE may take
/// together: a search compares the filter with each topic that begins as the filter does.
const RETAINED_SEARCHES: usize = 4;

/// The user property that requests a replay, and that of the SUBACK that names filters with a gap.
const SINCE_PROPERTY: &str = "since";
const GAP_PROPERTY: &str = "gap";

/// The number of filters of one SUBSCRIBE that may request a replay: each searches the remembered
/// topics.
const REPLAYED_FILTERS_MAX: usize = 16;

/// A subscription that was made.
#[derive(Default)]
struct SubscribedFilter {
    /// To be sent after the SUBACK.
    retained: Option<RetainedOfSubscription>,
    has_gap: bool,
    /// Topics that its filter was compared with.
    topics_compared: usize,
}

/// The start that the user property `since` names.
fn since_of(subscribe: &Subscribe<'_>) -> Result<Since, MalformedSince> {
    let mut properties = subscribe.properties.user_properties();
    let since = properties.find(|(name, _)| *name == SINCE_PROPERTY);
    match since {
        None | Some((_, "")) => Ok(Since::Now),
        Some((_, text)) => text.parse(),
    }
}

fn options_of(filter: &Filter<'_>, identifier: Option<NonZeroU32>) -> SubscribeOptions {
    SubscribeOptions {
        qos: filter.options.qos,
        no_local: filter.options.no_local,
        retain_as_published: filter.options.retain_as_published,
        retain_handling: match filter.options.retain_handling {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            _ => RetainHandling::DoNotSend,
        },
        identifier,
    }
}

impl MqttConnection {
    pub(super) fn subscribe(&mut self, subscribe: &Subscribe<'_>) -> Result<(), ConnectionEnd> {
        let identifier = subscribe.identifier().and_then(NonZeroU32::new);
        let mut outcome = SubscribeOutcome {
            packet_id: subscribe.packet_id,
            reasons: SmallVec::new(),
            retained: Vec::new(),
            gaps: Vec::new(),
            text: String::new(),
            interest: None,
        };
        let since = since_of(subscribe).unwrap_or_else(|error| {
            outcome.text = format!("since: {error}");
            let refused = Reason::IMPLEMENTATION_SPECIFIC_ERROR;
            outcome
                .reasons
                .extend(std::iter::repeat_n(refused, subscribe.filters.len()));
            Since::Now
        });
        let settings = self.context.broker.settings();
        let filters_max = match since {
            Since::Now => settings.subscriptions_per_session_max,
            _ => settings
                .subscriptions_per_session_max
                .min(REPLAYED_FILTERS_MAX),
        };
        let retained_max = settings.retained_messages_max.max(RETAINED_WAITING_MIN);
        let mut retained_waiting =
            self.acknowledgements.retained_waiting() + self.attachment.retained_waiting();
        let mut topics_compared = 0;
        // The filters that have a reason already are refused.
        let answered = outcome.reasons.len();
        for (number, filter) in subscribe.filters.iter().enumerate().skip(answered) {
            // One filter may match every topic, and a packet can contain very many filters.
            let is_long = topics_compared > retained_max.saturating_mul(RETAINED_SEARCHES);
            if number >= filters_max || retained_waiting > retained_max || is_long {
                let client = self.attachment.session().client_id();
                self.context.broker.note_limit(Limit::Subscriptions, client);
                let left = subscribe.filters.len() - number;
                outcome
                    .reasons
                    .extend(std::iter::repeat_n(Reason::QUOTA_EXCEEDED, left));
                break;
            }
            let options = options_of(filter, identifier);
            match self.enter(filter.text, options, since)? {
                Ok(entered) => {
                    outcome.reasons.push(Reason(options.qos.level()));
                    topics_compared += entered.topics_compared;
                    if entered.has_gap {
                        outcome.gaps.push(filter.text.to_owned());
                    }
                    if let Some(retained) = entered.retained {
                        retained_waiting += retained.len();
                        outcome.retained.push(retained);
                    }
                }
                Err(reason) => outcome.reasons.push(reason),
            }
        }
        self.turn.note_compared(topics_compared);
        outcome.interest = self.attachment.interest_barrier();
        self.step(SessionAcknowledgement::Subscribed(outcome));
        Ok(())
    }

    /// Subscribes to one filter; returns the reason if that is refused.
    fn enter(
        &self,
        text: &str,
        options: SubscribeOptions,
        since: Since,
    ) -> Result<Result<SubscribedFilter, Reason>, ConnectionEnd> {
        let Ok(requested) = RequestedFilter::new(&MountPrefix::filter(self.mount.as_ref(), text))
        else {
            return Ok(Err(Reason::TOPIC_FILTER_INVALID));
        };
        if requested.share.is_some() && options.no_local {
            return Err(ConnectionEnd::Server(
                Reason::PROTOCOL_ERROR,
                "a shared subscription is never no-local [MQTT-3.8.3-4]",
            ));
        }
        if requested.share.is_some() && since != Since::Now {
            // A shared subscription cannot be replayed: another member may have received the
            // messages that one requests.
            return Ok(Err(Reason::IMPLEMENTATION_SPECIFIC_ERROR));
        }
        if !self.may_have(&requested) {
            tracing::debug!(target: "mqtt", peer = %self.peer,
                filter = text, "subscription not allowed");
            return Ok(Err(Reason::NOT_AUTHORIZED));
        }
        let entered = if since == Since::Now {
            let retained = self.attachment.subscribe(&requested, &options);
            retained.map(|retained| SubscribedFilter {
                topics_compared: retained.topics_compared(),
                retained: Some(retained).filter(|retained| !retained.is_empty()),
                has_gap: false,
            })
        } else {
            let replayed = self.attachment.subscribe_since(&requested, &options, since);
            replayed.map(|replayed| SubscribedFilter {
                topics_compared: replayed.topics_compared,
                retained: None,
                has_gap: replayed.has_gap,
            })
        };
        Ok(entered.map_err(|error| match error {
            SubscribeError::TooMany | SubscribeError::OutOfMemory => Reason::QUOTA_EXCEEDED,
            SubscribeError::BeyondLimits => Reason::TOPIC_FILTER_INVALID,
        }))
    }

    /// Sends SUBACK, before the retained messages of its topics.
    pub(super) fn subscribed(&mut self, outcome: SubscribeOutcome) {
        let mut properties = PropertiesBuffer::new();
        if self.may_explain(&outcome.text) {
            let _ = properties.push(&Property::ReasonString(&outcome.text));
        }
        // As long as the packet fits the client's maximum [MQTT-3.9.2-2].
        let mut length = outcome.text.len() + outcome.reasons.len();
        for filter in &outcome.gaps {
            length += filter.len() + GAP_PROPERTY.len() + 5;
            if self.may_explain_in(length) {
                let _ = properties.push(&Property::UserProperty((GAP_PROPERTY, filter)));
            }
        }
        self.answer(&Packet::Suback(Suback {
            packet_id: outcome.packet_id,
            properties: properties.as_properties(),
            reasons: outcome.reasons,
        }));
        if !outcome.retained.is_empty() {
            self.send_answers();
            for retained in outcome.retained {
                self.attachment.deliver_retained(retained);
            }
        }
    }

    pub(super) fn unsubscribe(
        &mut self,
        unsubscribe: &Unsubscribe<'_>,
    ) -> Result<(), ConnectionEnd> {
        let mut reasons = SmallVec::new();
        for text in &unsubscribe.filters {
            let whole = MountPrefix::filter(self.mount.as_ref(), text);
            reasons.push(match TopicFilter::new(&whole) {
                Ok(filter) if self.attachment.unsubscribe(&filter) => Reason::SUCCESS,
                Ok(_) => Reason::NO_SUBSCRIPTION_EXISTED,
                // MQTT 3 has no code for it, and an UNSUBACK would mean success [MQTT-4.7.1-3].
                Err(_) if !self.version.has_properties() => {
                    return Err(ConnectionEnd::Server(
                        Reason::TOPIC_FILTER_INVALID,
                        "a topic filter is malformed [MQTT-4.7.1-3]",
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
