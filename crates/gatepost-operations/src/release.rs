//! Releases from quarantine: a message goes to the destinations of its recipients' mail, or to
//! those that the operator names. Mail of the server itself goes to the smarthost again.
//!
//! Next hops come first: messages that they refuse must stay in quarantine. Topics follow. Once
//! those are on disk, mailboxes follow in one commit with the end of the quarantine, or before it
//! in a cluster, in which one node at a time may release a message.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use gatepost_gateway::ReleaseTargets;
use gatepost_message::{Action, Edit, EditedField, Listener, MessageId, Topic, Verdict, edit};
use gatepost_sinks::MailSubmission;
use gatepost_store::QuarantineEntry;

use crate::error::OperationError;
use crate::mail_routes::{MailDestination, OutgoingMail};
use crate::operations::Operations;
use crate::unsent_mail;

/// A request to release a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The recipients instead of its own.
    pub recipients: Option<Vec<String>>,
    /// Whether mailboxes and next hops get it as an attachment.
    pub as_attachment: bool,
    /// Whether the message stays in quarantine, for other recipients.
    pub stays_quarantined: bool,
}

/// The outcome of a release.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    /// `accept`, or `defer` with the reason where the message stays in quarantine.
    pub verdict: Verdict,
    /// Subscribers that got it.
    pub subscribers: u64,
    /// The topics, mailboxes and recipients at next hops.
    pub destinations: Vec<String>,
}

/// The destinations of a message.
#[derive(Debug, Default)]
struct ReleasePlan {
    topics: Vec<Topic>,
    mailboxes: Vec<String>,
    forwards: Vec<String>,
    /// The mail for the smarthost.
    outgoing: Option<MailSubmission>,
    /// The reasons why recipients have no destination.
    refused: Vec<String>,
}

impl ReleasePlan {
    const fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.mailboxes.is_empty() && self.forwards.is_empty()
    }

    fn add(&mut self, destination: MailDestination, recipient: &str) {
        match destination {
            MailDestination::Topic(topic) if !self.topics.contains(&topic) => {
                self.topics.push(topic);
            }
            MailDestination::Mailbox(user) if !self.mailboxes.contains(&user) => {
                self.mailboxes.push(user);
            }
            MailDestination::NextHop(_) => self.forwards.push(recipient.to_owned()),
            MailDestination::Topic(_) | MailDestination::Mailbox(_) => {}
        }
    }

    fn destinations(&self) -> Vec<String> {
        let topics = self.topics.iter().map(|topic| format!("topic {topic}"));
        let mailboxes = self.mailboxes.iter().map(|user| format!("mailbox {user}"));
        let forwards = self.forwards.iter().map(|to| format!("next hop {to}"));
        let outgoing = self.outgoing.iter().flat_map(|mail| &mail.recipients);
        let outgoing = outgoing.map(|to| format!("smarthost {to}"));
        let local = topics.chain(mailboxes);
        local.chain(forwards).chain(outgoing).collect()
    }
}

impl Operations {
    /// Releases a message as if it had been accepted, and takes it out of quarantine unless it
    /// stays there for others.
    pub async fn release(
        &self,
        id: MessageId,
        request: ReleaseRequest,
    ) -> Result<Released, OperationError> {
        // Another request, or another node of a cluster, may release it at the same time.
        let claim = self.store.claim_quarantined(id).await?;
        let in_use = || OperationError::Conflict(Cow::Borrowed("the message is being released"));
        let mut claim = claim.ok_or_else(in_use)?;
        let released = self.release_claimed(id, request).await;
        if let Err(error) = claim.release().await {
            tracing::debug!(target: "quarantine", message = %id, %error, "a claim expires later");
        }
        released
    }

    async fn release_claimed(
        &self,
        id: MessageId,
        request: ReleaseRequest,
    ) -> Result<Released, OperationError> {
        let entry = self
            .blocking(move |operations| operations.entry(id))
            .await?;
        let plan = self.plan(&entry, request.recipients.as_deref())?;
        let destinations = plan.destinations();
        let mail = if request.as_attachment {
            self.attached(&entry, &plan)
        } else {
            entry.body.clone()
        };
        let forwarded = match &plan.outgoing {
            Some(mail) => self
                .mail
                .queue(mail)
                .await
                .map_err(|error| error.to_string()),
            None => self.forward(&entry, &plan, &request, mail.clone()).await,
        };
        if let Err(refusal) = forwarded {
            let reason = format!("{refusal}; the message stays in quarantine");
            return Ok(Released {
                verdict: Verdict::new(Action::Defer, reason),
                subscribers: 0,
                destinations: Vec::new(),
            });
        }
        let targets = ReleaseTargets {
            topics: plan.topics,
            mailboxes: plan.mailboxes,
            mail: with_return_path(&entry, mail),
            stays_quarantined: request.stays_quarantined,
        };
        let outcome = self.gateway.release(entry, self.payload, targets).await;
        Ok(Released {
            verdict: outcome.verdict,
            subscribers: outcome.deliveries,
            destinations,
        })
    }

