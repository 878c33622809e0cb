//! Senders whose mail is always accepted, because an operator allowed them.
//!
//! The list applies where `/spamcheck` decided by the rules' score, or where a procedure would
//! quarantine the mail. It never overrides a virus, nor a rejection or a drop by an operator's own
//! procedure, even if the mail was scored before. It compares the envelope's sender, which can be
//! forged: if SPF, DKIM or DMARC were checked, one of them must confirm the sender's domain. If no
//! DNS server was queried (`rules.network = false`), the list overrides the rules' score only: mail
//! that an operator's own procedure quarantines stays there.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use gatepost_message::{Action, Format, Message, Verdict};
use gatepost_procedures::KnownSenders;
use gatepost_store::{SharedEntry, SharedSet, Store, StoreChange, StoreError};
use parking_lot::Mutex;

/// The store's table: the address is the key.
const SPACE: &str = "allowed_sender";
/// The records that all servers of a cluster share: each address is an entry.
pub static SHARED_SENDERS: SharedSet = SharedSet {
    name: SPACE,
    is_generated: false,
    spaces: &[SPACE],
    entry_of: |_, key, _| String::from_utf8(key.to_vec()).ok(),
};
/// The procedure whose verdict by score is overridden for an allowed sender.
const SPAM_CHECK: &str = "/spamcheck";
/// The procedure whose verdict applies to every sender.
const VIRUS_CHECK: &str = "/viruscheck";

/// The addresses, in lower case. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct AllowedSenders(Arc<SharedSenders>);

#[derive(Default)]
struct SharedSenders {
    addresses: ArcSwap<BTreeSet<String>>,
    /// Held while the addresses are read, so that an earlier reading does not replace a later one.
    reading: Mutex<()>,
}

impl AllowedSenders {
    pub(crate) fn load(store: &Store) -> Self {
        let senders = Self::default();
        if let Err(error) = senders.reload(store) {
            tracing::error!(target: "gateway", %error, "the allowed senders cannot be read");
        }
        senders
    }

    /// Reads the addresses again, after a change.
    pub(crate) fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let _reading = self.0.reading.lock();
        let records = store.records(SPACE, b"")?;
        let address = |key: &[u8]| String::from_utf8(key.to_vec()).ok();
        let addresses = records.iter().filter_map(|(key, _)| address(key));
        self.0.addresses.store(Arc::new(addresses.collect()));
        Ok(())
    }

    /// The addresses, sorted.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.0.addresses.load().iter().cloned().collect()
    }

    /// Adds an address to the list, or removes it; returns when the change is durable.
    pub(crate) async fn change(
        &self,
        store: &Store,
        address: &str,
        allowed: bool,
    ) -> Result<(), StoreError> {
        let address = address.to_lowercase();
        let key = Bytes::from(address.clone());
        let change = if allowed {
            let value = Bytes::from_static(b"{}");
            StoreChange::PutRecord {
                space: SPACE,
                key,
                value,
            }
        } else {
            StoreChange::DeleteRecord { space: SPACE, key }
        };
        let entry = SharedEntry {
            set: &SHARED_SENDERS,
            name: &address,
        };
        let change = || Ok::<_, StoreError>(vec![change.clone()]);
        store.change_entry(entry, change).await?;
        self.reload(store)
    }

    /// The verdict on a message with the list applied.
    pub(crate) fn apply(&self, message: &Message, verdict: Verdict) -> Verdict {
        let is_verified = !is_unknown(message, &verdict);
        if !may_override(&verdict, is_verified) || message.format != Format::Mail {
            return verdict;
        }
        let Some(sender) = &message.envelope.sender else {
            return verdict;
        };
        let sender = sender.to_lowercase();
        if !self.0.addresses.load().contains(&sender) || !is_confirmed(&sender, message, &verdict) {
            return verdict;
        }
        let instead = verdict.action;
        let because = if verdict.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", verdict.reason)
        };
        Verdict {
            action: Action::Accept,
            reason: format!("{sender} is an allowed sender; otherwise {instead}{because}"),
            ..verdict
        }
    }
}

impl KnownSenders for AllowedSenders {
    fn has(&self, address: &str) -> bool {
        self.0.addresses.load().contains(&address.to_lowercase())
    }
}

/// Whether an allowed sender overrides the verdict: one by the rules' score, or, for a verified
/// sender, a procedure's quarantine.
pub(crate) fn may_override(verdict: &Verdict, is_verified: bool) -> bool {
    let is_by_score = verdict.procedure == SPAM_CHECK;
    match verdict.action {
        Action::Accept => false,
        Action::Quarantine if is_by_score => true,
        Action::Quarantine => verdict.procedure != VIRUS_CHECK && is_verified,
        Action::Tag | Action::Drop | Action::Reject | Action::Defer => is_by_score,
    }
}

