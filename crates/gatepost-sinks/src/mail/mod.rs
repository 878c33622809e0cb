//! Mail: messages of topics as mail, alone or collected in digests, and mail of the server itself.
//!
//! All of it is sent to one smarthost, which queues and delivers it: the only queues here are the
//! broker's sessions. A mail is acknowledged once the smarthost has accepted or permanently refused
//! each of its recipients.

mod composition;
mod outgoing;
mod smarthost;
mod unsent;

use std::collections::BTreeMap;

use gatepost_message::{MessageId, SequenceEvent};

use crate::attempt::AttemptFailure;
use crate::field_mistake::FieldMistake;
use crate::file_text::file_text;
use crate::frame::SinkDelivery;
use crate::mail_settings::MailSettings;
use crate::template::{SinkTemplate, SinkTemplateError};
use crate::transport::{AttemptFuture, KeepFuture, RemainingRecipients, SinkTransport};
use composition::MailContent;
pub(crate) use composition::is_address;
pub use outgoing::{MailQueue, QueueError};
pub(crate) use outgoing::{SharedTransport, outgoing_settings};
pub use smarthost::{
    Checking, MailSubmission, MailTransport, RefusedRecipient, SendOutcome, Sending,
};
pub use unsent::{Keeping, UnsentMail};

/// The sink of the server's own mail. No sink of the config can have the name, for its `/`.
pub(crate) const OUTGOING_NAME: &str = "mail/outgoing";
/// Mails of the server itself that are sent at once: a mail that is tried again does not delay the
/// others.
pub(crate) const OUTGOING_CONCURRENCY: u16 = 8;
pub(crate) const NO_SMARTHOST: &str = "no smarthost is set; write smarthost.server";

/// A sink that makes mail of messages.
pub(crate) struct MailSink {
    name: String,
    from: String,
    to: Vec<String>,
    subject: SinkTemplate,
    body: SinkTemplate,
    variables: BTreeMap<String, String>,
    smarthost: SharedTransport,
}

impl MailSink {
    /// Reads the file that the settings name.
    pub(crate) fn new(
        name: &str,
        settings: &MailSettings,
        smarthost: SharedTransport,
    ) -> Result<Self, FieldMistake> {
        let address = "write an address such as alarms@example.org, without a name";
        if !is_address(&settings.from) {
            return Err(FieldMistake::new("mail.from", address));
        }
        if settings.to.is_empty() || !settings.to.iter().all(|to| is_address(to)) {
            return Err(FieldMistake::new("mail.to", address));
        }
        let messages_max = settings.digest_messages_max;
        if messages_max == 0 {
            let reason = "there must be a message in a mail";
            return Err(FieldMistake::new("mail.digest_messages_max", reason));
        }
        let template = |field, source: &str| {
            SinkTemplate::new(source, false, messages_max)
                .map_err(|error| FieldMistake::new(field, format!("{error:#}")))
        };
        let source = file_text(&settings.template, "mail.template")?;
        let source = source.as_deref();
        let default = include_str!("../../templates/mail.txt.j2");
        Ok(Self {
            name: name.to_owned(),
            from: settings.from.clone(),
            to: settings.to.clone(),
            subject: template("mail.subject", &settings.subject)?,
            body: template("mail.template", source.unwrap_or(default))?,
            variables: settings.variables.clone(),
            smarthost,
        })
    }

    /// The mail about these messages, for some of the recipients.
    fn submission(
        &self,
        batch: &[SinkDelivery],
        recipients: Vec<String>,
    ) -> Result<MailSubmission, SinkTemplateError> {
        let text =
            |template: &SinkTemplate| template.render_digest(&self.name, &self.variables, batch);
        let (subject, body) = (text(&self.subject)?, text(&self.body)?);
        let content = MailContent {
            from: &self.from,
            to: &self.to,
            subject: &subject,
            body: &body,
            html: None,
            id: batch.first().map_or_else(MessageId::next, |first| first.id),
            sink: &self.name,
        };
        Ok(MailSubmission {
            sender: self.from.clone(),
            recipients,
            text: composition::compose(&content),
        })
    }

    async fn send(
        &self,
        batch: &[SinkDelivery],
        remaining: &mut RemainingRecipients,
    ) -> Result<(), AttemptFailure> {
        let recipients = remaining.recipients.get_or_insert_with(|| self.to.clone());
        let mail = self.submission(batch, recipients.clone());
        // The text may be too long, or one message may be at fault.
        let mail = mail.map_err(|error| AttemptFailure::TooMany(error.to_string()))?;
        hand_over(&self.smarthost, &mail, remaining).await
    }
}

