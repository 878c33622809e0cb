//! A complete message: judged, forwarded, published, stored; and the replies that end its
//! transaction.
//!
//! The order follows from the promise of a reply: all verdicts come first, then the next hop
//! accepts its part, and only then is the message published or stored, since the next hop's refusal
//! must reach a client that has received no success.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use gatepost_bans::Offence;
use gatepost_broker::RuleViolation;
use gatepost_gateway::{JudgedMail, OtherDestination};
use gatepost_message::{Action, Edit, EditedField, Envelope, MessageId, Qos, Score, Verdict, edit};

use super::connection::SmtpConnection;
use super::dialect::Dialect;
use super::mailbox_lists;
use super::recipient_group::{Part, RecipientGroup};
use super::recipients::Destination;
use super::reply::{self, SmtpReply};
use super::session::SmtpSession;
use super::trace;
use super::transaction::{Recipient, Transaction};
use crate::admission::file_owner;
use crate::decisive_verdict;
use crate::forward::{HopError, HopReply};
use crate::mail;
use crate::verdict_headers::{self, DeliveryFacts};

/// Has the message judged, once for each scope among its recipients, and answers: once, or in
/// LMTP for each recipient.
pub(super) async fn deliver(
    connection: &mut SmtpConnection<'_>,
    session: &SmtpSession<'_>,
    transaction: Transaction,
    body: Vec<u8>,
) -> io::Result<()> {
    // Earlier replies are sent while the procedures run.
    connection.flush().await?;
    let context = connection.context;
    let delivery = MailDelivery::new(session, &transaction);
    let body = delivery.traced(connection, session, &transaction, &body);
    let mut parts = Vec::new();
    for group in groups(connection, transaction.to) {
        let recipients = group.recipients.clone();
        let mut message = mail::message(&delivery.envelope, recipients, body.clone());
        message.qos = Qos::AtLeastOnce;
        let mail = context
            .gateway
            .judge_mail(message, group.topics.clone())
            .await;
        parts.extend(mailbox_lists::divide(
            &context.gateway,
            context.dialect,
            mail,
            group,
        ));
    }
    if context.dialect == Dialect::Smtp {
        let (mut mails, groups): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        decisive_verdict::apply_refusal(&mut mails);
        parts = mails.into_iter().zip(groups).collect();
    }
    let score = |(mail, _): &Part| mail.verdict().score;
    let is_spam = parts.iter().filter_map(score).any(Score::is_spam);
    // A mail server forwards the mail of others, and a user is identified by the login.
    if context.dialect == Dialect::Smtp && session.user().is_none() && is_spam {
        connection.note(Offence::Spam);
    }
    let mut replies = delivery.forward_parts(connection, &mut parts).await;
    for (mail, group) in parts {
        let said = delivery.carry_out(connection, mail, &group).await;
        for &(place, forwarded) in &group.places {
            // The next hop's reply for a recipient is passed to the client.
            if !(forwarded && replies.iter().any(|(known, _)| *known == place)) {
                replies.push((place, said.clone()));
            }
        }
    }
    answer(connection, replies);
    Ok(())
}

/// Journals mail that remains with the client because the next hop did not prove its identity:
/// there is no message yet, but an operator must see the reason.
pub(super) fn journal_distrust(
    connection: &SmtpConnection<'_>,
    session: &SmtpSession<'_>,
    recipient: &str,
    error: &HopError,
) {
    let Some(transaction) = session.transaction() else {
        return;
    };
    let envelope = MailDelivery::new(session, transaction).envelope;
    let message = mail::message(&envelope, vec![recipient.to_owned()], Bytes::new());
    let verdict = Verdict::new(Action::Defer, error.to_string());
    let gateway = &connection.context.gateway;
    gateway.journal(&message, &verdict, Duration::ZERO);
}

fn answer(connection: &mut SmtpConnection<'_>, mut replies: Vec<(usize, SmtpReply)>) {
    match connection.context.dialect {
        Dialect::Smtp => {
            // A refusal of one group takes precedence over another group's success.
            let one = replies.into_iter().max_by_key(|(place, reply)| {
                (reply.code >= 400, reply.code < 500, Reverse(*place))
            });
            if let Some((_, reply)) = one {
                connection.push_reply(&reply);
            }
        }
        Dialect::Lmtp => {
            replies.sort_by_key(|(place, _)| *place);
            for (_, reply) in &replies {
                connection.push_reply(reply);
            }
        }
    }
}