/// Whether the envelope's sender is unverified: its client has not logged in, and no rule checked
/// SPF, DKIM or DMARC.
fn is_unknown(message: &Message, verdict: &Verdict) -> bool {
    message.envelope.user.is_none() && verdict.authentication.is_empty()
}

/// Whether the envelope's sender is plausible: its client has logged in, no rule checked SPF, DKIM
/// or DMARC, or one of them passed for the sender's domain.
fn is_confirmed(sender: &str, message: &Message, verdict: &Verdict) -> bool {
    is_unknown(message, verdict) || is_proven(sender, message, verdict)
}

/// Whether a sender, in lower case, is proven: its client has logged in, or SPF, DKIM or DMARC
/// passed for the sender's domain.
pub(crate) fn is_proven(sender: &str, message: &Message, verdict: &Verdict) -> bool {
    if message.envelope.user.is_some() {
        return true;
    }
    let domain = domain_of(sender);
    verdict.authentication.iter().any(|result| {
        result.result == "pass"
            && result.properties.iter().any(|(name, value)| {
                let confirms = matches!(*name, "smtp.mailfrom" | "header.d" | "header.from");
                confirms && is_same_or_parent(domain_of(value), domain)
            })
    })
}

fn domain_of(address: &str) -> &str {
    address.rsplit('@').next().unwrap_or(address)
}

/// Whether `domain` is `parent` or a subdomain of it.
fn is_same_or_parent(parent: &str, domain: &str) -> bool {
    let parent = parent.to_ascii_lowercase();
    let above = domain.strip_suffix(parent.as_str());
    !parent.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{Authentication, Envelope, Listener, Peer, Score};

    fn list() -> AllowedSenders {
        let addresses = BTreeSet::from(["otto@far.example".to_owned()]);
        let senders = AllowedSenders::default();
        senders.0.addresses.store(Arc::new(addresses));
        senders
    }

    fn mail(user: Option<&str>) -> Message {
        let envelope = Envelope {
            sender: Some("Otto@far.example".to_owned()),
            user: user.map(str::to_owned),
            ..Envelope::new(Listener::Smtp, Peer::Local)
        };
        Message::new(envelope, None, Format::Mail, Bytes::from_static(b"\r\n"))
    }

    fn verdict(action: Action, procedure: &str) -> Verdict {
        Verdict {
            procedure: procedure.into(),
            score: Some(Score {
                value: 9.0,
                required: 5.0,
            }),
            ..Verdict::new(action, "because")
        }
    }

    fn after(action: Action, procedure: &str) -> Action {
        list().apply(&mail(None), verdict(action, procedure)).action
    }

    #[test]
    fn only_the_score_and_quarantine_are_overridden() {
        assert_eq!(after(Action::Reject, SPAM_CHECK), Action::Accept);
        assert_eq!(after(Action::Quarantine, SPAM_CHECK), Action::Accept);
        assert_eq!(after(Action::Quarantine, VIRUS_CHECK), Action::Quarantine);
        // Nothing confirms the sender, which a login would do.
        let own = || verdict(Action::Quarantine, "/mail/own");
        let anybodys = list().apply(&mail(None), own());
        assert_eq!(anybodys.action, Action::Quarantine);
        let anna = list().apply(&mail(Some("anna")), own());
        assert_eq!(anna.action, Action::Accept);
        // Scored by /spamcheck before, and rejected by an operator's own procedure.
        assert_eq!(after(Action::Reject, "/mail/block"), Action::Reject);
        assert_eq!(after(Action::Drop, "/mail/block"), Action::Drop);
        assert_eq!(after(Action::Defer, "/mail/block"), Action::Defer);
    }

    #[test]
    fn required_authentication_must_confirm_the_domain() {
        let result = |method, result, property: (&'static str, &str)| Authentication {
            method,
            result,
            properties: vec![(property.0, property.1.to_owned())],
        };
        for (found, user, expected) in [
            (
                result("spf", "fail", ("smtp.mailfrom", "otto@far.example")),
                None,
                Action::Reject,
            ),
            (
                result("spf", "pass", ("smtp.mailfrom", "otto@far.example")),
                None,
                Action::Accept,
            ),
            (
                result("spf", "pass", ("smtp.mailfrom", "x@evil.example")),
                None,
                Action::Reject,
            ),
            (
                result("dkim", "pass", ("header.d", "evilfar.example")),
                None,
                Action::Reject,
            ),
            (
                result("dkim", "pass", ("header.d", "far.example")),
                None,
                Action::Accept,
            ),
            (
                result("spf", "none", ("smtp.mailfrom", "otto@far.example")),
                Some("anna"),
                Action::Accept,
            ),
        ] {
            let mut rejected = verdict(Action::Reject, SPAM_CHECK);
            rejected.authentication = vec![found.clone()];
            let action = list().apply(&mail(user), rejected).action;
            assert_eq!(action, expected, "{found:?}");
        }
    }
}
