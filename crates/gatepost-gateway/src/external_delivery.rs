//! Messages that another server delivers: a mail server that only requests a verdict (milter), or
//! the next hop. Gatepost journals them and keeps its own copy of a quarantined one.

use gatepost_message::{Action, Verdict};
use gatepost_store::{JournalEntry, StoreError};

use crate::gateway::{Gateway, journal_entry};
use crate::judged_mail::JudgedMail;
use crate::mail_payload;
use crate::storage_failure::StorageFailure;

impl Gateway {
    /// Journals a mail that its mail server handles according to the verdict.
    pub fn journal_mail(&self, mail: &JudgedMail) {
        let judgement = &mail.judgement;
        self.journal(&mail.message, &judgement.verdict, judgement.duration);
    }

    /// Puts a copy of a mail into quarantine and journals it, whatever the mail server does with
    /// its own copy. Returns the verdict when the copy is on disk. If it cannot be stored, the mail
    /// counts as deferred.
    pub async fn quarantine_copy(&self, mail: &JudgedMail) -> Result<Verdict, StorageFailure> {
        let (message, judgement) = (&mail.message, &mail.judgement);
        let entry = JournalEntry {
            subject: mail_payload::subject(message),
            topics: mail.topics.clone(),
            ..journal_entry(message, &judgement.verdict, judgement.duration)
        };
        self.announce(&entry);
        let kept = match self.quarantine(message, entry) {
            Ok(ticket) => ticket.committed().await,
            Err(error) => Err(error),
        };
        let outcome = match kept {
            Ok(()) => Ok(judgement.verdict.clone()),
            Err(error) => {
                // The store logs the cause, once a second.
                tracing::debug!(target: "gateway", message = %message.id, "not stored: {error}");
                Err(StorageFailure::of(&error))
            }
        };
        let action = outcome
            .as_ref()
            .map_or(Action::Defer, |verdict| verdict.action);
        self.counters().count(message.envelope.listener, action);
        outcome
    }

    /// The bytes that a user's mailbox held a moment ago. Counts on a thread that may block.
    pub async fn mailbox_bytes(&self, user: String) -> Result<u64, StoreError> {
        if let Some(bytes) = self.store().remembered_mailbox_bytes(&user) {
            return Ok(bytes);
        }
        let store = self.store().clone();
        let count = tokio::task::spawn_blocking(move || store.mailbox_bytes(&user)).await;
        count.unwrap_or(Err(StoreError::Closed))
    }
}
