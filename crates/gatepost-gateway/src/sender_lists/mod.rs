//! Senders that a user allows or blocks for the user's own mailbox.
//!
//! An entry is an address, a domain, or an address with `*` and `?`, as in SpamAssassin's
//! `welcomelist_from`. It is compared with the envelope's sender and with the addresses of `From:`.
//!
//! - A blocked sender's mail is quarantined where it would have been delivered. No proof is needed:
//!   forged mail of a blocked sender is unwanted too.
//! - An allowed sender's mail is accepted regardless of the rules' score, and of a procedure's
//!   quarantine. Since both addresses can be forged, SPF, DKIM or DMARC must have confirmed the
//!   address's domain (as for `welcomelist_auth`), or the client has logged in. A virus, and a
//!   rejection or a drop by an operator's own procedure, remain in force.
//!
//! If several entries match, an address outranks a pattern, a longer pattern outranks a shorter
//! one, and blocking outranks allowing. The lists concern one mailbox each: the other recipients of
//! a mail have the verdict that they would have without them.

mod pattern;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use gatepost_mail::Mail;
use gatepost_message::{Action, Message, Verdict};
use gatepost_store::{Store, StoreChange, StoreError};

use crate::allowed_senders::{is_proven, may_override};

pub use pattern::{MalformedSenderPattern, SenderPattern};

/// The store's table: the key is the user, a NUL and the entry; the value is the listing.
const SPACE: &str = "sender_list";
/// The entries of one user.
pub const SENDER_ENTRIES_MAX: usize = 1_000;

/// The list that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SenderListing {
    /// Mail is accepted.
    Allow,
    /// Mail is quarantined.
    Block,
}

impl SenderListing {
    /// The name in the API and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
        }
    }

    /// The listing with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let both = [Self::Allow, Self::Block];
        both.into_iter().find(|listing| listing.name() == name)
    }
}

type OwnList = BTreeMap<SenderPattern, SenderListing>;

/// The lists of all users, by name.
pub(crate) struct SenderLists(ArcSwap<HashMap<String, OwnList>>);

/// An entry cannot be added.
#[derive(Debug)]
pub enum SenderListError {
    /// The user has as many entries as are permitted.
    Full,
    /// The change could not be stored.
    Store(StoreError),
}