/// Facts about a message that hold for all groups of its recipients.
struct MailDelivery {
    id: MessageId,
    envelope: Envelope,
}

impl MailDelivery {
    fn new(session: &SmtpSession<'_>, transaction: &Transaction) -> Self {
        let sender = transaction.from.as_ref();
        let sender = sender.map(|from| from.address.clone());
        Self {
            id: MessageId::next(),
            envelope: Envelope {
                client: session.helo().map(str::to_owned),
                user: session.user().map(str::to_owned),
                sender: Some(sender.unwrap_or_default()),
                ..Envelope::new(session.listener(), session.peer())
            },
        }
    }

    /// The message with the server's Received field in front.
    fn traced(
        &self,
        connection: &SmtpConnection<'_>,
        session: &SmtpSession<'_>,
        transaction: &Transaction,
        body: &[u8],
    ) -> Bytes {
        let hostname = &connection.context.hostname;
        let field = trace::received_field(hostname, session, transaction, self.id);
        let mut message = Vec::with_capacity(field.len() + body.len());
        message.extend_from_slice(field.as_bytes());
        message.extend_from_slice(body);
        message.into()
    }

    /// Sends every part with forwarded recipients to the next hop. A refusal of the next hop
    /// becomes the part's verdict, and in SMTP the verdict of all parts.
    async fn forward_parts(
        &self,
        connection: &mut SmtpConnection<'_>,
        parts: &mut [Part],
    ) -> Vec<(usize, SmtpReply)> {
        let mut replies = Vec::new();
        for number in 0..parts.len() {
            let Some((mail, group)) = parts.get(number) else {
                continue;
            };
            if group.forwards.is_empty() || !mail.verdict().action.delivers() {
                continue;
            }
            let marked = self.marked(connection, mail);
            let said = match send(connection, group, &marked).await {
                Ok(said) => said.iter().map(reply::of_hop).collect(),
                Err(error) => {
                    connection.relay = None;
                    let cause = error.with_cause();
                    tracing::warn!(
                        target: "smtp",
                        message = %mail.message().id,
                        "not forwarded: {cause}",
                    );
                    vec![reply::of_hop_error(&error)]
                }
            };
            note_next_hop(connection, mail.message().id, &group.forwards, &said);
            let places = group.places.iter().filter(|(_, forwarded)| *forwarded);
            for (turn, (place, _)) in places.enumerate() {
                // One reply is for all recipients; LMTP gave one for each.
                if let Some(reply) = said.get(turn).or(said.last()) {
                    replies.push((*place, reply.clone()));
                }
            }
            let refusal = said
                .iter()
                .filter(|reply| reply.code >= 400)
                .max_by_key(|it| it.code < 500);
            let Some(refusal) = refusal else { continue };
            let verdict = verdict_of(refusal);
            if connection.context.dialect == Dialect::Smtp {
                for (mail, _) in parts.iter_mut() {
                    mail.overrule(verdict.clone());
                }
                break;
            }
            if let Some((mail, _)) = parts.get_mut(number) {
                mail.overrule(verdict);
            }
        }
        if let Some(relay) = connection.relay.take() {
            relay.end().await;
        }
        replies
    }

    /// The mail as it is forwarded or stored: with the procedures' changes and the verdict headers.
    fn marked(&self, connection: &SmtpConnection<'_>, mail: &JudgedMail) -> Bytes {
        let context = connection.context;
        let facts = DeliveryFacts {
            hostname: &context.hostname,
            user: self.envelope.user.as_deref(),
        };
        let body = &mail.message().body;
        let edits = verdict_headers::edits(
            &context.settings.verdict_headers,
            body,
            mail.verdict(),
            facts,
        );
        edit::apply(body, &edits)
    }

