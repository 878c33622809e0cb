//! The rights of a client, checked again if time has passed since the listener checked them: when a
//! queued message is sent, and when a will is published.

use std::sync::Arc;

/// The current permissions of a client, which follow changes of users and rules.
pub trait Authorization: Send + Sync {
    /// Whether a publication under this topic may be sent to the client.
    fn may_receive(&self, topic: &str) -> bool;

    /// Whether the client's will may be published under this topic, retained or not.
    fn may_publish(&self, topic: &str, retain: bool) -> bool;
}

/// Finds the rights of clients that are not connected: a will that an earlier run of the server
/// stored is published with the rights that its owner has now.
pub trait OwnerRights: Send + Sync {
    /// The rights of a session's owner; `user` is `None` for a client that did not log in.
    fn of_owner(&self, user: Option<&str>, client_id: &str) -> Arc<dyn Authorization>;
}
