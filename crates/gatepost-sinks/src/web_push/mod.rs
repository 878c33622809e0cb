//! Web Push: notifications to browsers and phones whose page is closed.
//!
//! A browser gives its user's subscription an endpoint at a push service (RFC 8030) and keys; the
//! user submits them with a list of topics. Each subscription has a persistent session
//! `$sink/web-push/…` with the rights of its user, and the client of that session posts to the
//! endpoint. So the broker provides the queue, the access control and the crash safety.
//!
//! Invariants:
//! - A subscription is on disk, and its session open, before it is acknowledged.
//! - The record is deleted before the session: a session without a record is ended at the next
//!   start.
//! - Endpoints and keys are secrets: they are neither logged nor shown.

mod encryption;
mod endpoint;
mod notification;
mod service;
mod settings;
mod status;
mod subscription;
#[cfg(test)]
mod tests;
mod vapid_key;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_broker::Authorization;
use gatepost_store::StoreError;

pub use service::WebPush;
pub(crate) use service::end_unknown_sessions;
pub use settings::WebPushSettings;
pub use status::SubscriptionStatus;
pub use subscription::SubscriptionRequest;

/// The prefix of the names of subscriptions' sinks; a name in the settings has no `/`.
pub(crate) const NAME_PREFIX: &str = "web-push/";

/// Finds the rights of those who subscribed, by the user's name and the login that was stored with
/// the subscription: `None` for those of earlier versions. Without a name, the subscriber did not
/// log in.
pub trait SubscriberRights: Send + Sync {
    /// The rights of a subscriber at this moment and later.
    fn of_subscriber(
        &self,
        user: Option<&str>,
        login: Option<&serde_json::Value>,
        client_id: &str,
    ) -> Arc<dyn Authorization>;

    /// Whether the login is no longer valid, and will not be again.
    fn has_ended(&self, user: &str, login: Option<&serde_json::Value>) -> bool;
}

/// The reason why a subscription was not created.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // their texts say enough
pub enum WebPushError {
    #[error("endpoint: {0}")]
    Endpoint(&'static str),
    #[error("keys: p256dh and auth of the browser's subscription are needed")]
    Keys,
    #[error("topics: one to {0} are needed")]
    TopicsCount(usize),
    #[error("topics: '{topic}': {reason}")]
    Topic { topic: String, reason: String },
    #[error(
        "there are {0} subscriptions already, the maximum of the settings; an operator can \
        raise web_push.subscriptions_max or web_push.subscriptions_per_user_max"
    )]
    TooMany(usize),
    #[error("this endpoint belongs to a subscription of another user")]
    Taken,
    #[error("the key of this server cannot be made or read")]
    Key,
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
