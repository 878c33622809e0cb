//! The senders that users allow and block for their own mailboxes.

use gatepost_store::StoreError;

use crate::gateway::Gateway;
use crate::sender_lists::{SenderListError, SenderListing, SenderPattern};

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
        let mut changes = cluster.changes();
        loop {
            let gateway = self.clone();
            let reading = tokio::task::spawn_blocking(move || gateway.reload_senders());
            if let Ok(Err(error)) = reading.await {
                tracing::error!(target: "gateway", %error, "the listed senders cannot be read");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn reload_senders(&self) -> Result<(), StoreError> {
        self.allowed().reload(self.store())?;
        self.sender_lists().reload(self.store())
    }
}
