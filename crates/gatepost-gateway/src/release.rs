//! Releases from quarantine.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Action, Format, Listener, Message, MessageId, Qos, Topic, Verdict};
use gatepost_store::{JournalEntry, MailboxDelivery, QuarantineEntry};

use crate::gateway::{Gateway, SubmissionOutcome, all_committed};
use crate::mail_payload::{self, MailPayload, RenderedPayload};
use crate::publication::publication;
use crate::publication_sink::OtherDestination;

/// The destinations of a released message, other than next hops.
#[derive(Debug, Clone, Default)]
pub struct ReleaseTargets {
    /// The topics that it is published under.
    pub topics: Vec<Topic>,
    /// The users whose mailboxes receive it.
    pub mailboxes: Vec<String>,
    /// The form for mailboxes.
    pub mail: Bytes,
    /// Whether the message stays in quarantine, for other recipients.
    pub stays_quarantined: bool,
}

impl Gateway {
    /// Publishes a quarantined message under topics and puts it into mailboxes, as if it had been
    /// accepted, and removes it from quarantine unless it stays there for others. `payload` is the
    /// form for mail.
    ///
    /// The publication has an id of its own, so that subscribers that resume after the last id they
    /// saw get it; the user property `message` holds the id of the message.
    pub async fn release(
        &self,
        quarantined: QuarantineEntry,
        payload: MailPayload,
        targets: ReleaseTargets,
    ) -> SubmissionOutcome {
        let (message, mut entry) = released_message(quarantined);
        let verdict = release_verdict(&entry);
        let rendered = if message.format == Format::Mail {
            mail_payload::render(&message, payload, &verdict).await
        } else {
            RenderedPayload::of_body(&message)
        };
        let id = MessageId::next();
        let mut tickets = Vec::new();
        entry.deliveries = 0;
        for topic in targets.topics {
            let mut publication = publication(&message, topic, &rendered, &verdict);
            publication.id = id;
            let name = ("message".to_owned(), message.id.to_string());
            let properties = publication.properties.get_or_insert_default();
            properties.user.push(name);
            let handover = self.sink().publish_traced(publication, message.id);
            entry.deliveries += handover.deliveries;
            tickets.extend(handover.ticket);
            if let Some(refusal) = handover.refused {
                return not_released(&format!("{refusal}; the message stays in quarantine"));
            }
        }
        let deliveries = entry.deliveries;
        let released = (!targets.stays_quarantined).then(|| {
            entry.action = verdict.action;
            entry.reason.clone_from(&verdict.reason);
            self.announce(&entry);
            entry
        });
        let delivery = MailboxDelivery {
            users: targets.mailboxes.clone(),
            id: message.id,
            mail: targets.mail,
        };
        // Submitted before the publications are waited for.
        let delivered = self.store().release(delivery, released);
        let stored = match all_committed(tickets).await {
            Ok(()) => delivered.await,
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            tracing::error!(target: "gateway", message = %message.id, "not stored: {error}");
            return not_released("the release could not be stored");
        }
        for user in &targets.mailboxes {
            self.trace_delivery(message.id, OtherDestination::Mailbox(user));
        }
        SubmissionOutcome {
            verdict,
            deliveries,
            storage_failure: None,
            violation: None,
        }
    }
}

fn release_verdict(entry: &JournalEntry) -> Verdict {
    Verdict {
        action: Action::Accept,
        score: entry.score,
        reason: format!(
            "released from quarantine; it was kept because: {}",
            entry.reason
        ),
        procedure: entry.procedure.clone(),
        ..Verdict::default()
    }
}

/// The message as it was judged, and its journal entry.
fn released_message(quarantined: QuarantineEntry) -> (Arc<Message>, JournalEntry) {
    let QuarantineEntry {
        journal: entry,
        body,
        properties,
        retain,
    } = quarantined;
    let format = match entry.envelope.listener {
        Listener::Smtp | Listener::Lmtp | Listener::Milter => Format::Mail,
        _ => Format::Payload,
    };
    let message = Message {
        id: entry.id,
        envelope: entry.envelope.clone(),
        topic: entry.topic.clone(),
        format,
        body,
        size: entry.size,
        qos: Qos::AtLeastOnce,
        retain,
        properties,
    };
    (Arc::new(message), entry)
}

fn not_released(why: &str) -> SubmissionOutcome {
    SubmissionOutcome {
        verdict: Verdict::new(Action::Defer, why),
        deliveries: 0,
        storage_failure: None,
        violation: None,
    }
}
