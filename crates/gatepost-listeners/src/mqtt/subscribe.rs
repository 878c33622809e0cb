//! SUBSCRIBE and UNSUBSCRIBE (§ 3.8, § 3.10).

use std::num::NonZeroU32;

use gatepost_broker::{RequestedFilter, RetainHandling, SubscribeOptions};
use gatepost_message::TopicFilter;
use gatepost_mqtt::{Packet, Properties, Reason, Suback, Subscribe, Unsubscribe};
use smallvec::SmallVec;

use super::connection::Connection;
use super::goodbye::Goodbye;

impl Connection {
    pub(super) fn subscribe(&mut self, subscribe: &Subscribe<'_>) -> Result<(), Goodbye> {
        let identifier = subscribe.identifier().and_then(NonZeroU32::new);
        let mut reasons = SmallVec::new();
        let mut kept = Vec::new();
        for filter in &subscribe.filters {
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
                return Err(Goodbye::Server(
                    Reason::PROTOCOL_ERROR,
                    "a shared subscription is never no-local [MQTT-3.8.3-4]",
                ));
            }
            match self.attachment.subscribe(&requested, &options) {
                Ok(retained) => {
                    reasons.push(Reason(options.qos.level()));
                    if !retained.is_empty() {
                        kept.push((retained, options));
                    }
                }
                Err(_) => reasons.push(Reason::QUOTA_EXCEEDED),
            }
        }
        self.answer(&Packet::Suback(Suback {
            packet_id: subscribe.packet_id,
            properties: Properties::EMPTY,
            reasons,
        }));
        if !kept.is_empty() {
            // The client learns of its subscription before what it brings.
            self.send_answers();
            for (retained, options) in kept {
                self.attachment.deliver_retained(&retained, &options);
            }
        }
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, unsubscribe: &Unsubscribe<'_>) {
        let mut reasons = SmallVec::new();
        for text in &unsubscribe.filters {
            reasons.push(match TopicFilter::new(text) {
                Ok(filter) if self.attachment.unsubscribe(&filter) => Reason::SUCCESS,
                Ok(_) => Reason::NO_SUBSCRIPTION_EXISTED,
                Err(_) => Reason::TOPIC_FILTER_INVALID,
            });
        }
        self.answer(&Packet::Unsuback(Suback {
            packet_id: unsubscribe.packet_id,
            properties: Properties::EMPTY,
            reasons,
        }));
    }
}