    /// Publishes, stores and journals the local recipients of a part; returns the reply for its
    /// recipients.
    async fn carry_out(
        &self,
        connection: &SmtpConnection<'_>,
        mut mail: JudgedMail,
        group: &RecipientGroup,
    ) -> SmtpReply {
        let gateway = &connection.context.gateway;
        let delivers = mail.verdict().action.delivers();
        let is_ours = !group.topics.is_empty() || !group.mailboxes.is_empty();
        let id = mail.message().id;
        if delivers && !is_ours {
            // The next hop has accepted all of it, so no local change must be on disk first.
            gateway.journal_mail(&mail);
            return reply::of_verdict(id, mail.verdict());
        }
        if delivers && !group.mailboxes.is_empty() {
            let kept = self.with_return_path(self.marked(connection, &mail));
            mail.deliver_to_mailboxes(&group.mailboxes, &kept);
        }
        let settings = &connection.context.settings;
        let image = if settings.attach_image {
            let (client, is_anonymous) =
                file_owner(self.envelope.user.as_deref(), self.envelope.peer);
            gateway.attach_image(&mut mail, client, is_anonymous).await
        } else {
            None
        };
        let outcome = gateway.carry_out(mail, settings.payload).await;
        if let Some(image) = image.filter(|_| !outcome.verdict.action.delivers()) {
            gateway.discard_file(&image).await;
        }
        if outcome.verdict.action.delivers() {
            for user in &group.mailboxes {
                gateway.trace_delivery(id, OtherDestination::Mailbox(user));
            }
        }
        if let Some(failure) = outcome.storage_failure {
            return reply::of_storage_failure(failure);
        }
        if let Some(RuleViolation::PayloadTooLarge(_)) = outcome.violation {
            return SmtpReply::with(552, "5.3.4", outcome.verdict.reason);
        }
        reply::of_verdict(id, &outcome.verdict)
    }

    /// RFC 5321, section 4.4: the server that makes the final delivery records the return path.
    fn with_return_path(&self, mail: Bytes) -> Bytes {
        let sender = self.envelope.sender.as_deref().unwrap_or_default();
        let field = EditedField::new("Return-Path", &format!("<{sender}>"));
        match field {
            Ok(field) => edit::apply(&mail, &[Edit::PrependField(field)]),
            Err(_) => mail,
        }
    }
}

/// Sends the next hop a part of the message, in a new transaction if the open one has other
/// recipients.
async fn send(
    connection: &mut SmtpConnection<'_>,
    group: &RecipientGroup,
    message: &[u8],
) -> Result<Vec<HopReply>, HopError> {
    let Some(relay) = &mut connection.relay else {
        return Err(HopError::Broken(io::ErrorKind::NotConnected.into()));
    };
    if !relay.is_for(&group.forwards)
        && let Some(refusal) = relay.narrow(&group.forwards).await?
    {
        return Ok(vec![refusal]);
    }
    relay.deliver(message, group.forwards.len()).await
}

/// Records the next hop's reply for each recipient in the message's story.
fn note_next_hop(
    connection: &SmtpConnection<'_>,
    message: MessageId,
    forwards: &[String],
    said: &[SmtpReply],
) {
    for (turn, recipient) in forwards.iter().enumerate() {
        // One reply is for all recipients; LMTP gave one for each.
        let Some(reply) = said.get(turn).or(said.last()) else {
            continue;
        };
        let text = format!("{} {}", reply.code, reply.text.replace('\n', " "));
        let destination = OtherDestination::NextHop {
            recipient,
            is_accepted: reply.code < 400,
            reply: &text,
        };
        let gateway = &connection.context.gateway;
        gateway.trace_delivery(message, destination);
    }
}

/// The verdict that the journal records for a refusal by the next hop.
fn verdict_of(refusal: &SmtpReply) -> Verdict {
    let action = if refusal.code < 500 {
        Action::Defer
    } else {
        Action::Reject
    };
    let text = refusal.text.replace('\n', " ");
    Verdict::new(
        action,
        format!("the next hop replied {} {text}", refusal.code),
    )
}

/// The recipients that are judged together.
fn groups(connection: &SmtpConnection<'_>, to: Vec<Recipient>) -> Vec<RecipientGroup> {
    let procedures = connection.context.gateway.procedures();
    let listener = connection.context.dialect.listener();
    let groups = decisive_verdict::group_by_scope(to.into_iter().enumerate(), |(_, recipient)| {
        let topic = match &recipient.destination {
            Destination::Topic(topic) => Some(topic.as_str()),
            Destination::Mailbox(_) | Destination::Forward(_) => None,
        };
        let address = std::slice::from_ref(&recipient.mailbox.address);
        procedures.scope_for(listener, topic, address)
    });
    groups.into_iter().map(RecipientGroup::of).collect()
}
