//! Sessions of browsers: after a login by a form, a cookie with a random token stands for the
//! login.
//!
//! The table is in memory only: a restart ends all sessions, and a copy of the data folder contains
//! none. Only the hash of a token is kept, as for tokens of programs (`token.rs`). The table is
//! bounded for each user and in all; a login beyond a bound ends the session that was unused for
//! longest, so that neither a forgotten browser nor a user with many of them locks others out.
//!
//! Invariants:
//! - A session has the rights of the login that began it, and ends with that login: when the user
//!   is removed, disabled, banned or given another password ([`Identity::is_revoked`]).
//! - Every identity of a session shares one flag, so the end of a session revokes them all: those
//!   of open streams and connections too.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;

use crate::identity::unix_seconds;
use crate::token::{self, TokenHash};
use crate::{Identity, LoginSessionSettings, Secret, random};

/// The sessions of one process.
pub(crate) struct LoginSessions {
    idle_timeout: Duration,
    lifetime: Duration,
    per_user_max: usize,
    max: usize,
    table: Mutex<HashMap<TokenHash, LoginSession>>,
}

struct LoginSession {
    identity: Identity,
    ended: Arc<AtomicBool>,
    used: Instant,
}

impl LoginSession {
    fn user(&self) -> Option<&str> {
        self.identity.user()
    }
}

impl LoginSessions {
    pub(crate) fn new(settings: &LoginSessionSettings) -> Self {
        Self {
            idle_timeout: settings.idle_timeout.duration(),
            lifetime: settings.lifetime.duration(),
            per_user_max: settings.per_user_max.max(1),
            max: settings.max.max(1),
            table: Mutex::default(),
        }
    }

    /// Begins a session with the rights of this login; returns its token, and the number of
    /// sessions that ended to make room.
    pub(crate) fn begin(&self, login: &Identity, now: Instant) -> (Secret, usize) {
        let bits = zeroize::Zeroizing::new(random::bytes::<32>());
        let token = Secret::new(URL_SAFE_NO_PAD.encode(*bits));
        let ended = Arc::new(AtomicBool::new(false));
        let expires = unix_seconds().saturating_add(self.lifetime.as_secs());
        let session = LoginSession {
            identity: login.of_session(expires, ended.clone()),
            ended,
            used: now,
        };
        let mut table = self.table.lock();
        self.remove_expired(&mut table, now);
        let user = login.user();
        let mut replaced = make_room(&mut table, self.per_user_max, |held| held.user() == user);
        replaced += make_room(&mut table, self.max, |_| true);
        table.insert(token::hash(&token), session);
        (token, replaced)
    }

    /// The identity of a session that has not ended; the session counts as used.
    pub(crate) fn find(&self, token: &Secret, now: Instant) -> Option<Identity> {
        let mut table = self.table.lock();
        let session = table.get_mut(&token::hash(token))?;
        if self.is_over(session, now) {
            return None;
        }
        session.used = now;
        Some(session.identity.clone())
    }

    /// Ends a session; returns whether there was one.
    pub(crate) fn end(&self, token: &Secret) -> bool {
        let removed = self.table.lock().remove(&token::hash(token));
        removed.is_some_and(|session| {
            session.ended.store(true, Ordering::Release);
            true
        })
    }

    /// Removes the sessions that are over; returns how many there were.
    pub(crate) fn sweep(&self, now: Instant) -> usize {
        self.remove_expired(&mut self.table.lock(), now)
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().len()
    }

    fn is_over(&self, session: &LoginSession, now: Instant) -> bool {
        let unused = now.saturating_duration_since(session.used);
        unused >= self.idle_timeout || session.identity.is_revoked()
    }

    fn remove_expired(&self, table: &mut HashMap<TokenHash, LoginSession>, now: Instant) -> usize {
        let before = table.len();
        table.retain(|_, session| {
            let is_over = self.is_over(session, now);
            session.ended.fetch_or(is_over, Ordering::AcqRel);
            !is_over
        });
        before - table.len()
    }
}

