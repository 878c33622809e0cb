//! The number that changes whenever an access that was allowed before may be denied.
//!
//! It stands apart from the identity, so that a hot path which keeps one of these beside its own
//! state compares two numbers without touching the identity's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::live_snapshot::LiveSnapshot;

/// The generation of users and rules on which the answers about one login are based.
#[derive(Clone)]
pub struct AccessGeneration {
    pub(crate) live: Arc<LiveSnapshot>,
    /// Whether the browser's session, which the login belongs to, has ended; `None` for a login
    /// without such a session.
    pub(crate) session_ended: Option<Arc<AtomicBool>>,
}

impl AccessGeneration {
    /// The present number. One atomic load, or two if the login is a browser's session, whose end
    /// changes the number too.
    pub fn number(&self) -> u64 {
        if self.has_ended() {
            u64::MAX
        } else {
            self.live.generation()
        }
    }

    /// Whether the login was a browser's session, and the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = self.session_ended.as_ref();
        ended.is_some_and(|ended| ended.load(Ordering::Acquire))
    }
}
