//! Releases from quarantine.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Action, Format, Listener, Message, MessageId, Qos, Topic, Verdict};
use gatepost_store::{JournalEntry, MailboxDelivery, QuarantineEntry, StoreError};

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
            if let Some(refusal) = handover.refused {
                return not_released(&refusal.to_string());
            }
            match handover.ticket {
                Some(Ok(ticket)) => tickets.push(Ok(ticket)),
                Some(Err(error)) => return not_stored(message.id, &error),
                None => {}
            }
        }
        // The end of the quarantine is submitted only after the publications are on disk: a nearly
        // full disk refuses those and would still accept this, which frees space.
        if let Err(error) = all_committed(tickets).await {
            return not_stored(message.id, &error);
        }
        let deliveries = entry.deliveries;
        entry.action = verdict.action;
        entry.reason.clone_from(&verdict.reason);
        let delivery = MailboxDelivery {
            users: targets.mailboxes.clone(),
            id: message.id,
            mail: targets.mail,
        };
        let released = (!targets.stays_quarantined).then(|| entry.clone());
        if let Err(error) = self.store().release(delivery, released).await {
            return not_stored(message.id, &error);
        }
        if !targets.stays_quarantined {
            self.announce(&entry);
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

fn not_stored(message: MessageId, error: &StoreError) -> SubmissionOutcome {
    tracing::error!(target: "gateway", %message, "a release was not stored: {error}");
    not_released(&format!("the release could not be stored ({error})"))
}

fn not_released(why: &str) -> SubmissionOutcome {
    let reason = format!("{why}; the message stays in quarantine");
    SubmissionOutcome {
        verdict: Verdict::new(Action::Defer, reason),
        deliveries: 0,
        storage_failure: None,
        violation: None,
    }
}
