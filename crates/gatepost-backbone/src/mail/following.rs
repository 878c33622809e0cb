//! The mailboxes and the quarantine while there is a connection: opened, joined and
//! followed, and again after a failure. A failure concerns them alone, and does not end the
//! connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use gatepost_store::Store;
use tokio::time::MissedTickBehavior;

use super::joining;
use super::reading::MailReader;
use super::stream::MailStream;
use super::view::MailboxView;
use crate::error::BackboneError;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The interval at which the stream's number and size are read. The reader does not notice that the
/// stream was replaced.
const CHECKED_EVERY: Duration = Duration::from_secs(10);
/// The pause after a failure.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// The needs of one connection.
pub(crate) struct MailFollower {
    pub(crate) view: Arc<MailboxView>,
    pub(crate) store: Store,
    pub(crate) context: Context,
    pub(crate) subjects: Subjects,
    pub(crate) settings: BackboneSettings,
}

impl MailFollower {
    /// Follows the stream for as long as the connection lasts.
    pub(crate) async fn run(self) -> BackboneError {
        loop {
            let Err(error) = self.follow().await;
            self.view.leave();
            tracing::warn!(target: "backbone", %error,
                "the mailboxes of the cluster cannot be used; they are tried again");
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    async fn follow(&self) -> Result<Infallible, BackboneError> {
        let opened = MailStream::open(self.context.clone(), &self.subjects, &self.settings);
        let stream = opened.await?;
        self.view.note_bytes(stream.check().await?);
        self.view.begin(stream.clone());
        self.view.remove_withdrawn(&stream).await;
        let position = joining::join(&self.store, &stream).await?;
        let mut reader = MailReader::begin(&self.store, &stream, position).await?;
        self.view.note_read(position.sequence, 0);
        let mut checks = tokio::time::interval(CHECKED_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = reader.next() => {
                    let progress = reader.store_with(message?).await?;
                    self.view.note_read(progress.read, progress.unread);
                }
                _ = checks.tick() => {
                    self.view.note_bytes(stream.check().await?);
                    self.view.remove_withdrawn(&stream).await;
                    joining::remove_left(&self.store, &stream).await?;
                }
            }
        }
    }
}
