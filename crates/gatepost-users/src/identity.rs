//! Who a connection is, and what it may do.

use std::sync::Arc;

use crate::{Access, Decision};

/// A peer that was let in. Cheap to clone; each connection keeps one. It follows the rules as
/// they change: nothing need be asked anew.
#[derive(Debug, Clone)]
pub struct Identity {
    user: Option<Arc<str>>,
}

impl Identity {
    /// The user's name; `None` for a peer that did not log in.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether it may look at and change everything: quarantine, users, `$SYS`.
    pub fn is_admin(&self) -> bool {
        false
    }

    /// Whether what it logged in with is gone: the user removed, switched off or given another
    /// password, the token revoked or expired. All that it asks is denied from then on; the
    /// listener ends the connection when it sees this.
    pub fn is_revoked(&self) -> bool {
        false
    }

    /// Whether it may do this to `topic`. For [`Access::Subscribe`] use [`may_subscribe`].
    /// Takes no lock and allocates nothing.
    ///
    /// [`may_subscribe`]: Self::may_subscribe
    pub fn may(&self, _access: Access, _topic: &str) -> Decision {
        Decision::Deny
    }

    /// Whether it may publish to `topic`, retained or not.
    pub fn may_publish(&self, topic: &str, retain: bool) -> Decision {
        match self.may(Access::Publish, topic) {
            Decision::Allow if retain => self.may(Access::Retain, topic),
            decision => decision,
        }
    }

    /// Whether it may subscribe to `filter` (for a shared subscription, the filter within
    /// `$share/group/`): whether every topic that the filter can match is allowed. Once.
    pub fn may_subscribe(&self, _filter: &str) -> Decision {
        Decision::Deny
    }
}
