//! The handle that every listener holds: letting peers in.

mod scram_login;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use gatepost_message::Peer;
use gatepost_store::{Change, Store};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::checker::{Attempt, Checker};
use crate::guard::Guard;
use crate::identity::Ground;
use crate::jwt::{self, Issuers};
use crate::record;
use crate::refusals::{Counted, Refusals};
use crate::snapshot::{Snapshot, User};
use crate::{
    AccessSettings, AnonymousAccess, Credentials, Denied, Identity, Origin, PASSWORD_BYTES_MAX,
    Secret, UsersError, password, random, token,
};

pub use scram_login::{ScramLogin, ScramStep};

/// How soon a change made by another process is seen.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// All users and rules. Cheap to clone.
#[derive(Clone)]
pub struct Users {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) settings: AccessSettings,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// That of the snapshot; apart from it, so that looking costs one load.
    generation: AtomicU64,
    /// Serialises loading; the value is the revision that was loaded.
    loaded: Mutex<Vec<u8>>,
    changed: watch::Sender<u64>,
    issuers: ArcSwap<Issuers>,
    guard: Arc<Guard>,
    checker: Checker,
    /// What an unknown user's password is compared with, so that it takes as long.
    decoy_hash: Arc<str>,
    pepper: [u8; 32],
    pub(crate) refusals: Counted,
}

impl Shared {
    pub(crate) fn generation(&self) -> u64 {
        // Acquire: whoever sees the number sees the snapshot that was stored before it.
        self.generation.load(Ordering::Acquire)
    }
}

impl Users {
    /// What rules have denied since the start, in whatever protocol it was asked for.
    pub fn refusals(&self) -> Refusals {
        self.shared.refusals.sums()
    }

    /// Loads them from the store and starts the threads that check passwords.
    pub fn open(store: Store, settings: &AccessSettings) -> Result<Self, UsersError> {
        let issuers = Issuers::load(&settings.jwt)?;
        let guard = Arc::new(Guard::new(settings));
        let decoy = Secret::new(token::generate().expose());
        let users = Self {
            shared: Arc::new(Shared {
                pepper: pepper(&store)?,
                refusals: Counted::default(),
                snapshot: ArcSwap::default(),
                generation: AtomicU64::new(0),
                loaded: Mutex::default(),
                changed: watch::Sender::new(0),
                issuers: ArcSwap::from_pointee(issuers),
                checker: Checker::new(settings, guard.clone()),
                guard,
                decoy_hash: password::hash(&decoy)?.into(),
                settings: settings.clone(),
                store,
            }),
        };
        users.load_snapshot()?;
        Ok(users)
    }

    /// Lets a peer in, or says why not. Passwords are checked on threads of their own; waiting
    /// for them is bounded by the settings. Cancel-safe.
    ///
    /// While nobody can log in at all, credentials are not looked at: many clients always send
    /// some, and a door that is open to everybody is open to them too.
    pub async fn authenticate(
        &self,
        credentials: Credentials,
        origin: &Origin,
    ) -> Result<Identity, Denied> {
        let outcome = match credentials {
            Credentials::Anonymous => self.anonymous(origin),
            _ if !self.any() && self.anonymous(origin).is_ok() => self.anonymous(origin),
            Credentials::Password { user, password } => {
                self.by_password(&user, password, origin).await
            }
            Credentials::Bearer(token) => self.by_token(&token, None, origin),
            Credentials::Certificate { user } => self.by_certificate(&user, origin),
        };
        if let Err(denied) = &outcome {
            // The name is left out: people type passwords into the wrong field.
            tracing::info!(
                target: "users", listener = %origin.listener, peer = %origin.peer, %denied,
                "login refused"
            );
        }
        outcome
    }

    /// Whether anybody could log in: there is a user, or an issuer of tokens is believed. From the
    /// first one on, peers must log in where `anonymous` is `auto`.
    pub fn any(&self) -> bool {
        let shared = &self.shared;
        !shared.snapshot.load().users.is_empty() || !shared.issuers.load().is_empty()
    }

    /// Whether somebody of this name could log in: a user of ours, or whoever an issuer of tokens
    /// vouches for.
    pub fn can_log_in(&self, name: &str) -> bool {
        let shared = &self.shared;
        shared.snapshot.load().users.contains_key(name) || !shared.issuers.load().is_empty()
    }

    /// The number of changes so far that this process has seen. It rises with each.
    pub fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Reads users, tokens and rules anew, and the keys of JWT issuers: what SIGHUP does. On an
    /// error what was known before stays.
    pub fn reload(&self) -> Result<(), UsersError> {
        let issuers = Issuers::load(&self.shared.settings.jwt)?;
        self.shared.issuers.store(Arc::new(issuers));
        self.load_snapshot()
    }

