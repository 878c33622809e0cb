//! The rights of a client, asked again where time has passed since the listener asked them: when
//! a queued message leaves, and when a will is published.

/// What a client may do now. The answers follow changes of users and rules.
pub trait Authorization: Send + Sync {
    /// Whether a publication under this topic may be sent to the client.
    fn may_receive(&self, topic: &str) -> bool;

    /// Whether the client's will may be published under this topic, retained or not.
    fn may_publish(&self, topic: &str, retain: bool) -> bool;
}
