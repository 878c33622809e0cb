//! The end of what removed users left in the broker.

use gatepost_store::StoreError;

use crate::broker::Broker;

impl Broker {
    /// Ends the sessions of removed users, connected or not, and discards their queues and wills:
    /// a later user of the name must not find them. Returns how many there were, when their end is
    /// durable.
    pub async fn end_sessions_of_users(
        &self,
        is_removed: impl Fn(&str) -> bool,
    ) -> Result<usize, StoreError> {
        let (ended, settled) = self.0.sessions.end_all_of_users(is_removed);
        if let Some(ticket) = settled {
            ticket?.committed().await?;
        }
        Ok(ended)
    }
}
