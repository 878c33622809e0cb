//! Sessions of browsers, as listeners use them. The table is in `login_sessions.rs`.

use std::time::Instant;

use super::Users;
use crate::{Identity, Secret};

impl Users {
    /// Begins a browser's session with the rights of this login; returns the session's token.
    pub fn begin_session(&self, login: &Identity) -> Secret {
        let (token, replaced) = self.shared.login_sessions.begin(login, Instant::now());
        if replaced > 0 {
            let user = login.user().unwrap_or(crate::ANONYMOUS);
            tracing::info!(
                target: "users", user, replaced,
                "the table of sessions is full (access.sessions): the sessions that were unused \
                 for longest ended"
            );
            self.wake_listeners();
        }
        token
    }

    /// The identity of a session, by its token; `None` for a session that has ended, and for a text
    /// that never was a token. The session counts as used.
    pub fn session(&self, token: &Secret) -> Option<Identity> {
        self.shared.login_sessions.find(token, Instant::now())
    }

    /// Ends a session, with the streams and connections that it has open.
    pub fn end_session(&self, token: &Secret) {
        if self.shared.login_sessions.end(token) {
            self.wake_listeners();
        }
    }

    /// The number of sessions of browsers.
    pub fn sessions(&self) -> usize {
        self.shared.login_sessions.count()
    }

    /// Ends the sessions that have expired, or whose login is no longer valid.
    pub(crate) fn sweep_sessions(&self) {
        if self.shared.login_sessions.sweep(Instant::now()) > 0 {
            self.wake_listeners();
        }
    }

    /// Makes listeners check whether their connections are still authorised.
    fn wake_listeners(&self) {
        let generation = self.generation();
        self.shared.changed.send_replace(generation);
    }
}
