//! The mailboxes and the quarantine as others see them: deliveries, removals and claims, and what
//! they need of the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gatepost_message::MessageId;
use gatepost_store::{
    ExternalCommit, JournalEntry, MailboxClaim, MailboxClaimWait, MailboxDelivery, QuarantineEntry,
    SharedMailboxes, StoreError, Ticket,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::claim;
use super::current::{CurrentStream, not_done};
use super::piece::MailName;
use super::stream::{ClaimedMail, LastAbout, MailRefusal, MailStream};
use crate::settings::BackboneSettings;

/// Mail that is sent at the same time. The engine takes 50 divided ones of all nodes.
const SENT_AT_ONCE: usize = 8;
/// Removals that are sent at the same time.
const REMOVED_AT_ONCE: usize = 64;
/// The pause after an attempt that failed: an election of the engine takes seconds.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// The longest time that a claim waits until the database has all mail.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Deliveries that were refused although the stream may have them. Beyond this number, mail may
/// stay that its sender sends again.
const WITHDRAWN_MAX: usize = 10_000;

/// The delivery of a mail to one mailbox.
struct DeliveryAttempt {
    name: MailName,
    /// Whether the stream may have the mail by this delivery.
    may_be_stored: AtomicBool,
}

/// State that the owners of mailboxes share with the connection.
pub(crate) struct MailboxView {
    wait_max: Duration,
    bytes_max: u64,
    current: Arc<CurrentStream>,
    /// The sequence of the stream up to which the database has its mail; 0 while that is not known.
    read: watch::Sender<u64>,
    /// The bytes of the stream, as far as this node knows.
    bytes: AtomicU64,
    unread: AtomicU64,
    sending: Semaphore,
    withdrawn: Mutex<VecDeque<MailName>>,
}

impl MailboxView {
    pub(crate) fn new(settings: &BackboneSettings) -> Self {
        Self {
            wait_max: settings.append_wait_max.duration(),
            bytes_max: settings.mail_bytes_max.bytes(),
            current: Arc::new(CurrentStream::new()),
            read: watch::Sender::new(0),
            bytes: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            sending: Semaphore::new(SENT_AT_ONCE),
            withdrawn: Mutex::default(),
        }
    }

    /// There is a connection.
    pub(super) fn begin(&self, stream: MailStream) {
        self.read.send_replace(0);
        self.current.replace(Some(stream));
    }

    /// There is none.
    pub(crate) fn leave(&self) {
        self.current.replace(None);
        self.read.send_replace(0);
    }

    /// Whether mail can be stored.
    pub(crate) fn is_followed(&self) -> bool {
        self.current.is_there()
    }

    /// The database has the mail up to this sequence, and the stream has so many later messages.
    pub(super) fn note_read(&self, sequence: u64, unread: u64) {
        self.unread.store(unread, Ordering::Relaxed);
        self.read.send_replace(sequence);
    }

    pub(super) fn note_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The messages of the stream that the database does not have yet.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    /// The bytes of the stream.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits until the database has the mail up to this sequence.
    async fn await_read(&self, sequence: u64) -> Result<(), StoreError> {
        let mut read = self.read.subscribe();
        let reached = read.wait_for(|read| *read >= sequence);
        match tokio::time::timeout(READ_WITHIN, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(not_done("this server has not read all mail yet")),
        }
    }

    async fn deliver(&self, delivery: MailboxDelivery) -> Result<(), StoreError> {
        let MailboxDelivery { users, id, mail } = delivery;
        let names = users.into_iter();
        let names = names.map(|user| MailName::in_mailbox(user, id));
        self.add(names.collect(), mail).await
    }

    /// Stores a mail under these names: under all of them or none.
    async fn add(&self, names: Vec<MailName>, mail: Bytes) -> Result<(), StoreError> {
        let length = (mail.len() * names.len()) as u64;
        let room = self.bytes_max.saturating_sub(self.bytes());
        if self.bytes_max > 0 && length > room {
            let cause = format!("the mailboxes have {} bytes", self.bytes());
            return Err(full(cause));
        }
        let attempts: Vec<DeliveryAttempt> = names
            .into_iter()
            .map(|name| DeliveryAttempt {
                name,
                may_be_stored: AtomicBool::new(false),
            })
            .collect();
        let stored = try_join_all(attempts.iter().map(|attempt| self.store(attempt, &mail)));
        let outcome = match tokio::time::timeout(self.wait_max, stored).await {
            Ok(Ok(_)) => {
                self.bytes.fetch_add(length, Ordering::Relaxed);
                return Ok(());
            }
            Ok(Err(refusal)) => refused_with(refusal),
            Err(_) => not_done("the NATS servers did not store it in time"),
        };
        let id = attempts.first().map(|attempt| attempt.name.id.to_string());
        tracing::warn!(target: "backbone", message = id, error = %outcome, "mail was not stored");
        self.withdraw(attempts);
        Err(outcome)
    }

    /// Stores a mail, with as many attempts as are necessary.
    async fn store(&self, attempt: &DeliveryAttempt, mail: &Bytes) -> Result<(), MailRefusal> {
        let _place = self.sending.acquire().await.map_err(|_| closed())?;
        let DeliveryAttempt {
            name,
            may_be_stored,
        } = attempt;
        let (mut expected, mut is_first) = (0, true);
        loop {
            let stream = self.current.connected().await?;
            may_be_stored.store(true, Ordering::Relaxed);
            let outcome = stream.add(name, mail, expected).await;
            may_be_stored.store(!is_first || outcome.is_ok(), Ordering::Relaxed);
            match outcome {
                Err(MailRefusal::Changed) => match stream.find(name).await {
                    // It was delivered before with this id, and removed.
                    Ok(Some(LastAbout {
                        sequence,
                        is_removal: true,
                    })) if is_first => expected = sequence,
                    // An earlier attempt has stored it.
                    Ok(Some(_)) => return Ok(()),
                    Ok(None) => expected = 0,
                    Err(error) => pause(&error).await,
                },
                Err(MailRefusal::Failed(cause)) => {
                    may_be_stored.store(true, Ordering::Relaxed);
                    is_first = false;
                    pause(&cause).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Mail that its sender keeps is removed from the stream, which may have it.
    fn withdraw(&self, attempts: Vec<DeliveryAttempt>) {
        let mut withdrawn = self.withdrawn.lock();
        let stored = attempts.into_iter();
        let stored = stored.filter(|attempt| attempt.may_be_stored.load(Ordering::Relaxed));
        withdrawn.extend(stored.map(|attempt| attempt.name));
        let excess = withdrawn.len().saturating_sub(WITHDRAWN_MAX);
        withdrawn.drain(..excess);
    }

    /// Removes from the stream what was withdrawn.
    pub(super) async fn remove_withdrawn(&self, stream: &MailStream) {
        loop {
            let next = self.withdrawn.lock().front().cloned();
            let Some(name) = next else { return };
            if stream.remove(&name, b"").await.is_err() {
                return;
            }
            let mut withdrawn = self.withdrawn.lock();
            if withdrawn.front() == Some(&name) {
                withdrawn.pop_front();
            }
        }
    }

    /// Removes mail, with the bytes of the removals; returns the highest sequence of these.
    async fn take_out(&self, names: Vec<MailName>, bytes: Bytes) -> Result<u64, StoreError> {
        let removals = stream::iter(names).map(|name| self.remove(name, bytes.clone()));
        let removals = removals.buffer_unordered(REMOVED_AT_ONCE);
        let removed = removals.try_collect::<Vec<u64>>();
        match tokio::time::timeout(self.wait_max, removed).await {
            Ok(Ok(sequences)) => Ok(sequences.into_iter().max().unwrap_or(0)),
            Ok(Err(refusal)) => Err(refused_with(refusal)),
            Err(_) => Err(not_done("the NATS servers did not remove it in time")),
        }
    }

    async fn remove(&self, name: MailName, bytes: Bytes) -> Result<u64, MailRefusal> {
        loop {
            match self.current.connected().await?.remove(&name, &bytes).await {
                Err(MailRefusal::Failed(cause)) => pause(&cause).await,
                outcome => return outcome,
            }
        }
    }

    async fn claim(
        self: Arc<Self>,
        claimed: ClaimedMail,
    ) -> Result<Option<MailboxClaim>, StoreError> {
        let sequence = match self.current.get()?.claim(&claimed, 0).await {
            Ok(sequence) => sequence,
            Err(MailRefusal::Changed) => return Ok(None),
            Err(refusal) => return Err(refused_with(refusal)),
        };
        let held = claim::hold(self.current.clone(), claimed, sequence);
        self.await_read(sequence).await?;
        Ok(Some(MailboxClaim::held(held)))
    }
}

async fn pause(cause: &(dyn std::fmt::Display + Sync)) {
    tracing::debug!(target: "backbone", %cause, "a mailbox is not changed yet");
    tokio::time::sleep(RETRY_EVERY).await;
}

/// The view as the owners of mailboxes see it.
pub(crate) struct SharedMailboxView(pub(crate) Arc<MailboxView>);

impl SharedMailboxes for SharedMailboxView {
    fn deliver(&self, delivery: MailboxDelivery) -> Ticket {
        let view = self.0.clone();
        begin(async move { view.deliver(delivery).await })
    }

    fn take_out(&self, user: String, ids: Vec<MessageId>) -> Ticket {
        let names = ids.into_iter();
        let names = names.map(|id| MailName::in_mailbox(user.clone(), id));
        let (view, names) = (self.0.clone(), names.collect());
        begin(async move { view.take_out(names, Bytes::new()).await.map(drop) })
    }

    fn claim(&self, user: String) -> MailboxClaimWait {
        Box::pin(self.0.clone().claim(ClaimedMail::Mailbox(user)))
    }

    fn quarantine(&self, entry: QuarantineEntry) -> Ticket {
        let view = self.0.clone();
        let name = MailName::in_quarantine(entry.journal.id);
        begin(async move { view.add(vec![name], entry.to_bytes()).await })
    }

    fn unquarantine(&self, id: MessageId, entry: Option<JournalEntry>) -> Ticket {
        let view = self.0.clone();
        let bytes = entry.map(|entry| entry.to_bytes()).unwrap_or_default();
        let names = vec![MailName::in_quarantine(id)];
        begin(async move {
            let sequence = view.take_out(names, bytes).await?;
            // An administrator sees the outcome on the node that carried it out, if it keeps up.
            let _ = view.await_read(sequence).await;
            Ok(())
        })
    }

    fn claim_quarantined(&self, id: MessageId) -> MailboxClaimWait {
        Box::pin(self.0.clone().claim(ClaimedMail::Quarantined(id)))
    }
}

/// Begins a change; the ticket is decided when the stream has it.
fn begin(change: impl Future<Output = Result<(), StoreError>> + Send + 'static) -> Ticket {
    let (commit, ticket) = ExternalCommit::new();
    gatepost_tasks::spawn(async move { commit.decide(change.await) });
    ticket
}

fn full(cause: String) -> StoreError {
    StoreError::ClusterFull {
        cause: cause.into(),
    }
}

fn refused_with(refusal: MailRefusal) -> StoreError {
    match refusal {
        MailRefusal::Full(cause) => full(cause),
        MailRefusal::TooLong(bytes) => StoreError::TooLong { bytes },
        other => not_done(other),
    }
}

fn closed() -> MailRefusal {
    MailRefusal::Failed("the server ends".to_owned())
}
