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

    /// Removes the lists of senders of users other than these.
    pub async fn keep_senders_of(&self, is_user: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        self.sender_lists().keep(self.store(), is_user).await
    }

    /// Follows the changes of allowed senders by other servers of a cluster; runs until dropped.
    pub async fn follow_allowed_senders(&self) {
        let Some(cluster) = self.store().shared_records() else {
            return;
        };
        let mut changes = cluster.changes();
        loop {
            if let Err(error) = self.allowed().reload(self.store()) {
                tracing::error!(target: "gateway", %error, "the allowed senders cannot be read");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
