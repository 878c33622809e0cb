//! The messages that a digest lists, by recipient.
//!
//! A message gets its id when it arrives and is quarantined once it is judged, so a message may
//! appear before others that are listed already. The messages of the last minutes are therefore
//! read again, and the record of the digests names those that were listed.
//!
//! The messages of a run are determined, and recorded, before its first digest is sent. A run that
//! a crash interrupts is continued with the same messages, so no recipient gets a second digest for
//! the messages that arrived meanwhile: they are in the next one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gatepost_message::{Listener, MessageId};
use gatepost_store::{JournalEntry, Store, StoreChange};
use ring::digest;
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
/// The progress that an unfinished run leads to.
const RUN_KEY: &[u8] = b"run";
/// The recipients whose digest of an unfinished run is sent.
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

    /// The name of its digests, which contains no address.
    pub(super) fn digest_name(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.key());
        // A hash of 32 bytes begins with 8.
        let start = hash.as_ref().first_chunk().copied().unwrap_or_default();
        format!("digest-{:016x}", u64::from_be_bytes(start))
    }

    /// The change that records the digest to this target.
    pub(super) fn sent(&self) -> StoreChange {
        StoreChange::PutRecord {
            space: SENT_SPACE,
            key: self.key(),
            value: Bytes::new(),
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

/// The digests of a run that are not sent yet, oldest message first.
pub(super) type Digests = BTreeMap<DigestTarget, Vec<ListedMessage>>;

/// The digests so far, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DigestProgress {
    /// The time at which the last digests were due, in seconds since 1970.
    pub(super) due_unix_s: u64,
    /// The id of the run, which is part of the ids of its digests.
    #[serde(default)]
    run: u64,
    /// Every message up to this one was read.
    settled: u64,
    /// Later messages that were read, in the order of their numbers.
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
        Self::read_at(store, KEY)
    }

    /// The progress that the unfinished run leads to.
    pub(super) fn read_run(store: &Store) -> Result<Option<Self>, OperationError> {
        Self::read_at(store, RUN_KEY)
    }

    fn read_at(store: &Store, key: &[u8]) -> Result<Option<Self>, OperationError> {
        let record = store.record(SPACE, key)?;
        // A record that no version of Gatepost wrote counts as none.
        Ok(record.and_then(|record| serde_json::from_slice(&record).ok()))
    }

    /// The progress after a run that begins now. Blocks.
    pub(super) fn after_run(
        &self,
        store: &Store,
        due_unix_s: u64,
        now: SystemTime,
    ) -> Result<Self, OperationError> {
        let settled = now.checked_sub(JUDGED_WITHIN).map(MessageId::floor_at);
        let settled = settled.map_or(0, MessageId::number).max(self.settled);
        let mut listed = Vec::new();
        each_quarantined(store, MessageId::from_number(settled), |entry| {
            listed.push(entry.id.number());
        })?;
        Ok(Self {
            due_unix_s,
            run: MessageId::next().number(),
            settled,
            listed,
        })
    }

    /// The id of the run.
    pub(super) fn run(&self) -> MessageId {
        MessageId::from_number(self.run)
    }

    /// Whether this message was read.
    fn includes(&self, id: MessageId) -> bool {
        let number = id.number();
        number <= self.settled || self.listed.binary_search(&number).is_ok()
    }

    /// The change that records a run before its first digest.
    pub(super) fn begin_run(&self) -> StoreChange {
        self.put_at(RUN_KEY)
    }

    /// The changes after all digests of a run.
    pub(super) fn end_run(&self) -> [StoreChange; 3] {
        [
            self.put_at(KEY),
            StoreChange::DeleteRecord {
                space: SPACE,
                key: RUN_KEY.into(),
            },
            StoreChange::DeleteRecords {
                space: SENT_SPACE,
                prefix: Bytes::new(),
            },
        ]
    }

    fn put_at(&self, key: &'static [u8]) -> StoreChange {
        StoreChange::PutRecord {
            space: SPACE,
            key: key.into(),
            // Plain data can always be serialised.
            value: serde_json::to_vec(self).unwrap_or_default().into(),
        }
    }
}

/// Collects the digests of a run that are not sent yet: the messages that `run` includes and
/// `before` does not. Blocks.
pub(super) fn collect(
    store: &Store,
    routes: &dyn MailRoutes,
    settings: &QuarantineDigestSettings,
    (before, run): (&DigestProgress, &DigestProgress),
    this_node: Option<u8>,
) -> Result<Digests, OperationError> {
    let mut digests = Digests::new();
    // In a cluster, each node has all messages, and lists those that it received.
    let is_ours = |id: MessageId| this_node.is_none_or(|node| id.node() == node);
    each_quarantined(store, MessageId::from_number(before.settled), |entry| {
        if is_ours(entry.id) && run.includes(entry.id) && !before.includes(entry.id) {
            add(&mut digests, entry, routes, settings);
        }
    })?;
    let sent = store.records(SENT_SPACE, b"")?.into_iter();
    let mut left_out = opt_out::stopped(store)?;
    left_out.extend(sent.map(|(key, _)| key));
    digests.retain(|target, _| !left_out.contains(&target.key()));
    Ok(digests)
}

/// Calls `act` with each message in quarantine that arrived after this one, oldest first. Blocks.
fn each_quarantined(
    store: &Store,
    mut after: MessageId,
    mut act: impl FnMut(&JournalEntry),
) -> Result<(), OperationError> {
    loop {
        let page = store.quarantine_after(after, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.id;
        page.iter().for_each(&mut act);
    }
}

/// Adds a message to the digest of each recipient that could get it by a release.
fn add(
    digests: &mut Digests,
    entry: &JournalEntry,
    routes: &dyn MailRoutes,
    settings: &QuarantineDigestSettings,
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
        if !settings.includes(recipient) {
            continue;
        }
        let messages = digests.entry(target).or_default();
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
