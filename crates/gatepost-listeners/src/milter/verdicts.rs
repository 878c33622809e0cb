//! One answer for a message whose recipients several scopes judged.
//!
//! A refusal applies to all recipients, since the mail server sends one reply
//! ([`crate::decisive_verdict`]). If the message is delivered to some, the recipients for which it
//! was dropped or quarantined are removed from it. Their copy is in Gatepost's quarantine, since
//! the mail server holds whole messages only.

use gatepost_gateway::{JudgedMail, StorageFailure};
use gatepost_message::{Action, Verdict};

use super::MilterContext;
use super::negotiation::{NegotiatedOptions, action};
use super::settings::QuarantinePlace;
use crate::decisive_verdict;

/// One verdict for the mail server.
pub(super) struct SettledVerdict {
    pub(super) verdict: Verdict,
    /// Recipients that do not receive the message.
    pub(super) without: Vec<String>,
    /// Whether the mail server holds a quarantined message.
    pub(super) held: bool,
}

/// Journals every verdict, quarantines copies, and combines the verdicts. Each verdict comes with
/// its recipients, as the mail server wrote them. If a copy cannot be stored, the mail server keeps
/// the message for all recipients.
pub(super) async fn settle(
    context: &MilterContext,
    judged: Vec<(JudgedMail, Vec<String>)>,
    agreement: NegotiatedOptions,
) -> Result<SettledVerdict, StorageFailure> {
    let (mut mails, groups): (Vec<_>, Vec<_>) = judged.into_iter().unzip();
    decisive_verdict::apply_refusal(&mut mails);
    if !agreement.may(action::DELETE_RECIPIENTS) {
        strictest_for_all(&mut mails);
    }
    let is_one = mails
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.verdict().action == b.verdict().action));
    // A mail server that cannot hold the message would discard it, and no copy would be left.
    let held = is_one
        && context.settings.quarantine == QuarantinePlace::MailServer
        && agreement.may(action::QUARANTINE);
    let mut settled = SettledVerdict {
        verdict: Verdict::new(Action::Drop, ""),
        without: Vec::new(),
        held,
    };
    let mut decided = false;
    for (mail, recipients) in mails.iter().zip(groups) {
        let verdict = note(context, mail, held).await?;
        if verdict.action == Action::Defer {
            settled.verdict = verdict;
            return Ok(settled);
        }
        if !is_one && !verdict.action.delivers() {
            settled.without.extend(recipients);
            continue;
        }
        if !decided || verdict.action > settled.verdict.action {
            settled.verdict = verdict;
            decided = true;
        }
    }
    Ok(settled)
}

async fn note(
    context: &MilterContext,
    mail: &JudgedMail,
    held: bool,
) -> Result<Verdict, StorageFailure> {
    let verdict = mail.verdict();
    if verdict.action == Action::Quarantine && !held {
        return context.gateway.quarantine_copy(mail).await;
    }
    context.gateway.journal_mail(mail);
    Ok(verdict.clone())
}

fn strictest_for_all(mails: &mut [JudgedMail]) {
    let strictest = mails.iter().max_by_key(|mail| mail.verdict().action);
    let Some(verdict) = strictest.map(|mail| mail.verdict().clone()) else {
        return;
    };
    if !verdict.action.delivers() {
        for mail in mails {
            mail.overrule(verdict.clone());
        }
    }
}
