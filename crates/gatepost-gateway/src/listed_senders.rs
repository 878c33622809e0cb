//! The senders that users allow and block for their own mailboxes.

use gatepost_store::StoreError;
use tokio::sync::watch;

use crate::allowed_senders::SHARED_SENDERS;
use crate::gateway::Gateway;
use crate::sender_lists::{SHARED_SENDER_LISTS, SenderListError, SenderListing, SenderPattern};

impl Gateway {
    /// The senders that a user allows or blocks for the user's own mailbox.
    pub fn senders_of(&self, user: &str) -> Vec<(SenderPattern, SenderListing)> {
        self.sender_lists().of(user)
    }

    /// Changes an entry of a user's list of senders, or removes it (`None`); returns when the
    /// change is on disk.
    pub async fn list_sender(
        &self,
        user: &str,
        entry: &SenderPattern,
        listing: Option<SenderListing>,
    ) -> Result<(), SenderListError> {
        let lists = self.sender_lists();
        lists.change(self.store(), user, entry, listing).await
    }

    /// The users who have a list of senders.
    pub fn users_with_senders(&self) -> Vec<String> {
        self.sender_lists().users()
    }

    /// Removes a user's list of senders; returns when that is durable.
    pub async fn forget_senders_of(&self, user: &str) -> Result<(), StoreError> {
        self.sender_lists().remove(self.store(), user).await
    }

    /// Follows the changes of allowed senders and of users' lists by other servers of a cluster;
    /// runs until dropped.
    pub async fn follow_senders(&self) {
        let Some(cluster) = self.store().shared_records() else {
            return;
        };
        let allowed = cluster.changes(&SHARED_SENDERS);
        let lists = cluster.changes(&SHARED_SENDER_LISTS);
        tokio::join!(
            self.follow_set(allowed, |gateway| gateway.allowed().reload(gateway.store())),
            self.follow_set(lists, |gateway| gateway
                .sender_lists()
                .reload(gateway.store())),
        );
    }

    /// Reads the records of a set, and again after each change of them.
    async fn follow_set(
        &self,
        mut changes: watch::Receiver<u64>,
        reload: fn(&Self) -> Result<(), StoreError>,
    ) {
        loop {
            let gateway = self.clone();
            let reading = tokio::task::spawn_blocking(move || reload(&gateway));
            if let Ok(Err(error)) = reading.await {
                tracing::error!(target: "gateway", %error, "the listed senders cannot be read");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