    /// The destinations of the message: all topics that it was for, and the mailboxes and next hops
    /// of its recipients as the routes are now; or those of the other recipients requested.
    fn plan(
        &self,
        entry: &QuarantineEntry,
        recipients: Option<&[String]>,
    ) -> Result<ReleasePlan, OperationError> {
        if recipients.is_none()
            && let Some(outgoing) = unsent_mail::submission_of(entry)
        {
            return Ok(ReleasePlan {
                outgoing: Some(outgoing),
                ..ReleasePlan::default()
            });
        }
        let envelope = &entry.journal.envelope;
        let mut plan = ReleasePlan::default();
        if recipients.is_none() {
            plan.topics.extend_from_slice(entry.journal.all_topics());
        }
        let is_routed = matches!(
            envelope.listener,
            Listener::Smtp | Listener::Lmtp | Listener::Milter
        );
        let own = if is_routed {
            envelope.recipients.as_slice()
        } else {
            &[]
        };
        for recipient in recipients.unwrap_or(own) {
            let Some(routes) = &self.mail_routes else {
                break;
            };
            match routes.destination(envelope, recipient) {
                // Its topic is among those that the message was for.
                Ok(MailDestination::Topic(_)) if recipients.is_none() => {}
                Ok(destination) => plan.add(destination, recipient),
                Err(refusal) => plan.refused.push(format!("{recipient}: {refusal}")),
            }
        }
        let is_incomplete = recipients.is_some() && !plan.refused.is_empty();
        if plan.is_empty() || is_incomplete {
            return Err(no_destination(&plan, envelope.listener));
        }
        Ok(plan)
    }

    async fn forward(
        &self,
        entry: &QuarantineEntry,
        plan: &ReleasePlan,
        request: &ReleaseRequest,
        mail: Bytes,
    ) -> Result<(), String> {
        let Some(routes) = self
            .mail_routes
            .as_ref()
            .filter(|_| !plan.forwards.is_empty())
        else {
            return Ok(());
        };
        let mut envelope = entry.journal.envelope.clone();
        if request.as_attachment {
            // A bounce of this mail must not reach the sender of the quarantined message.
            envelope.sender = Some(String::new());
        }
        let outgoing = OutgoingMail {
            id: entry.journal.id,
            envelope,
            recipients: plan.forwards.clone(),
            mail,
        };
        routes.forward(outgoing).await
    }

    /// A mail of this server with the message as an attachment, which no program of the reader
    /// opens by itself.
    fn attached(&self, entry: &QuarantineEntry, plan: &ReleasePlan) -> Bytes {
        let hostname = self
            .mail_routes
            .as_ref()
            .map_or("localhost", |routes| routes.hostname());
        let journal = &entry.journal;
        let to = plan.forwards.iter().chain(&plan.mailboxes);
        let to: Vec<&str> = to.map(String::as_str).collect();
        let id = MessageId::next();
        let boundary = format!("gatepost-{id}");
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "From: Gatepost <postmaster@{hostname}>\r\n\
             To: {}\r\n\
             Subject: Released from quarantine: {}\r\n\
             Date: {}\r\n\
             Message-ID: <{id}@{hostname}>\r\n\
             Auto-Submitted: auto-generated\r\n\
             MIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\
             \r\n\
             --{boundary}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\
             \r\n\
             The attached message was in quarantine. It was kept because: {}\r\n\
             \r\n\
             --{boundary}\r\n\
             Content-Type: message/rfc822\r\n\
             Content-Disposition: attachment; filename=\"{}.eml\"\r\n\
             \r\n",
            one_line(&to.join(", ")),
            ascii(journal.subject.as_deref().unwrap_or("(no subject)")),
            date(id),
            one_line(&journal.reason),
            journal.id,
        );
        let mut mail = text.into_bytes();
        mail.extend_from_slice(&entry.body);
        mail.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        mail.into()
    }
}

/// The reason why a message cannot be released.
fn no_destination(plan: &ReleasePlan, listener: Listener) -> OperationError {
    let reason = if !plan.refused.is_empty() {
        plan.refused.join("; ")
    } else if listener == Listener::Milter {
        "no route of listeners.smtp leads back to its mail server: release its own copy there, or \
         name recipients"
            .to_owned()
    } else {
        "the message has no topic and no recipient; name recipients".to_owned()
    };
    OperationError::Nowhere(reason)
}

/// RFC 5321, section 4.4: the server that makes the final delivery records the return path.
fn with_return_path(entry: &QuarantineEntry, mail: Bytes) -> Bytes {
    let sender = entry.journal.envelope.sender.as_deref();
    let field = EditedField::new("Return-Path", &format!("<{}>", sender.unwrap_or_default()));
    match field {
        Ok(field) => edit::apply(&mail, &[Edit::PrependField(field)]),
        Err(_) => mail,
    }
}

/// The text without what could end a header field or a line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The same for a field that has no encoding.
fn ascii(text: &str) -> String {
    one_line(text).replace(|character: char| !character.is_ascii(), "?")
}

/// RFC 5322, section 3.3.
fn date(id: MessageId) -> String {
    let time = time::OffsetDateTime::from(id.time());
    let format = time::format_description::well_known::Rfc2822;
    time.format(&format).unwrap_or_default()
}
