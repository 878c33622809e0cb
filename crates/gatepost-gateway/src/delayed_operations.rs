//! The messages that wait for their time, as an operator lists and cancels them, and as readers of
//! their topics see them.

use std::time::SystemTime;

use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::StoreError;

use crate::delayed_listing::DelayedListing;
use crate::gateway::Gateway;

impl Gateway {
    /// At most `count` of the messages that wait for their time, after the first `skip`.
    pub fn delayed(&self, skip: usize, count: usize) -> DelayedListing {
        self.sink().delayed(skip, count)
    }

    /// At most `count` of the messages under these filters that wait for their time, each with its
    /// time. Reads from the disk, so it blocks.
    pub fn scheduled(
        &self,
        filters: &[TopicFilter],
        count: usize,
    ) -> Result<Vec<(SystemTime, Publication)>, StoreError> {
        let wants = |topic: &str| filters.iter().any(|filter| filter.matches(topic));
        self.sink().scheduled(&wants, count)
    }

    /// Cancels the message with this id; returns when that is on disk, and `false` if no such
    /// message waits.
    pub async fn cancel_delayed_id(&self, id: MessageId) -> Result<bool, StoreError> {
        match self.sink().find_delayed(id) {
            Some((topic, name)) => self.cancel_delayed(&topic, &name).await,
            None => Ok(false),
        }
    }
}
