//! Mail in two steps: judged first, executed afterwards.
//!
//! A sender gets one answer for recipients that several scopes judge, so every verdict must be
//! known before anything is delivered.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Message, MessageId, Topic, Verdict};
use gatepost_store::MailboxDelivery;

use crate::gateway::{Gateway, GatewaySubmission, SubmissionOutcome, TimedVerdict};
use crate::mail_payload::{self, MailPayload};

/// A mail whose verdict is known and which has not been delivered.
#[must_use = "a mail that is not carried out is lost"]
pub struct JudgedMail {
    pub(crate) message: Arc<Message>,
    pub(crate) topics: Vec<Topic>,
    for_mailboxes: Option<MailboxDelivery>,
    pub(crate) judgement: TimedVerdict,
}

impl JudgedMail {
    /// When it is carried out, `mail` is delivered to the mailboxes of these users.
    pub fn deliver_to_mailboxes(&mut self, users: &[String], mail: &Bytes) {
        self.for_mailboxes = Some(MailboxDelivery {
            users: users.to_owned(),
            id: self.message.id,
            mail: mail.clone(),
        });
    }

    /// The same mail, judged the same, for some of its recipients. It has an id of its own.
    pub fn for_recipients(&self, recipients: Vec<String>, topics: Vec<Topic>) -> Self {
        let mut message = Message::clone(&self.message);
        message.id = MessageId::next();
        message.envelope.recipients = recipients;
        message.topic = topics.first().cloned();
        Self {
            message: Arc::new(message),
            topics,
            for_mailboxes: None,
            judgement: TimedVerdict {
                verdict: self.judgement.verdict.clone(),
                duration: self.judgement.duration,
            },
        }
    }

    /// The mail as it arrived.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The verdict of the procedures.
    pub fn verdict(&self) -> &Verdict {
        &self.judgement.verdict
    }

    /// Replaces the verdict of the procedures.
    pub fn overrule(&mut self, verdict: Verdict) {
        self.judgement.verdict = verdict;
    }
}

impl Gateway {
    /// Judges a mail and does nothing else. Scopes see the first topic.
    pub async fn judge_mail(&self, mut message: Message, topics: Vec<Topic>) -> JudgedMail {
        message.topic = topics.first().cloned();
        let message = Arc::new(message);
        let judgement = self.judge(&message).await;
        JudgedMail {
            message,
            topics,
            for_mailboxes: None,
            judgement,
        }
    }

    /// The verdict on a mail for a user's mailbox, if the user's list of senders changes it.
    pub fn verdict_for_mailbox(&self, user: &str, mail: &JudgedMail) -> Option<Verdict> {
        self.sender_lists()
            .apply(user, mail.message(), mail.verdict())
    }

    /// Executes the verdict of a mail: publishes it under each of its topics in the form `payload`
    /// and delivers it to mailboxes, or quarantines it.
    pub async fn carry_out(&self, mail: JudgedMail, payload: MailPayload) -> SubmissionOutcome {
        let JudgedMail {
            message,
            topics,
            for_mailboxes,
            judgement,
        } = mail;
        let rendered = mail_payload::render(&message, payload, &judgement.verdict).await;
        let submission = GatewaySubmission {
            arrived: &message,
            edited: &message,
            topics: &topics,
            is_journaled: true,
        };
        self.finish(submission, for_mailboxes, judgement, &rendered)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_broker::{Broker, BrokerSettings};
    use gatepost_message::{Action, Envelope, Format, Listener, Peer};
    use gatepost_procedures::{DeferredRules, Procedures, ProceduresConfiguration};
    use gatepost_store::Store;
    use std::time::Duration;

    #[tokio::test]
    async fn a_quarantined_message_is_kept_although_no_scope_was_known_before() {
        let store = Store::in_memory().expect("memory");
        let broker = Broker::open(BrokerSettings::default(), store.clone()).expect("a broker");
        let rules = DeferredRules::new(|| None, |_| ());
        let started = Procedures::start(ProceduresConfiguration::default(), rules);
        let (procedures, _) = started.expect("no mistakes");
        let gateway = Gateway::new(procedures, Arc::new(broker), store.clone());
        let envelope = Envelope::new(Listener::Http, Peer::Local);
        let topic = Topic::new("sensors/1").ok();
        let body = Bytes::from_static(b"21");
        let message = Message::new(envelope, topic, Format::Payload, body);
        let rendered = mail_payload::RenderedPayload::of_body(&message);
        assert!(!gateway.is_journaled(&message));
        let submission = GatewaySubmission {
            arrived: &message,
            edited: &message,
            topics: message.topic.as_slice(),
            is_journaled: false,
        };
        let judgement = TimedVerdict {
            verdict: Verdict::new(Action::Quarantine, "suspicious"),
            duration: Duration::ZERO,
        };
        let outcome = gateway.finish(submission, None, judgement, &rendered).await;
        assert_eq!(outcome.verdict.action, Action::Quarantine);
        assert!(store.quarantined(message.id).expect("read").is_some());
    }
}
