//! Data that removed users left: sessions with their queues and wills, and notifications.

use gatepost_broker::Broker;
use gatepost_sinks::Sinks;
use gatepost_users::{Users, UsersError};

/// The parts of the server in which removed users may have left data.
#[derive(Clone)]
pub(super) struct RemovedUserData {
    pub(super) broker: Broker,
    pub(super) sinks: Sinks,
    pub(super) users: Users,
}

impl RemovedUserData {
    /// Removes what removed users left, now and after each change of users; runs until dropped.
    pub(super) async fn follow(self) {
        let mut changes = self.users.changes();
        loop {
            self.remove().await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Removes what the users left who were removed since the last time.
    pub(super) async fn remove(&self) {
        if let Err(error) = self.try_remove().await {
            tracing::warn!(target: "users", %error,
                "sessions of removed users may remain until the next change of users");
        }
    }

    async fn try_remove(&self) -> Result<(), UsersError> {
        let users = self.users.clone();
        let looked = tokio::task::spawn_blocking(move || users.removed()).await;
        // It fails to be joined only where the server ends.
        let Ok(removed) = looked else {
            return Ok(());
        };
        let removed = removed?;
        if !removed.is_empty() {
            let is_removed = |user: &str| removed.includes(user);
            if let Some(web_push) = self.sinks.web_push() {
                web_push.forget_users(is_removed);
            }
            let ended = self.broker.end_sessions_of_users(is_removed).await?;
            for user in removed.names() {
                tracing::info!(target: "users", user, "a removed user's data is removed");
            }
            if ended > 0 {
                tracing::info!(target: "users", ended, "sessions of removed users have ended");
            }
        }
        self.users.confirm_removed(removed).await
    }
}