    /// Follows changes that another process makes (`gatepost user …`); runs until dropped.
    pub async fn follow(&self) {
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            let users = self.clone();
            let looked = tokio::task::spawn_blocking(move || users.load_if_changed()).await;
            if let Ok(Err(error)) = looked {
                tracing::warn!(target: "users", %error, "users cannot be read; the last known stay");
            }
        }
    }

    /// Tells of each change, so that a listener can look whether its connections still may:
    /// [`Identity::is_revoked`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    fn load_if_changed(&self) -> Result<(), UsersError> {
        let revision = self.revision()?;
        if *self.shared.loaded.lock() == revision {
            return Ok(());
        }
        self.load_snapshot()
    }

    fn revision(&self) -> Result<Vec<u8>, UsersError> {
        let record = self.shared.store.record(record::ACCESS, record::REVISION)?;
        Ok(record.map_or_else(Vec::new, |revision| revision.to_vec()))
    }

    pub(crate) fn load_snapshot(&self) -> Result<(), UsersError> {
        let shared = &self.shared;
        let mut loaded = shared.loaded.lock();
        // Read first: if there is a change meanwhile, the next look sees another revision.
        *loaded = self.revision()?;
        let generation = shared.generation() + 1;
        let snapshot = Snapshot::load(&shared.store, shared.settings.default, generation)?;
        shared.snapshot.store(Arc::new(snapshot));
        shared.generation.store(generation, Ordering::Release);
        drop(loaded);
        shared.changed.send_replace(generation);
        Ok(())
    }

    fn identity(
        &self,
        user: Option<Arc<str>>,
        origin: &Origin,
        ground: Ground,
        expires: Option<u64>,
    ) -> Identity {
        Identity::new(self.shared.clone(), user, origin, ground, expires)
    }

    fn anonymous(&self, origin: &Origin) -> Result<Identity, Denied> {
        if origin.anonymous == AnonymousAccess::Auto && !self.shared.issuers.load().is_empty() {
            return Err(Denied::Anonymous);
        }
        let ground = Ground::Anonymous(origin.anonymous, origin.local);
        let identity = self.identity(None, origin, ground, None);
        if identity.is_revoked() {
            return Err(Denied::Anonymous);
        }
        Ok(identity)
    }

    async fn by_password(
        &self,
        name: &str,
        password: Secret,
        origin: &Origin,
    ) -> Result<Identity, Denied> {
        let text = password.expose();
        if text.starts_with(token::PREFIX) || jwt::looks_like_one(&password) {
            return self.by_token(&password, Some(name), origin);
        }
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(Denied::Credentials);
        }
        let user = self.user(name);
        let attempt = Attempt {
            user: name.into(),
            epoch: user.as_ref().map_or(0, |user| user.epoch),
            known: user.is_some(),
            hash: user.as_ref().map_or_else(
                || self.shared.decoy_hash.clone(),
                |user| user.password.clone(),
            ),
            password,
            peer: origin.peer,
        };
        self.shared.checker.check(attempt).await?;
        let user = user.ok_or(Denied::Credentials)?;
        self.admit(&user, origin)
    }

    fn by_certificate(&self, name: &str, origin: &Origin) -> Result<Identity, Denied> {
        let user = self.user(name).ok_or(Denied::Credentials)?;
        self.admit(&user, origin)
    }

    fn admit(&self, user: &User, origin: &Origin) -> Result<Identity, Denied> {
        if user.disabled {
            return Err(Denied::Disabled);
        }
        let ground = Ground::User(user.epoch);
        Ok(self.identity(Some(user.name.clone()), origin, ground, None))
    }

    /// `name` is the user that a client named besides, where its protocol asks for one.
    fn by_token(
        &self,
        secret: &Secret,
        name: Option<&str>,
        origin: &Origin,
    ) -> Result<Identity, Denied> {
        self.may_try(origin.peer, None)?;
        let outcome = if secret.expose().starts_with(token::PREFIX) {
            self.by_own_token(secret, name, origin)
        } else {
            self.by_jwt(secret, origin)
        };
        if matches!(outcome, Err(Denied::Credentials)) {
            self.shared.guard.failed(origin.peer, None);
        }
        outcome
    }

    fn by_own_token(
        &self,
        secret: &Secret,
        name: Option<&str>,
        origin: &Origin,
    ) -> Result<Identity, Denied> {
        let hash = token::hash(secret);
        let token = self.shared.snapshot.load().tokens.get(&hash).cloned();
        let token = token.ok_or(Denied::Credentials)?;
        if name.is_some_and(|name| !name.is_empty() && *name != *token.user) {
            return Err(Denied::Credentials);
        }
        let expires = token.expires;
        let identity = self.identity(
            Some(token.user.clone()),
            origin,
            Ground::Token(hash),
            expires,
        );
        if identity.is_revoked() {
            return Err(Denied::Credentials);
        }
        Ok(identity)
    }

    fn by_jwt(&self, secret: &Secret, origin: &Origin) -> Result<Identity, Denied> {
        let vouched = self.shared.issuers.load().verify(secret)?;
        let name: Arc<str> = vouched.user.into();
        if vouched.scope.is_none() && self.user(&name).is_none() {
            // Nobody said what this stranger may do.
            return Err(Denied::Credentials);
        }
        let ground = Ground::Vouched(vouched.scope);
        let identity = self.identity(Some(name), origin, ground, Some(vouched.expires));
        if identity.is_revoked() {
            return Err(Denied::Disabled);
        }
        Ok(identity)
    }

    pub(crate) fn user(&self, name: &str) -> Option<Arc<User>> {
        self.shared.snapshot.load().users.get(name).cloned()
    }

    fn may_try(&self, peer: Peer, user: Option<&str>) -> Result<(), Denied> {
        match self.shared.guard.must_wait(peer, user) {
            Some(retry_after) => Err(Denied::TooMany { retry_after }),
            None => Ok(()),
        }
    }
}

/// The installation's own key; made once.
fn pepper(store: &Store) -> Result<[u8; 32], UsersError> {
    let kept = store.record(record::ACCESS, record::PEPPER)?;
    if let Some(pepper) = kept.and_then(|kept| <[u8; 32]>::try_from(&kept[..]).ok()) {
        return Ok(pepper);
    }
    let pepper = random::bytes::<32>();
    // Whether it gets to disk is no matter: without it, the next start makes another.
    store.submit([Change::PutRecord {
        space: record::ACCESS,
        key: record::PEPPER.into(),
        value: pepper.to_vec().into(),
    }])?;
    Ok(pepper)
}
