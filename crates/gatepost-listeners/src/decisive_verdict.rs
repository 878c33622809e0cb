//! One answer for a message whose recipients several scopes judge.
//!
//! SMTP answers a message once: the reply to the end of the data is for all recipients (RFC 5321,
//! section 4.2.5). A success must not hide that mail to some recipient was refused. A refusal must
//! not leave the mail delivered to others: the sender would believe that no recipient received it,
//! or send it to them again. So a message is accepted for all recipients or for none, and a scope
//! that rejects or defers decides for all. Verdicts that count as success to the sender hold for
//! the recipients of their scope only. LMTP answers for each recipient and needs none of this.

use gatepost_gateway::JudgedMail;
use gatepost_message::{Action, Verdict};
use gatepost_procedures::ScopeId;

/// Groups the recipients of a message by the scope that judges them, in the order of each scope's
/// first recipient.
pub(crate) fn group_by_scope<T>(
    recipients: impl IntoIterator<Item = T>,
    scope_of: impl Fn(&T) -> Option<ScopeId>,
) -> Vec<Vec<T>> {
    let mut groups: Vec<(Option<ScopeId>, Vec<T>)> = Vec::new();
    for recipient in recipients {
        let scope = scope_of(&recipient);
        match groups.iter_mut().find(|(known, _)| *known == scope) {
            Some((_, group)) => group.push(recipient),
            None => groups.push((scope, vec![recipient])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Applies the decisive refusal to all parts of a message. A deferral takes precedence over a
/// rejection: the retry reveals the rejection.
pub(crate) fn apply_refusal(mails: &mut [JudgedMail]) {
    if mails.len() < 2 {
        return;
    }
    // `max_by_key` takes the last of equals; the reply must name the first, hence the reversal.
    let decisive = (0..mails.len())
        .rev()
        .max_by_key(|&number| mails[number].verdict().action.max(Action::Drop));
    let Some(decisive) = decisive else { return };
    let verdict = mails[decisive].verdict().clone();
    if !is_refusal(verdict.action) {
        return;
    }
    let for_all = Verdict {
        reason: format!("for {}: {}", named(&mails[decisive]), verdict.reason),
        ..verdict
    };
    for mail in mails.iter_mut() {
        if mail.verdict().action != for_all.action {
            let mut verdict = Verdict::new(for_all.action, for_all.reason.clone());
            verdict.procedure.clone_from(&for_all.procedure);
            mail.overrule(verdict);
        }
    }
    mails[decisive].overrule(for_all);
}

const fn is_refusal(action: Action) -> bool {
    matches!(action, Action::Reject | Action::Defer)
}

/// The recipients of a mail, short enough for a reply.
fn named(mail: &JudgedMail) -> String {
    match mail.message().envelope.recipients.as_slice() {
        [] => String::from("all"),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}
