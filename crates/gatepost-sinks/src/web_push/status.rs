//! The state of subscriptions: individually for their users, as sums for operators.

use serde::Serialize;

use super::NAME_PREFIX;
use super::service::{RunningSubscription, WebPush, WebPushCore};
use crate::session::client_id;
use crate::status::{SinkState, SinkStatus};

/// A subscription, for its user.
#[derive(Debug, Clone, Serialize)]
pub struct SubscriptionStatus {
    /// The SHA-256 of its endpoint, shortened, in base64 for URLs.
    pub id: String,
    /// The push service.
    pub push_service: String,
    /// The topic filters.
    pub topics: Vec<String>,
    /// The time at which it is forgotten unless it is renewed, in Unix seconds.
    pub expires: u64,
    /// Its deliveries.
    #[serde(flatten)]
    pub sink: SinkStatus,
}

impl WebPush {
    /// The subscriptions of a user.
    pub fn of_user(&self, user: Option<&str>) -> Vec<SubscriptionStatus> {
        let running = self.0.running.lock();
        let own = running
            .iter()
            .filter(|(_, running)| running.subscription.user.as_deref() == user);
        own.map(|(id, running)| SubscriptionStatus {
            id: id.clone(),
            push_service: running.push_service.clone(),
            topics: running.subscription.own_topics(),
            expires: running.subscription.expires,
            sink: self.0.status_of(id, running),
        })
        .collect()
    }

    /// All of them as one sink: sums, the longest lag, the last error.
    pub(crate) fn status(&self) -> SinkStatus {
        let core = &self.0;
        let running = core.running.lock();
        let mut sum = SinkStatus {
            name: "web-push".to_owned(),
            kind: "web push",
            target: format!("{} subscriptions", running.len()),
            state: SinkState::Running,
            ..core.earlier.lock().clone()
        };
        for (id, running) in &*running {
            sum.add(core.status_of(id, running));
        }
        sum
    }
}

impl WebPushCore {
    pub(super) fn status_of(&self, id: &str, running: &RunningSubscription) -> SinkStatus {
        let mut status = SinkStatus {
            name: format!("{NAME_PREFIX}{id}"),
            kind: "web push",
            target: running.push_service.clone(),
            ..SinkStatus::default()
        };
        running.progress.describe(&mut status);
        status.count_queue(&self.broker, &client_id(&running.subscription.session));
        status
    }
}
