//! Mail that an operator releases from quarantine: it follows the present routes, as if a user had
//! sent it.

use std::sync::Arc;

use gatepost_gateway::OtherDestination;
use gatepost_message::{Envelope, Listener};
use gatepost_operations::{Forwarding, MailDestination, MailRoutes, OutgoingMail};

use super::SmtpContext;
use super::path::{self, Mailbox};
use super::recipients::{ClientTrust, Destination};
use crate::forward::{BodyEncoding, HopTransaction, NextHop, RelayClient, RelayMail, RelayStart};

/// The routes of both mail listeners.
pub struct ReleaseRoutes {
    /// The routes of SMTP, also used for mail that other listeners received.
    pub smtp: Arc<SmtpContext>,
    /// The routes of LMTP.
    pub lmtp: Arc<SmtpContext>,
}

/// Recipients at one next hop.
type HopRecipients = (Arc<NextHop>, Vec<String>);

impl ReleaseRoutes {
    fn of(&self, envelope: &Envelope) -> &SmtpContext {
        match envelope.listener {
            Listener::Lmtp => &self.lmtp,
            _ => &self.smtp,
        }
    }

    fn routed(&self, envelope: &Envelope, recipient: &str) -> Result<Destination, String> {
        let mailbox = mailbox(recipient).ok_or_else(|| "not an address".to_owned())?;
        // The operator is responsible for it, so it may go to any destination of a route.
        let trust = ClientTrust {
            has_logged_in: true,
            is_trusted: true,
            connected_to: None,
        };
        let context = self.of(envelope);
        let destination = context.recipients.destination(&mailbox, trust);
        destination.map_err(|reply| format!("{} {}", reply.code, reply.text))
    }

    /// The next hops of these recipients.
    fn hops(&self, mail: &OutgoingMail) -> Result<Vec<HopRecipients>, String> {
        let mut hops: Vec<HopRecipients> = Vec::new();
        for recipient in &mail.recipients {
            let Destination::Forward(next_hop) = self.routed(&mail.envelope, recipient)? else {
                continue;
            };
            match hops.iter_mut().find(|(known, _)| *known == next_hop) {
                Some((_, recipients)) => recipients.push(recipient.clone()),
                None => hops.push((next_hop, vec![recipient.clone()])),
            }
        }
        Ok(hops)
    }

    async fn forward_mail(&self, mail: OutgoingMail) -> Result<(), String> {
        let mut taken: Vec<String> = Vec::new();
        for (next_hop, recipients) in self.hops(&mail)? {
            let said = self.send(&mail, &next_hop, &recipients).await;
            for recipient in &recipients {
                let reply = said.as_ref().unwrap_or_else(|refusal| refusal);
                let destination = OtherDestination::NextHop {
                    recipient,
                    is_accepted: said.is_ok(),
                    reply,
                };
                let gateway = &self.of(&mail.envelope).gateway;
                gateway.trace_delivery(mail.id, destination);
            }
            said.map_err(|refusal| {
                let before = taken.join(", ");
                let before = if before.is_empty() {
                    before
                } else {
                    format!(" (already forwarded for {before})")
                };
                format!(
                    "not forwarded for {}: {refusal}{before}",
                    recipients.join(", ")
                )
            })?;
            taken.extend(recipients);
        }
        Ok(())
    }

    /// One transaction at a next hop; the next hop accepts the mail for all recipients or for none.
    async fn send(
        &self,
        mail: &OutgoingMail,
        next_hop: &Arc<NextHop>,
        recipients: &[String],
    ) -> Result<String, String> {
        let context = self.of(&mail.envelope);
        let sender = mail.envelope.sender.clone().unwrap_or_default();
        let utf8 = !sender.is_ascii() || recipients.iter().any(|to| !to.is_ascii());
        let start = RelayMail {
            from: sender,
            body: BodyEncoding::of(&mail.mail),
            utf8,
            size: Some(mail.mail.len() as u64),
            parameters: Vec::new(),
        };
        let origin = RelayClient {
            address: mail.envelope.peer.ip(),
            helo: mail.envelope.client.clone(),
            protocol: "ESMTP",
        };
        let begun = HopTransaction::begin(
            next_hop,
            &context.forward,
            &context.hostname,
            &origin,
            start,
        );
        let mut relay = match begun.await.map_err(|error| error.with_cause())? {
            RelayStart::Open(relay) => relay,
            RelayStart::Refused(reply) => return Err(in_words(reply.code, &reply.text())),
        };
        for recipient in recipients {
            let reply = relay.recipient(recipient, &[]).await;
            let reply = reply.map_err(|error| error.with_cause())?;
            if !reply.is_positive() {
                relay.end().await;
                return Err(in_words(reply.code, &reply.text()));
            }
        }
        let replies = relay.deliver(&mail.mail, recipients.len()).await;
        let replies = replies.map_err(|error| error.with_cause())?;
        relay.end().await;
        let said = |reply: &crate::forward::HopReply| in_words(reply.code, &reply.text());
        match replies.iter().find(|reply| !reply.is_positive()) {
            Some(refusal) => Err(said(refusal)),
            None => Ok(replies.last().map(said).unwrap_or_default()),
        }
    }
}

impl MailRoutes for ReleaseRoutes {
    fn destination(&self, envelope: &Envelope, recipient: &str) -> Result<MailDestination, String> {
        Ok(match self.routed(envelope, recipient)? {
            Destination::Topic(topic) => MailDestination::Topic(topic),
            Destination::Mailbox(user) => MailDestination::Mailbox(user),
            Destination::Forward(next_hop) => MailDestination::NextHop(next_hop.to_string()),
        })
    }

    fn is_recipient(&self, envelope: &Envelope, recipient: &str, user: &str) -> bool {
        let recipients = &self.of(envelope).recipients;
        // The mail server of a milter may name a local user without a domain.
        match mailbox(recipient) {
            Some(mailbox) => recipients.are_for(user, &mailbox),
            None => recipient.eq_ignore_ascii_case(user),
        }
    }

    fn forward(&self, mail: OutgoingMail) -> Forwarding<'_> {
        Box::pin(self.forward_mail(mail))
    }

    fn hostname(&self) -> &str {
        &self.smtp.hostname
    }
}

/// An address without angle brackets.
fn mailbox(address: &str) -> Option<Mailbox> {
    let text = format!("<{address}>");
    let (mailbox, rest) = path::parse(&text)?;
    mailbox.filter(|_| rest.is_empty())
}

fn in_words(code: u16, text: &str) -> String {
    format!("{code} {}", text.replace('\n', " "))
}