impl SinkTransport for MailSink {
    fn kind(&self) -> &'static str {
        "mail"
    }

    fn target(&self) -> String {
        self.to.join(", ")
    }

    fn ends_when_gone(&self) -> bool {
        false
    }

    /// A mail cannot be withdrawn, so that an earlier message was read or deleted is not sent.
    fn accepts(&self, delivery: &SinkDelivery) -> bool {
        SequenceEvent::of(&delivery.properties).is_none()
    }

    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        remaining: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a> {
        Box::pin(self.send(batch, remaining))
    }
}

/// The sink of the server's own mail, which is written already.
pub(crate) struct OutgoingSink {
    queue: MailQueue,
    smarthost: SharedTransport,
}

impl OutgoingSink {
    pub(crate) fn new(queue: MailQueue) -> Self {
        let smarthost = queue.smarthost();
        Self { queue, smarthost }
    }

    /// Stores a mail that is given up. One without a sender, such as an automatic answer, is only
    /// logged, as a server that cannot return it would do (RFC 5321, section 6.1).
    async fn keep_unsent(
        &self,
        delivery: &SinkDelivery,
        remaining: &RemainingRecipients,
        reason: &str,
    ) -> bool {
        let mut mail = outgoing::submission_of(delivery);
        mail.recipients = remaining.unreached(mail.recipients);
        tracing::warn!(target: "sinks", message = %delivery.id, sender = mail.sender,
            to = ?mail.recipients, reason, "a mail is not sent");
        let place = self.queue.unsent().filter(|_| !mail.sender.is_empty());
        let Some(place) = place else { return true };
        let kept = place.keep(&mail, reason).await;
        if let Err(error) = &kept {
            tracing::warn!(target: "sinks", message = %delivery.id, error,
                "a mail that was not sent could not be stored; tried again");
        }
        kept.is_ok()
    }

    async fn send(
        &self,
        batch: &[SinkDelivery],
        remaining: &mut RemainingRecipients,
    ) -> Result<(), AttemptFailure> {
        for delivery in batch {
            let mut mail = outgoing::submission_of(delivery);
            let recipients = remaining.recipients.get_or_insert(mail.recipients);
            mail.recipients = recipients.clone();
            hand_over(&self.smarthost, &mail, remaining).await?;
        }
        Ok(())
    }
}

impl SinkTransport for OutgoingSink {
    fn kind(&self) -> &'static str {
        "mail"
    }

    fn target(&self) -> String {
        let smarthost = self.smarthost.get();
        smarthost.map_or_else(|| "-".to_owned(), |smarthost| smarthost.target())
    }

    fn ends_when_gone(&self) -> bool {
        false
    }

    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        remaining: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a> {
        Box::pin(self.send(batch, remaining))
    }

    fn keep<'a>(
        &'a self,
        delivery: &'a SinkDelivery,
        remaining: &'a RemainingRecipients,
        reason: &'a str,
    ) -> KeepFuture<'a> {
        Box::pin(self.keep_unsent(delivery, remaining, reason))
    }
}

/// Sends a mail once, and notes which recipients are left.
async fn hand_over(
    smarthost: &SharedTransport,
    mail: &MailSubmission,
    remaining: &mut RemainingRecipients,
) -> Result<(), AttemptFailure> {
    let smarthost = smarthost
        .get()
        .ok_or_else(|| AttemptFailure::again(NO_SMARTHOST))?;
    let refused = smarthost.send(mail).await.map_err(AttemptFailure::again)?;
    let said = |one: &RefusedRecipient| format!("{}: {}", one.address, one.reply);
    let (again, never): (Vec<_>, Vec<_>) = refused.into_iter().partition(|one| one.is_transient);
    remaining.refusals.extend(never.iter().map(said));
    let addresses = |refused: Vec<RefusedRecipient>| refused.into_iter().map(|one| one.address);
    remaining.refused.extend(addresses(never));
    let reasons: Vec<String> = again
        .iter()
        .map(said)
        .chain(remaining.refusals.clone())
        .collect();
    let is_over = again.is_empty();
    remaining.recipients = Some(addresses(again).collect());
    if !is_over {
        return Err(AttemptFailure::again(reasons.join("; ")));
    }
    if remaining.refusals.is_empty() {
        return Ok(());
    }
    Err(AttemptFailure::Refused(remaining.refusals.join("; ")))
}
