//! Messages of which someone else decides what becomes (a mail server that only asks, the next
//! hop), and mailboxes.

use gatepost_message::{Action, Verdict};
use gatepost_store::{JournalEntry, StoreError};

use super::{Gateway, JudgedMail, mail, story};

impl Gateway {
    /// Notes a mail that its mail server handles as the verdict says.
    pub fn note_mail(&self, mail: &JudgedMail) {
        self.note(&mail.message, &mail.judged.verdict, mail.judged.duration);
    }

    /// Keeps a mail in quarantine and notes it, whatever the mail server does with its own copy;
    /// returns when it is on disk, with the verdict that holds then: `defer` where the disk
    /// failed.
    pub async fn keep_aside(&self, mail: &JudgedMail) -> Verdict {
        let (message, judged) = (&mail.message, &mail.judged);
        let story = JournalEntry {
            subject: mail::subject(message),
            topics: mail.topics.clone(),
            ..story(message, &judged.verdict, judged.duration)
        };
        self.tell(&story);
        let kept = match self.quarantine(message, story) {
            Ok(ticket) => ticket.committed().await,
            Err(error) => Err(error),
        };
        let mut verdict = judged.verdict.clone();
        if let Err(error) = kept {
            tracing::error!(target: "gateway", message = %message.id, "not stored: {error}");
            let reason = "the message could not be stored; try again later";
            verdict = Verdict::new(Action::Defer, reason);
        }
        let listener = message.envelope.listener;
        self.counters().count(listener, verdict.action);
        verdict
    }

    /// The bytes that a user's mailbox holds. Reads on a thread that may wait.
    pub async fn mailbox_bytes(&self, user: String) -> Result<u64, StoreError> {
        let store = self.0.store.clone();
        let read = tokio::task::spawn_blocking(move || store.mailbox(&user)).await;
        let entries = read.unwrap_or(Err(StoreError::Closed))?;
        Ok(entries.iter().map(|entry| entry.size).sum())
    }
}
