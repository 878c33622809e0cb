//! Access rights of a login, in the form that the broker requires.

use std::pin::Pin;
use std::sync::Arc;

use gatepost_broker::{Authorization, OwnerRights};
use gatepost_sinks::SubscriberRights;
use gatepost_users::{Access, Identity, Users};
use tokio::time::Sleep;

/// A login's rights, as the broker queries them.
struct IdentityRights(Identity);

impl Authorization for IdentityRights {
    fn may_receive(&self, topic: &str) -> bool {
        self.0.may(Access::Subscribe, topic).is_allowed()
    }

    fn may_publish(&self, topic: &str, retain: bool) -> bool {
        self.0.may_publish(topic, retain).is_allowed()
    }
}

/// The rights of this login, which follow changes of users and rules.
pub(super) fn authorization(identity: &Identity) -> Arc<dyn Authorization> {
    Arc::new(IdentityRights(identity.clone()))
}

/// The rights of users whose clients are not connected, for the broker and for subscriptions to
/// notifications.
#[derive(Clone)]
pub struct UsersRights(pub Users);

impl OwnerRights for UsersRights {
    fn of_owner(&self, user: Option<&str>, client_id: &str) -> Arc<dyn Authorization> {
        authorization(&self.0.owner(user, client_id))
    }
}

impl SubscriberRights for UsersRights {
    fn of_subscriber(
        &self,
        user: Option<&str>,
        login: Option<&serde_json::Value>,
        client_id: &str,
    ) -> Arc<dyn Authorization> {
        authorization(&self.0.owner_by_login(user, client_id, login))
    }

    fn has_ended(&self, user: &str, login: Option<&serde_json::Value>) -> bool {
        self.0.owner_by_login(Some(user), "", login).is_revoked()
    }
}

/// The expiry of a login by token. Most logins have none.
pub(super) type LoginEnd = Option<Pin<Box<Sleep>>>;