impl fmt::Display for SenderListError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(
                formatter,
                "a user has at most {SENDER_ENTRIES_MAX} entries; remove one first"
            ),
            Self::Store(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for SenderListError {}

impl From<StoreError> for SenderListError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl SenderLists {
    pub(crate) fn load(store: &Store) -> Self {
        let records = store.records(SPACE, b"").unwrap_or_else(|error| {
            tracing::error!(target: "gateway", %error, "the lists of senders cannot be read");
            Vec::new()
        });
        let mut lists: HashMap<String, OwnList> = HashMap::new();
        for (key, value) in records {
            let key = String::from_utf8_lossy(&key);
            let listing = SenderListing::from_name(&String::from_utf8_lossy(&value));
            // Records that no version of Gatepost wrote are skipped.
            if let (Some((user, entry)), Some(listing)) = (key.split_once('\0'), listing) {
                let list = lists.entry(user.to_owned()).or_default();
                list.insert(SenderPattern::stored(entry), listing);
            }
        }
        Self(ArcSwap::from_pointee(lists))
    }

    /// A user's entries, sorted.
    pub(crate) fn of(&self, user: &str) -> Vec<(SenderPattern, SenderListing)> {
        let lists = self.0.load();
        let entries = lists.get(user).into_iter().flatten();
        entries
            .map(|(entry, listing)| (entry.clone(), *listing))
            .collect()
    }

    /// Sets the listing of an entry, or removes it; returns when the change is on disk.
    pub(crate) async fn change(
        &self,
        store: &Store,
        user: &str,
        entry: &SenderPattern,
        listing: Option<SenderListing>,
    ) -> Result<(), SenderListError> {
        let is_full = |list: &OwnList| {
            list.len() >= SENDER_ENTRIES_MAX && !list.contains_key(entry) && listing.is_some()
        };
        if self.0.load().get(user).is_some_and(is_full) {
            return Err(SenderListError::Full);
        }
        let key = Bytes::from(format!("{user}\0{entry}"));
        let change = match listing {
            Some(listing) => StoreChange::PutRecord {
                space: SPACE,
                key,
                value: Bytes::from_static(listing.name().as_bytes()),
            },
            None => StoreChange::DeleteRecord { space: SPACE, key },
        };
        store.submit([change])?.committed().await?;
        self.0.rcu(|known| {
            let mut lists = HashMap::clone(known);
            let list = lists.entry(user.to_owned()).or_default();
            match listing {
                Some(listing) => list.insert(entry.clone(), listing),
                None => list.remove(entry),
            };
            lists.retain(|_, list| !list.is_empty());
            Arc::new(lists)
        });
        Ok(())
    }

    /// Removes all entries of users who do not exist.
    pub(crate) async fn keep(
        &self,
        store: &Store,
        is_user: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        let lists = self.0.load_full();
        let gone: Vec<&String> = lists.keys().filter(|user| !is_user(user)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let changes = gone.iter().map(|user| StoreChange::DeleteRecords {
            space: SPACE,
            prefix: Bytes::from(format!("{user}\0")),
        });
        store.submit(changes)?.committed().await?;
        self.0.rcu(|known| {
            let mut lists = HashMap::clone(known);
            lists.retain(|user, _| !gone.contains(&user));
            Arc::new(lists)
        });
        Ok(())
    }

    /// The verdict for a user's mailbox if the user's list changes it.
    pub(crate) fn apply(
        &self,
        user: &str,
        message: &Message,
        verdict: &Verdict,
    ) -> Option<Verdict> {
        let lists = self.0.load();
        let list = lists.get(user)?;
        let mut senders = Mail::parse(&message.body).from_addresses();
        senders.extend(message.envelope.sender.clone());
        let listed = senders.iter().filter_map(|sender| {
            let sender = sender.to_lowercase();
            let (entry, listing) = best(list, &sender)?;
            let is_valid = listing == SenderListing::Block || is_proven(&sender, message, verdict);
            is_valid.then_some((listing, entry, sender))
        });
        // Blocking outranks allowing.
        let (listing, entry, sender) = listed.max_by_key(|(listing, ..)| *listing)?;
        let (action, word) = match listing {
            SenderListing::Block if verdict.action.delivers() => (Action::Quarantine, "blocks"),
            SenderListing::Allow if may_override(verdict, true) => (Action::Accept, "allows"),
            _ => return None,
        };
        let otherwise = verdict.action;
        let because = match verdict.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        Some(Verdict {
            action,
            reason: format!(
                "{user} {word} {sender} by the entry {entry}; otherwise {otherwise}{because}"
            ),
            ..verdict.clone()
        })
    }
}

/// The entry that decides about an address.
fn best<'a>(list: &'a OwnList, address: &str) -> Option<(&'a SenderPattern, SenderListing)> {
    let matching = list.iter().filter(|(entry, _)| entry.matches(address));
    let best = matching
        .max_by_key(|(entry, listing)| (entry.is_exact(), entry.literal_bytes(), **listing));
    best.map(|(entry, listing)| (entry, *listing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{Authentication, Envelope, Format, Listener, Peer};

    fn entry(text: &str) -> SenderPattern {
        text.parse().expect("an entry")
    }

    fn lists(entries: &[(&str, SenderListing)]) -> SenderLists {
        let list = entries
            .iter()
            .map(|(text, listing)| (entry(text), *listing));
        let lists = HashMap::from([("anna".to_owned(), list.collect())]);
        SenderLists(ArcSwap::from_pointee(lists))
    }

    fn mail(envelope_sender: &str, from: &str) -> Message {
        let envelope = Envelope {
            sender: Some(envelope_sender.to_owned()),
            ..Envelope::new(Listener::Smtp, Peer::Local)
        };
        let body = format!("From: A Sender <{from}>\r\nSubject: x\r\n\r\ntext\r\n");
        Message::new(envelope, None, Format::Mail, Bytes::from(body))
    }

    fn verdict(action: Action, procedure: &str) -> Verdict {
        Verdict {
            procedure: procedure.to_owned(),
            ..Verdict::new(action, "because")
        }
    }

    fn with_pass(domain: &str) -> Verdict {
        Verdict {
            authentication: vec![Authentication {
                method: "dkim",
                result: "pass",
                properties: vec![("header.d", domain.to_owned())],
            }],
            ..verdict(Action::Reject, "/spamcheck")
        }
    }

    #[test]
    fn the_most_specific_entry_decides() {
        use SenderListing::{Allow, Block};
        let all = lists(&[
            ("far.example", Block),
            ("otto@far.example", Allow),
            ("*@*.example", Allow),
        ]);
        let lists = all.0.load();
        let found = |address| best(&lists["anna"], address).map(|(_, listing)| listing);
        assert_eq!(found("otto@far.example"), Some(Allow));
        assert_eq!(found("eve@far.example"), Some(Block));
        assert_eq!(found("eve@near.other"), None);
        assert_eq!(found("eve@near.example"), Some(Allow));
    }

    #[test]
    fn a_blocked_sender_is_quarantined_where_it_would_be_delivered() {
        let lists = lists(&[("eve@far.example", SenderListing::Block)]);
        let after = |mail: &Message, action| {
            let verdict = lists.apply("anna", mail, &verdict(action, "/mail/own"));
            verdict.map(|verdict| verdict.action)
        };
        let by_envelope = mail("Eve@far.example", "x@near.example");
        let by_header = mail("x@near.example", "EVE@far.example");
        for mail in [by_envelope, by_header] {
            assert_eq!(after(&mail, Action::Accept), Some(Action::Quarantine));
            assert_eq!(after(&mail, Action::Tag), Some(Action::Quarantine));
            assert_eq!(after(&mail, Action::Reject), None);
            assert_eq!(lists.apply("bert", &mail, &Verdict::default()), None);
        }
        let other = mail("otto@far.example", "otto@far.example");
        assert_eq!(after(&other, Action::Accept), None);
    }

    #[test]
    fn an_allowed_sender_must_be_proven() {
        let lists = lists(&[("otto@far.example", SenderListing::Allow)]);
        let after = |mail: &Message, verdict: &Verdict| {
            lists
                .apply("anna", mail, verdict)
                .map(|verdict| verdict.action)
        };
        let genuine = mail("bounces@sender.example", "otto@far.example");
        assert_eq!(
            after(&genuine, &with_pass("far.example")),
            Some(Action::Accept)
        );
        // Another domain's signature proves nothing about this address.
        assert_eq!(after(&genuine, &with_pass("evil.example")), None);
        assert_eq!(
            after(&genuine, &verdict(Action::Reject, "/spamcheck")),
            None
        );
        let mut of_user = genuine.clone();
        of_user.envelope.user = Some("otto".to_owned());
        let by_score = verdict(Action::Reject, "/spamcheck");
        assert_eq!(after(&of_user, &by_score), Some(Action::Accept));
        let virus = verdict(Action::Quarantine, "/viruscheck");
        assert_eq!(after(&of_user, &virus), None);
        let own = verdict(Action::Reject, "/mail/own");
        assert_eq!(after(&of_user, &own), None);
    }

    #[test]
    fn blocking_outranks_allowing() {
        let lists = lists(&[
            ("otto@far.example", SenderListing::Allow),
            ("sender.example", SenderListing::Block),
        ]);
        let both = mail("x@sender.example", "otto@far.example");
        let accepted = Verdict {
            action: Action::Accept,
            ..with_pass("far.example")
        };
        let after = lists.apply("anna", &both, &accepted);
        assert_eq!(
            after.map(|verdict| verdict.action),
            Some(Action::Quarantine)
        );
    }
}
