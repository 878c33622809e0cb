//! The publication of a judged message: the payload, and facts about the message as user
//! properties.

use gatepost_message::{Action, Message, Publication, Topic, Verdict};

use crate::mail_payload::RenderedPayload;

/// The publication of `message` under one of its topics.
pub(crate) fn publication(
    message: &Message,
    topic: Topic,
    rendered: &RenderedPayload,
    verdict: &Verdict,
) -> Publication {
    let mut properties = message.properties.as_deref().cloned().unwrap_or_default();
    rendered.describe(&mut properties);
    let mut add = |name: &str, value: String| properties.user.push((name.to_owned(), value));
    // A message that no procedure judged has no verdict to name.
    if !verdict.procedure.is_empty() || verdict.score.is_some() {
        add("verdict", verdict.action.name().to_owned());
    }
    if let Some(score) = verdict.score {
        add("score", format!("{:.1}", score.value));
    }
    if verdict.action == Action::Tag {
        for (name, value) in &verdict.tags {
            add(name, value.clone());
        }
    }
    Publication {
        id: message.id,
        topic,
        payload: rendered.payload.clone(),
        qos: message.qos,
        retain: message.retain,
        properties: (!properties.is_empty()).then(|| Box::new(properties)),
    }
}
