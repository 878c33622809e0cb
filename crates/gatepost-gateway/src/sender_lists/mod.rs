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
//!
//! All servers of a cluster share the lists; each user's list is an entry. A server decides by the
//! copy in memory, which is read from the database again after each change.

mod pattern;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use gatepost_mail::Mail;
use gatepost_message::{Action, Message, Verdict};
use gatepost_store::{SharedEntry, SharedSet, Store, StoreChange, StoreError};
use parking_lot::Mutex;

use crate::allowed_senders::{is_proven, may_override};

pub use pattern::{MalformedSenderPattern, SenderPattern};

/// The store's table: the key is the user, a NUL and the entry; the value is the listing.
const SPACE: &str = "sender_list";
/// The records that all servers of a cluster share: an entry has the list of one user.
pub static SHARED_SENDER_LISTS: SharedSet = SharedSet {
    name: SPACE,
    is_generated: false,
    spaces: &[SPACE],
    entry_of: |_, key, _| Some(split_key(key)?.0.to_owned()),
};
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
type ListsByUser = HashMap<String, OwnList>;

/// The lists of all users.
#[derive(Default)]
pub(crate) struct SenderLists {
    lists: ArcSwap<ListsByUser>,
    /// Held from reading the database until the lists are replaced, so that an earlier state does
    /// not replace a later one.
    reading: Mutex<()>,
}

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
        let lists = Self::default();
        if let Err(error) = lists.reload(store) {
            tracing::error!(target: "gateway", %error, "the lists of senders cannot be read");
        }
        lists
    }

    /// Reads all lists again.
    pub(crate) fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let _reading = self.reading.lock();
        self.lists.store(Arc::new(read(store, "")?));
        Ok(())
    }

    /// Reads a user's list again.
    fn reload_of(&self, store: &Store, user: &str) -> Result<(), StoreError> {
        let _reading = self.reading.lock();
        let mut lists = ListsByUser::clone(&self.lists.load());
        lists.remove(user);
        lists.extend(read(store, &prefix(user))?);
        self.lists.store(Arc::new(lists));
        Ok(())
    }

    /// The users who have a list.
    pub(crate) fn users(&self) -> Vec<String> {
        self.lists.load().keys().cloned().collect()
    }

    /// A user's entries, sorted.
    pub(crate) fn of(&self, user: &str) -> Vec<(SenderPattern, SenderListing)> {
        let lists = self.lists.load();
        let entries = lists.get(user).into_iter().flatten();
        entries
            .map(|(entry, listing)| (entry.clone(), *listing))
            .collect()
    }

    /// Sets the listing of an entry, or removes it; returns when the change is durable.
    pub(crate) async fn change(
        &self,
        store: &Store,
        user: &str,
        entry: &SenderPattern,
        listing: Option<SenderListing>,
    ) -> Result<(), SenderListError> {
        let key = Bytes::from(format!("{}{entry}", prefix(user)));
        let change = match listing {
            Some(listing) => StoreChange::PutRecord {
                space: SPACE,
                key,
                value: Bytes::from_static(listing.name().as_bytes()),
            },
            None => StoreChange::DeleteRecord { space: SPACE, key },
        };
        let is_full = |list: &OwnList| {
            list.len() >= SENDER_ENTRIES_MAX && !list.contains_key(entry) && listing.is_some()
        };
        let changes = || {
            if read(store, &prefix(user))?.get(user).is_some_and(is_full) {
                return Err(SenderListError::Full);
            }
            Ok(vec![change.clone()])
        };
        store.change_entry(list_of(user), changes).await?;
        Ok(self.reload_of(store, user)?)
    }

    /// Removes a user's list; returns when that is durable.
    pub(crate) async fn remove(&self, store: &Store, user: &str) -> Result<(), StoreError> {
        let removal = StoreChange::DeleteRecords {
            space: SPACE,
            prefix: Bytes::from(prefix(user)),
        };
        let changes = || Ok::<_, StoreError>(vec![removal.clone()]);
        store.change_entry(list_of(user), changes).await?;
        self.reload_of(store, user)
    }

    /// The verdict for a user's mailbox if the user's list changes it.
    pub(crate) fn apply(
        &self,
        user: &str,
        message: &Message,
        verdict: &Verdict,
    ) -> Option<Verdict> {
        let lists = self.lists.load();
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

/// The lists in the database whose keys begin with this prefix.
fn read(store: &Store, prefix: &str) -> Result<ListsByUser, StoreError> {
    let mut lists = ListsByUser::new();
    store.each_record(SPACE, prefix.as_bytes(), |key, value| {
        let listing = std::str::from_utf8(&value).ok();
        let listing = listing.and_then(SenderListing::from_name);
        // Records that no version of Gatepost wrote are skipped.
        if let (Some((user, entry)), Some(listing)) = (split_key(&key), listing) {
            let list = lists.entry(user.to_owned()).or_default();
            list.insert(SenderPattern::stored(entry), listing);
        }
    })?;
    Ok(lists)
}

/// The user and the entry that a key names.
fn split_key(key: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(key).ok()?.split_once('\0')
}

/// The beginning of the keys of a user's entries.
fn prefix(user: &str) -> String {
    format!("{user}\0")
}

/// A user's list as an entry of the shared records.
const fn list_of(user: &str) -> SharedEntry<'_> {
    SharedEntry {
        set: &SHARED_SENDER_LISTS,
        name: user,
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
        SenderLists {
            lists: ArcSwap::from_pointee(lists),
            ..SenderLists::default()
        }
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
        let lists = all.lists.load();
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
