//! Data that removed users left: sessions with their queues and wills, and notifications.

use std::time::Duration;

use gatepost_broker::Broker;
use gatepost_sinks::Sinks;
use gatepost_users::{Users, UsersError};

/// The pause after a failure. Until the removal succeeds, no later user of the name can log in.
const TRY_AGAIN: Duration = Duration::from_secs(5);

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
            if self.remove().await {
                if changes.changed().await.is_err() {
                    return;
                }
            } else {
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }

    /// Removes what the users left who were removed since the last time; returns whether that
    /// succeeded.
    pub(super) async fn remove(&self) -> bool {
        let removed = self.try_remove().await;
        if let Err(error) = &removed {
            tracing::warn!(target: "users", %error,
                "sessions of removed users could not be ended; later users of their names are \
                 refused until they have");
        }
        removed.is_ok()
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
