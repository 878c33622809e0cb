//! Access rights of a connection, and the effects of a change while it lasts.
//!
//! The rights for each publication and each subscription are checked when it arrives. A change of
//! users or rules wakes every connection: a connection whose login is no longer valid ends, the
//! others lose the subscriptions that are no longer permitted.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_broker::RequestedFilter;
use gatepost_message::TopicFilter;
use gatepost_mqtt::Reason;
use gatepost_users::Identity;

use super::connection::MqttConnection;
use super::connection_end::ConnectionEnd;
use super::rights::authorization;
use crate::mount::MountPrefix;

impl MqttConnection {
    /// Sets the login: the first one, or another.
    pub(super) fn set_identity(&mut self, identity: Option<Identity>) {
        let expires = identity.as_ref().and_then(Identity::expires);
        self.login_end = expires.map(|expires| {
            let end = UNIX_EPOCH + Duration::from_secs(expires);
            let left = end.duration_since(SystemTime::now()).unwrap_or_default();
            Box::pin(tokio::time::sleep(left))
        });
        self.access_generation = identity.as_ref().map_or(0, Identity::generation);
        self.mount = MountPrefix::of(identity.as_ref());
        self.identity = identity;
    }

    /// Ready when a change waits for [`apply_access_change`](Self::apply_access_change).
    pub(super) fn poll_access(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(identity) = &self.identity else {
            return Poll::Pending;
        };
        if identity.generation() != self.access_generation {
            return Poll::Ready(());
        }
        match &mut self.login_end {
            Some(end) => end.as_mut().poll(context),
            None => Poll::Pending,
        }
    }

    /// Acts on a change of users or rules, or on the end of a token.
    pub(super) fn apply_access_change(&mut self) {
        let Some(identity) = &self.identity else {
            return;
        };
        self.access_generation = identity.generation();
        if identity.is_revoked() {
            let text = "the login is no longer valid";
            self.end_with(ConnectionEnd::Server(Reason::NOT_AUTHORIZED, text));
        } else if MountPrefix::of(Some(identity)) != self.mount {
            let text = "the prefix of the user's topics has changed: connect again";
            self.end_with(ConnectionEnd::Server(Reason::NOT_AUTHORIZED, text));
        } else {
            self.login_end = None;
            self.drop_denied_subscriptions();
            self.recheck_waiting();
        }
    }

    /// Makes the rights of queued messages be checked again before they are sent.
    pub(super) fn recheck_waiting(&self) {
        let authorization = self.identity.as_ref().map(authorization);
        self.attachment.set_authorization(authorization);
    }

    /// Ends the subscriptions that are no longer permitted. MQTT has no packet to report this, so
    /// it is logged.
    pub(super) fn drop_denied_subscriptions(&self) {
        for filter in self.attachment.filters() {
            if !self.may_subscribe(&filter) && self.attachment.unsubscribe(&filter) {
                tracing::info!(target: "mqtt", peer = %self.peer,
                    client = self.attachment.session().client_id(),
                    "the subscription to {} ended: it is no longer allowed", filter.as_str());
            }
        }
    }

    /// Whether the client may have this subscription, which may be a shared one.
    pub(super) fn may_subscribe(&self, filter: &TopicFilter) -> bool {
        RequestedFilter::new(filter.as_str()).is_ok_and(|filter| self.may_have(&filter))
    }

    /// The same for a parsed filter.
    pub(super) fn may_have(&self, requested: &RequestedFilter) -> bool {
        let filter = requested
            .share
            .as_ref()
            .map_or(requested.text.as_str(), |share| share.filter.as_str());
        self.identity
            .as_ref()
            .is_none_or(|identity| identity.may_subscribe(filter).is_allowed())
    }
}
