//! Messages that are given up: published on the dead-letter topic, or counted and logged.

use gatepost_broker::{Broker, PublishRefusal, StepOutcome};
use gatepost_message::{Publication, Qos, Topic};

use crate::frame::SinkDelivery;
use crate::session::client_id;

/// Gives a message up. Returns when the dead letter is on disk; returns `false` if it could not be
/// stored, so the message must not be acknowledged.
pub(crate) async fn give_up(
    broker: &Broker,
    sink: &str,
    dead_letter: Option<&Topic>,
    delivery: &SinkDelivery,
    attempts: u32,
    reason: &str,
) -> bool {
    tracing::warn!(target: "sinks", sink, message = %delivery.id, topic = delivery.topic, attempts,
        reason, "a message is given up");
    let outcome = StepOutcome::Refused;
    broker.note_elsewhere(delivery.id, &client_id(sink), "sink", outcome, Some(reason));
    let Some(topic) = dead_letter else {
        return true;
    };
    let mut properties = delivery.properties.clone();
    let details = [
        ("sink", sink.to_owned()),
        ("reason", reason.to_owned()),
        ("topic", delivery.topic.clone()),
        ("attempts", attempts.to_string()),
        ("id", delivery.id.to_string()),
    ];
    let details = details.map(|(name, value)| (name.to_owned(), value));
    properties.user = details.into_iter().chain(properties.user).collect();
    // A dead letter does not expire.
    properties.expiry_seconds = None;
    let mut letter = Publication::new(topic.clone(), delivery.payload.clone());
    letter.qos = Qos::AtLeastOnce;
    letter.properties = Some(Box::new(properties));
    match broker.publish(letter).await {
        Ok(outcome) => match outcome.refused {
            None => true,
            // It would be refused again, and the sink would deliver nothing else.
            Some(PublishRefusal::Rule(violation)) if !violation.is_temporary() => {
                tracing::error!(target: "sinks", sink, message = %delivery.id,
                    topic = topic.as_str(), "the dead letter is dropped: {violation}");
                true
            }
            Some(refused) => {
                tracing::warn!(target: "sinks", sink, %refused, "the dead letter was refused");
                false
            }
        },
        Err(error) => {
            tracing::debug!(target: "sinks", sink, %error, "the dead letter could not be stored");
            false
        }
    }
}
