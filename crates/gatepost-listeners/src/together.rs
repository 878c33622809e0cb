//! Recipients whom several scopes judge: parted by scope, and given one answer.
//!
//! SMTP answers a message once (RFC 5321 § 4.2.5: the reply to the end of the data is for all
//! recipients). A success must not hide that some recipient's mail was refused, and a refusal must
//! not leave the mail delivered to others, since its sender would believe that nobody got it, or
//! send it to them again. So a message is taken for all recipients or for none: a scope that
//! refuses or defers decides for all. Verdicts that count as success to the sender hold for the
//! recipients of their scope only. LMTP answers each recipient and needs none of this.

use gatepost_message::{Action, Verdict};
use gatepost_procedures::ScopeId;

use crate::gateway::JudgedMail;

/// Parts the recipients of a message by the scope that judges them, in the order of each scope's first.
pub(crate) fn by_scope<T>(
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

/// Has one refusal hold for all. What may be tried again comes first: a later try tells the rest.
pub(crate) fn agree(mails: &mut [JudgedMail]) {
    if mails.len() < 2 {
        return;
    }
    // Of equals the last is the greatest, and the first recipients shall be named.
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

/// The recipients of a mail, in as many words as fit a reply.
fn named(mail: &JudgedMail) -> String {
    match mail.message().envelope.recipients.as_slice() {
        [] => String::from("all"),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}
