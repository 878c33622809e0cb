//! Reading of the stream into the database.

use std::fmt::Display;
use std::time::Duration;

use gatepost_store::{Store, StoreChange, StoreError};

use super::piece::{MailAssembly, MailEvent, MailPiece};
use super::position::{MailPosition, add_mail, remove_mail};
use super::stream::MailStream;
use crate::error::BackboneError;
use crate::stream_reading::{ReceivedMessage, StreamReader};

/// Messages whose mail is stored in one commit.
const STORED_AT_ONCE: usize = 256;
/// The bytes of these messages.
const STORED_BYTES_AT_ONCE: usize = 4 * 1024 * 1024;
/// The pause after mail that could not be stored, such as on a full disk.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Reads the stream from a position on.
pub(super) struct MailReader {
    store: Store,
    stream: MailStream,
    messages: StreamReader,
    assembly: MailAssembly,
    /// The position in the database.
    position: MailPosition,
    /// The last message that was read.
    read: u64,
    changes: Vec<StoreChange>,
    bytes: usize,
}

/// The progress of a step.
pub(super) struct MailProgress {
    /// The last message whose mail the database has.
    pub(super) read: u64,
    /// The messages after it.
    pub(super) unread: u64,
}

impl MailReader {
    pub(super) async fn begin(
        store: &Store,
        stream: &MailStream,
        position: MailPosition,
    ) -> Result<Self, BackboneError> {
        Ok(Self {
            store: store.clone(),
            messages: stream.messages_after(position.sequence).await?,
            stream: stream.clone(),
            assembly: MailAssembly::default(),
            position,
            read: position.sequence,
            changes: Vec::new(),
            bytes: 0,
        })
    }

    /// Waits for a message. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<ReceivedMessage, BackboneError> {
        self.messages.next().await
    }

    /// Stores the mail of a message, and of those that have arrived after it.
    pub(super) async fn store_with(
        &mut self,
        first: ReceivedMessage,
    ) -> Result<MailProgress, BackboneError> {
        let mut unread = self.take(first);
        let mut count = 1;
        while count < STORED_AT_ONCE
            && self.bytes < STORED_BYTES_AT_ONCE
            && let Some(message) = self.messages.try_next()
        {
            unread = self.take(message?);
            count += 1;
        }
        self.store_taken().await;
        Ok(MailProgress {
            read: self.read,
            unread,
        })
    }

    /// Takes a message; returns the number of those after it.
    fn take(&mut self, next: ReceivedMessage) -> u64 {
        let ReceivedMessage {
            message,
            sequence,
            pending,
        } = next;
        // A reader that was interrupted may begin again.
        if sequence <= self.read {
            return pending;
        }
        self.read = sequence;
        if !self.stream.is_mail(&message.subject) {
            return pending;
        }
        let taken = MailPiece::read(message.payload.clone()).map(|piece| {
            self.bytes += message.payload.len();
            self.assembly.take(sequence, piece)
        });
        match taken {
            Ok(Some(MailEvent::Added(name, mail))) => {
                match add_mail(&name, mail, self.stream.number()) {
                    Some(changes) => self.changes.extend(changes),
                    None => self.note_unreadable(sequence, &"its parts are unknown"),
                }
            }
            Ok(Some(MailEvent::Removed(name, bytes))) => {
                self.changes.extend(remove_mail(&name, &bytes));
            }
            Ok(None) => {}
            Err(error) => self.note_unreadable(sequence, &error),
        }
        pending
    }

    fn note_unreadable(&mut self, sequence: u64, error: &dyn Display) {
        self.assembly.note_unreadable(sequence);
        tracing::error!(target: "backbone", sequence, %error,
            "a mail of the cluster cannot be read here, and is missing");
    }

    /// Stores what was taken, with the position; again until that succeeds.
    async fn store_taken(&mut self) {
        self.bytes = 0;
        if self.changes.is_empty() {
            return;
        }
        let sequence = self.assembly.complete_up_to(self.read);
        self.position.sequence = sequence.max(self.position.sequence);
        self.changes.push(self.position.put());
        let changes = std::mem::take(&mut self.changes);
        while let Err(error) = commit(&self.store, changes.clone()).await {
            tracing::warn!(target: "backbone", %error,
                "mail of the cluster is not stored here yet; it is tried again");
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }
}

async fn commit(store: &Store, changes: Vec<StoreChange>) -> Result<(), StoreError> {
    store.submit(changes)?.committed().await
}
