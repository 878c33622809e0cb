//! Out of quarantine: what an operator lets pass after all.

use std::sync::Arc;

use gatepost_message::{Action, Format, Listener, Message, MessageId, Qos, Verdict};
use gatepost_store::{Change, QuarantineEntry};

use super::mail::{self, MailPayload, Rendered};
use super::{Gateway, Outcome, all_committed, publication};

impl Gateway {
    /// Publishes a quarantined message under the topics that it was for, as if it had been
    /// accepted, and takes it out of quarantine. `payload` is the form for mail.
    ///
    /// The publication has an id of its own, so that subscribers who resume after the last one
    /// that they saw get it; the user property `message` names the message.
    pub async fn release(&self, entry: QuarantineEntry, payload: MailPayload) -> Outcome {
        let QuarantineEntry {
            mut story,
            body,
            properties,
            retain,
        } = entry;
        let is_mail = matches!(
            story.envelope.listener,
            Listener::Smtp | Listener::Lmtp | Listener::Milter
        );
        let message = Arc::new(Message {
            id: story.id,
            envelope: story.envelope.clone(),
            topic: story.topic.clone(),
            format: if is_mail {
                Format::Mail
            } else {
                Format::Payload
            },
            body,
            size: story.size,
            qos: Qos::AtLeastOnce,
            retain,
            properties,
        });
        let verdict = Verdict {
            action: Action::Accept,
            score: story.score,
            reason: format!(
                "released from quarantine; it was kept because: {}",
                story.reason
            ),
            procedure: story.procedure.clone(),
            ..Verdict::default()
        };
        let rendered = if is_mail {
            mail::render(&message, payload, &verdict).await
        } else {
            Rendered::as_it_is(&message)
        };
        let id = MessageId::next();
        let mut tickets = Vec::new();
        story.deliveries = 0;
        for topic in story.all_topics().to_vec() {
            let mut publication = publication(&message, topic, &rendered, &verdict);
            publication.id = id;
            let name = ("message".to_owned(), message.id.to_string());
            let properties = publication.properties.get_or_insert_default();
            properties.user.push(name);
            let handed = self.0.outlet.publish_traced(publication, message.id);
            story.deliveries += handed.deliveries;
            tickets.extend(handed.ticket);
        }
        let deliveries = story.deliveries;
        story.action = verdict.action;
        story.reason.clone_from(&verdict.reason);
        self.tell(&story);
        let changes = [
            Change::Unquarantine(message.id),
            Change::Journal(Box::new(story)),
        ];
        tickets.push(self.0.store.submit(changes));
        let mut outcome = Outcome {
            verdict,
            deliveries,
        };
        if let Err(error) = all_committed(tickets).await {
            tracing::error!(target: "gateway", message = %message.id, "not stored: {error}");
            outcome.verdict = Verdict::new(Action::Defer, "the release could not be stored");
        }
        outcome
    }
}
