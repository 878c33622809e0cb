//! The messages that a digest lists, by recipient.
//!
//! A message gets its id when it arrives and is quarantined once it is judged, so a message may
//! appear before others that are listed already. The messages of the last minutes are therefore
//! read again, and the record of the digests names those that were listed.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gatepost_message::{Listener, MessageId};
use gatepost_store::{JournalEntry, Store, StoreChange};
use serde::{Deserialize, Serialize};

use super::opt_out;
use super::settings::QuarantineDigestSettings;
use crate::error::OperationError;
use crate::mail_routes::{MailDestination, MailRoutes};

/// The time after its arrival within which a message is certainly judged.
const JUDGED_WITHIN: Duration = Duration::from_mins(10);
/// Entries that are read at once.
const PAGE: usize = 500;
/// The record of the digests among the records of the database.
const SPACE: &str = "quarantine_digest";
const KEY: &[u8] = b"progress";
/// The recipients whose digest of an unfinished run is sent, with the last message in it.
const SENT_SPACE: &str = "quarantine_digest_sent";

/// The destination of one digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DigestTarget {
    /// The mailbox of this user.
    Mailbox(String),
    /// An address at a next hop, in lower case.
    Address(String),
}

impl DigestTarget {
    /// The key of this target among the records of the database.
    pub(super) fn key(&self) -> Bytes {
        match self {
            Self::Mailbox(user) => format!("mailbox {user}").into(),
            Self::Address(address) => format!("address {address}").into(),
        }
    }

    /// The change that records the digest to this target.
    pub(super) fn sent(&self, last: MessageId) -> StoreChange {
        StoreChange::PutRecord {
            space: SENT_SPACE,
            key: self.key(),
            value: Bytes::copy_from_slice(&last.number().to_be_bytes()),
        }
    }
}

/// A message in a digest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedMessage {
    pub(super) id: MessageId,
    pub(super) sender: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) score: Option<f64>,
    /// The recipient's own address, which is the one that its link is for.
    pub(super) recipient: String,
}

/// The digests of one run, and the progress when all of them are sent.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// Oldest message first.
    pub(super) digests: BTreeMap<DigestTarget, Vec<ListedMessage>>,
    pub(super) progress: DigestProgress,
}

/// The digests so far, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DigestProgress {
    /// The time at which the last digests were due, in seconds since 1970.
    pub(super) due_unix_s: u64,
    /// Every message up to this one was read.
    settled: u64,
    /// Later messages that were read.
    listed: Vec<u64>,
}

impl DigestProgress {
    /// The progress before the first digest, which is due next time.
    pub(super) fn first(due_unix_s: u64) -> Self {
        Self {
            due_unix_s,
            ..Self::default()
        }
    }

    /// The stored progress; `None` before the first start with digests.
    pub(super) fn read(store: &Store) -> Result<Option<Self>, OperationError> {
        let record = store.record(SPACE, KEY)?;
        // A record that no version of Gatepost wrote counts as none.
        Ok(record.and_then(|record| serde_json::from_slice(&record).ok()))
    }

    /// The changes that store it, after all digests of a run.
    pub(super) fn changes(&self) -> [StoreChange; 2] {
        [
            StoreChange::PutRecord {
                space: SPACE,
                key: KEY.into(),
                // Plain data can always be serialised.
                value: serde_json::to_vec(self).unwrap_or_default().into(),
            },
            StoreChange::DeleteRecords {
                space: SENT_SPACE,
                prefix: Bytes::new(),
            },
        ]
    }
}

/// Collects the messages that were quarantined since the last digests. Blocks.
pub(super) fn collect(
    store: &Store,
    routes: &dyn MailRoutes,
    settings: &QuarantineDigestSettings,
    (before, due_unix_s): (&DigestProgress, u64),
    now: SystemTime,
) -> Result<Collection, OperationError> {
    let sent: BTreeMap<Bytes, Bytes> = store.records(SENT_SPACE, b"")?.into_iter().collect();
    let settled = now.checked_sub(JUDGED_WITHIN).map(MessageId::floor_at);
    let settled = settled.map_or(0, MessageId::number).max(before.settled);
    let mut collection = Collection {
        progress: DigestProgress {
            due_unix_s,
            settled,
            listed: Vec::new(),
        },
        ..Collection::default()
    };
    let mut after = MessageId::from_number(before.settled);
    loop {
        let page = store.quarantine_after(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for entry in &page {
            let number = entry.id.number();
            if number > settled {
                collection.progress.listed.push(number);
            }
            if !before.listed.contains(&number) {
                collection.add(entry, routes, settings, &sent);
            }
        }
    }
    let stopped = opt_out::stopped(store)?;
    let is_wanted = |target: &DigestTarget| !stopped.contains(&target.key());
    collection.digests.retain(|target, _| is_wanted(target));
    Ok(collection)
}

impl Collection {
    /// Adds a message to the digest of each recipient that could get it by a release.
    fn add(
        &mut self,
        entry: &JournalEntry,
        routes: &dyn MailRoutes,
        settings: &QuarantineDigestSettings,
        sent: &BTreeMap<Bytes, Bytes>,
    ) {
        let envelope = &entry.envelope;
        let is_mail = matches!(
            envelope.listener,
            Listener::Smtp | Listener::Lmtp | Listener::Milter
        );
        if !is_mail || !settings.procedures.contains(&entry.procedure) {
            return;
        }
        for recipient in &envelope.recipients {
            let target = match routes.destination(envelope, recipient) {
                Ok(MailDestination::Mailbox(user)) => DigestTarget::Mailbox(user),
                Ok(MailDestination::NextHop(_)) => DigestTarget::Address(recipient.to_lowercase()),
                Ok(MailDestination::Topic(_)) | Err(_) => continue,
            };
            let number = entry.id.number().to_be_bytes();
            let is_sent = sent
                .get(&target.key())
                .is_some_and(|last| last[..] >= number[..]);
            if is_sent || !settings.includes(recipient) {
                continue;
            }
            let messages = self.digests.entry(target).or_default();
            // Two addresses may lead to one mailbox.
            if messages.last().is_none_or(|last| last.id != entry.id) {
                messages.push(ListedMessage {
                    id: entry.id,
                    sender: envelope.sender.clone(),
                    subject: entry.subject.clone(),
                    score: entry.score.map(|score| score.value),
                    recipient: recipient.clone(),
                });
            }
        }
    }
}