/// Ends the sessions that were unused for longest until one more of those counted fits.
fn make_room(
    table: &mut HashMap<TokenHash, LoginSession>,
    max: usize,
    counts: impl Fn(&LoginSession) -> bool,
) -> usize {
    let mut counted: Vec<(Instant, TokenHash)> = table
        .iter()
        .filter(|(_, session)| counts(session))
        .map(|(hash, session)| (session.used, *hash))
        .collect();
    let excess = (counted.len() + 1).saturating_sub(max);
    if excess > 0 {
        counted.sort_unstable();
    }
    for (_, hash) in counted.iter().take(excess) {
        if let Some(session) = table.remove(hash) {
            session.ended.store(true, Ordering::Release);
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Listener, Peer};
    use gatepost_settings::Period;
    use gatepost_store::Store;

    use super::*;
    use crate::{AccessSettings, Credentials, LoginOrigin, Users};

    async fn users(names: &[&str]) -> (Users, Vec<Identity>) {
        let settings = AccessSettings {
            scram_iterations: 4_096,
            ..AccessSettings::default()
        };
        let users = Users::open(Store::in_memory().expect("a store"), &settings).expect("users");
        let origin = LoginOrigin::new(Listener::Http, Peer::Local);
        let mut logins = Vec::new();
        for name in names {
            let added = users.add(name, "secret".into(), false).await;
            added.expect("added");
            let credentials = Credentials::Password {
                user: (*name).to_owned(),
                password: "secret".into(),
            };
            let login = users.authenticate(credentials, &origin).await;
            logins.push(login.expect("let in"));
        }
        (users, logins)
    }

    fn table(per_user_max: usize, max: usize) -> LoginSessions {
        LoginSessions::new(&LoginSessionSettings {
            idle_timeout: Period::seconds(60),
            lifetime: Period::seconds(600),
            per_user_max,
            max,
        })
    }

    #[tokio::test]
    async fn a_session_lasts_while_it_is_used_and_its_identity_ends_with_it() {
        let (_users, logins) = users(&["anna"]).await;
        let sessions = table(5, 5);
        let start = Instant::now();
        let (token, _) = sessions.begin(&logins[0], start);
        let identity = sessions
            .find(&token, start + Duration::from_secs(59))
            .expect("a session");
        assert_eq!(identity.user(), Some("anna"));
        let later = start + Duration::from_secs(118);
        assert!(sessions.find(&token, later).is_some(), "used in between");
        let generation = identity.generation();
        let idle = later + Duration::from_mins(1);
        assert!(sessions.find(&token, idle).is_none());
        assert_eq!(sessions.sweep(idle), 1);
        assert!(identity.is_revoked());
        assert_ne!(identity.generation(), generation, "so a stream notices it");
        assert!(!identity.may_subscribe("a").is_allowed());
        assert!(!logins[0].is_revoked(), "only the session's");
    }

    #[tokio::test]
    async fn a_session_ends_after_its_lifetime_however_much_it_is_used() {
        let (_users, logins) = users(&["anna"]).await;
        let sessions = LoginSessions::new(&LoginSessionSettings {
            lifetime: Period::seconds(0),
            ..LoginSessionSettings::default()
        });
        let now = Instant::now();
        let (token, _) = sessions.begin(&logins[0], now);
        assert!(sessions.find(&token, now).is_none());
    }

    #[tokio::test]
    async fn a_further_login_ends_the_session_that_was_unused_for_longest() {
        let (_users, logins) = users(&["anna", "otto", "zoe"]).await;
        let sessions = table(2, 3);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (first, _) = sessions.begin(&logins[0], at(0));
        let (second, _) = sessions.begin(&logins[0], at(1));
        assert!(sessions.find(&first, at(2)).is_some());
        let (third, replaced) = sessions.begin(&logins[0], at(3));
        assert_eq!(replaced, 1, "anna has two");
        assert!(sessions.find(&second, at(3)).is_none());
        let (of_otto, replaced) = sessions.begin(&logins[1], at(4));
        assert_eq!(replaced, 0);
        let (of_zoe, replaced) = sessions.begin(&logins[2], at(5));
        assert_eq!(replaced, 1, "three in all");
        assert!(sessions.find(&first, at(5)).is_none());
        for token in [&third, &of_otto, &of_zoe] {
            assert!(sessions.find(token, at(6)).is_some());
        }
        assert_eq!(sessions.count(), 3);
    }

    #[tokio::test]
    async fn another_password_ends_the_sessions_of_its_user_only() {
        let (users, logins) = users(&["anna", "otto"]).await;
        let tokens: Vec<Secret> = logins.iter().map(|one| users.begin_session(one)).collect();
        let open = users.session(&tokens[0]).expect("a session");
        let changed = users.set_password("anna", "newest".into()).await;
        changed.expect("set");
        assert!(open.is_revoked() && users.session(&tokens[0]).is_none());
        assert!(users.session(&tokens[1]).is_some());
        users.sweep_sessions();
        assert_eq!(users.sessions(), 1);
    }

    #[tokio::test]
    async fn a_logout_revokes_what_the_session_has_open_and_wakes_listeners() {
        let (users, logins) = users(&["anna"]).await;
        let token = users.begin_session(&logins[0]);
        let open = users.session(&token).expect("a session");
        let as_client = open.for_client(Some("browser-1"));
        let mut changes = users.changes();
        changes.mark_unchanged();
        users.end_session(&token);
        assert!(changes.has_changed().expect("open"));
        assert!(open.is_revoked() && as_client.is_revoked());
        assert!(users.session(&token).is_none());
        for forged in ["", "A", &"A".repeat(43)] {
            assert!(users.session(&forged.into()).is_none());
        }
    }
}
