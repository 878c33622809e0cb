//! Mail to users who allow or block its sender: such a recipient has a verdict of its own.
//!
//! The other recipients have the verdict that they would have without these lists. One case needs
//! more: in SMTP one reply is for all recipients. A rejection would take the mail from a user who
//! allows its sender, and a success must not lose the mail of the others: it is put into quarantine
//! for them.

use gatepost_gateway::{Gateway, JudgedMail};
use gatepost_message::{Action, Verdict};

use super::dialect::Dialect;
use super::recipient_group::{Part, RecipientGroup};
use super::recipients::Destination;
use super::transaction::Recipient;

/// Divides a judged mail by its recipients' own lists of senders.
pub(super) fn divide(
    gateway: &Gateway,
    dialect: Dialect,
    mail: JudgedMail,
    group: RecipientGroup,
) -> Vec<Part> {
    let mut own: Vec<(String, Verdict)> = Vec::new();
    for user in &group.mailboxes {
        if let Some(verdict) = gateway.verdict_for_mailbox(user, &mail) {
            own.push((user.clone(), verdict));
        }
    }
    if own.is_empty() {
        return vec![(mail, group)];
    }
    let is_allowed = own.iter().any(|(_, verdict)| verdict.action.delivers());
    let mut parts = Vec::new();
    let mut others = group.into_members();
    for (user, verdict) in own {
        let is_theirs = |(_, recipient): &(usize, Recipient)| {
            recipient.destination == Destination::Mailbox(user.clone())
        };
        let (theirs, rest) = others.into_iter().partition(is_theirs);
        others = rest;
        parts.push(part(&mail, theirs, verdict));
    }
    if !others.is_empty() {
        let mut verdict = mail.verdict().clone();
        if dialect == Dialect::Smtp && is_allowed && verdict.action == Action::Reject {
            verdict.action = Action::Quarantine;
            verdict.reason = format!(
                "{}; not rejected, because another recipient allows the sender",
                verdict.reason
            );
        }
        parts.push(part(&mail, others, verdict));
    }
    parts
}

fn part(mail: &JudgedMail, members: Vec<(usize, Recipient)>, verdict: Verdict) -> Part {
    let group = RecipientGroup::of(members);
    let mut mail = mail.for_recipients(group.recipients.clone(), group.topics.clone());
    mail.overrule(verdict);
    (mail, group)
}
