//! Read permissions of a stream's reader, rechecked for as long as the stream lasts.
//!
//! A stream outlives the request that began it, so its rights are checked again whenever users or
//! rules have changed. An unchanged generation costs one load.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use gatepost_message::TopicFilter;
use gatepost_users::{AccessGeneration, Identity};

/// The rights of a stream's reader, which decide whether the stream may continue.
pub(super) struct StreamRights {
    identity: Option<Identity>,
    filters: Vec<TopicFilter>,
    is_local: bool,
    /// The generation of users and rules for which the rights were checked.
    checked: AtomicU64,
    /// The present generation, beside `checked`, so that an event touches no memory of `identity`.
    current: Option<AccessGeneration>,
}

impl StreamRights {
    /// The rights of an identity that may subscribe to all of these filters now; `None` if no login
    /// is needed.
    pub(super) fn new(identity: Option<Identity>, filters: &[TopicFilter], is_local: bool) -> Self {
        let current = identity.as_ref().map(Identity::access_generation);
        let checked = current.as_ref().map_or(0, AccessGeneration::number);
        Self {
            current,
            filters: if identity.is_some() {
                filters.to_vec()
            } else {
                Vec::new()
            },
            is_local,
            checked: AtomicU64::new(checked),
            identity,
        }
    }

    /// Whether users or rules have changed since they were checked. One load.
    pub(super) fn are_stale(&self) -> bool {
        let current = self.current.as_ref().map_or(0, AccessGeneration::number);
        self.checked.load(Ordering::Relaxed) != current
    }

    /// Returns when the rights are lost; for a task that the broker wakes at every change of users.
    pub(super) async fn lost(&self) {
        poll_fn(|_| {
            if self.still_hold() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Checks the rights again; returns false if the stream must end.
    pub(super) fn still_hold(&self) -> bool {
        let Some(identity) = &self.identity else {
            return true;
        };
        let generation = identity.generation();
        let may_read = |filter: &TopicFilter| {
            if is_internal(filter) {
                is_admin(identity, self.is_local)
            } else {
                identity.may_subscribe(filter.as_str()).is_allowed()
            }
        };
        let hold =
            !identity.is_revoked() && (!self.are_stale() || self.filters.iter().all(may_read));
        if hold {
            self.checked.store(generation, Ordering::Relaxed);
        }
        hold
    }
}

/// Without a login only a local peer is an administrator, whatever the config permits to others.
pub(super) fn is_admin(identity: &Identity, is_local: bool) -> bool {
    identity.is_admin() && (identity.user().is_some() || is_local)
}

/// Whether a filter can match a topic below `$SYS/gatepost`. These topics show subjects and senders
/// of all mail, so only administrators may read them.
pub(super) fn is_internal(filter: &TopicFilter) -> bool {
    let mut levels = filter.as_str().split('/');
    // Wildcards of the first level do not match `$SYS` [MQTT-4.7.2-1].
    levels.next() == Some("$SYS") && matches!(levels.next(), Some("gatepost" | "+" | "#"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_internal_where_they_touch_internal_topics() {
        for (filter, internal) in [
            ("$SYS/gatepost/journal", true),
            ("$SYS/+/journal", true),
            ("$SYS/#", true),
            ("$SYS/gatepost/#", true),
            ("$SYS/broker/#", false),
            ("#", false),
            ("+/gatepost/journal", false),
        ] {
            let parsed = TopicFilter::new(filter).expect("a filter");
            assert_eq!(is_internal(&parsed), internal, "{filter}");
        }
    }
}
