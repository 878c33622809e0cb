//! [`Users`]: the handle that listeners hold to authenticate peers.

mod browser_sessions;
mod following;
mod import;
mod manage;
mod pepper;
mod removed;
mod scram_login;
mod token_login;

use std::sync::Arc;

use arc_swap::ArcSwap;
use gatepost_bans::Bans;
use gatepost_message::{Listener, Peer};
use gatepost_store::Store;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::failure_limits::{FailureLimits, LOCAL_WAIT_MAX};
use crate::jwt::{self, Issuers};
use crate::kept_login::KeptLogin;
use crate::live_snapshot::LiveSnapshot;
use crate::local_accounts::LocalAccounts;
use crate::login_basis::LoginBasis;
use crate::login_sessions::LoginSessions;
use crate::names::fold;
use crate::password_checker::{PasswordAttempt, PasswordChecker};
use crate::peer_origin::LoginSource;
use crate::record;
use crate::refusal_counters::Refusals;
use crate::snapshot::{KnownUser, Snapshot};
use crate::{
    AccessSettings, AnonymousAccess, Credentials, Identity, LoginOrigin, LoginRefusal,
    PASSWORD_BYTES_MAX, PeerAccount, Secret, UsersError, password, token,
};

pub use manage::{AccessRuleSummary, TokenSummary, UserSummary};
pub use removed::RemovedUsers;
pub use scram_login::{ScramLogin, ScramStep};

/// Logins of peers on this machine that may be delayed at the same time; further ones are refused.
const DELAYED_LOCAL_LOGINS_MAX: usize = 32;
/// Number of hashes that are replaced simultaneously. Each takes 19 MiB and a processor for a
/// while, and after an import all clients log in at once.
const RENEWALS_MAX: usize = 2;

/// All users and access rules. Cheap to clone.
#[derive(Clone)]
pub struct Users {
    pub(crate) shared: Arc<UsersCore>,
}

pub(crate) struct UsersCore {
    pub(crate) store: Store,
    pub(crate) settings: AccessSettings,
    pub(crate) live: Arc<LiveSnapshot>,
    /// Serialises loading. The value is the revision that was loaded last.
    loaded: Mutex<Vec<u8>>,
    /// Held by the one change of this process that is being computed and committed.
    changing: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
    issuers: ArcSwap<Issuers>,
    failure_limits: Arc<FailureLimits>,
    checker: PasswordChecker,
    /// Limits the number of logins that wait in [`Users::wait_for_turn`].
    delayed_local_logins: Semaphore,
    /// Limits the hashes that are replaced after a login.
    renewals: Arc<Semaphore>,
    /// The password of an unknown user is compared with this hash, or with that of an imported user
    /// ([`Snapshot::decoys`]), so that the check takes the same time.
    decoy_hash: Arc<str>,
    local_accounts: LocalAccounts,
    login_sessions: LoginSessions,
    pepper: ArcSwap<[u8; 32]>,
    /// The users whose sessions may exist here.
    seen: ArcSwap<removed::SeenUsers>,
}

impl Users {
    /// Numbers of requests that rules have denied since the start, over all protocols.
    pub fn refusals(&self) -> Refusals {
        self.shared.live.refusals.sums()
    }

    /// Loads users and rules from the store and starts the threads that check passwords. Failed
    /// logins lead to bans that exist in memory only.
    pub fn open(store: Store, settings: &AccessSettings) -> Result<Self, UsersError> {
        Self::open_with_bans(store, settings, Bans::default())
    }

    /// As [`Users::open`]; failed logins count towards these bans.
    pub fn open_with_bans(
        store: Store,
        settings: &AccessSettings,
        bans: Bans,
    ) -> Result<Self, UsersError> {
        let issuers = Issuers::load(&settings.jwt)?;
        let live = Arc::new(LiveSnapshot::new(bans.clone()));
        let failure_limits = Arc::new(FailureLimits::new(settings, bans));
        let users = Self {
            shared: Arc::new(UsersCore {
                pepper: ArcSwap::from_pointee(pepper::of(&store)?),
                seen: ArcSwap::from_pointee(removed::seen_users(&store)?),
                live,
                loaded: Mutex::default(),
                changing: tokio::sync::Mutex::default(),
                changed: watch::Sender::new(0),
                issuers: ArcSwap::from_pointee(issuers),
                checker: PasswordChecker::new(settings, failure_limits.clone()),
                failure_limits,
                delayed_local_logins: Semaphore::new(DELAYED_LOCAL_LOGINS_MAX),
                renewals: Arc::new(Semaphore::new(RENEWALS_MAX)),
                decoy_hash: password::decoy_hash().into(),
                local_accounts: LocalAccounts::named(&settings.local_accounts),
                login_sessions: LoginSessions::new(&settings.sessions),
                settings: settings.clone(),
                store,
            }),
        };
        users.load_snapshot()?;
        Ok(users)
    }

    /// Authenticates a peer, or returns the reason for the refusal. Password checks run on separate
    /// threads with a bounded queue. Cancel-safe.
    ///
    /// While no user exists and anonymous access is granted, credentials are ignored: many clients
    /// always send some.
    pub async fn authenticate(
        &self,
        credentials: Credentials,
        origin: &LoginOrigin,
    ) -> Result<Identity, LoginRefusal> {
        let outcome = match credentials {
            Credentials::Anonymous => self.anonymous(origin),
            _ if !self.any() && self.anonymous(origin).is_ok() => self.anonymous(origin),
            Credentials::Password { user, password } => {
                self.by_password(&user, password, origin).await
            }
            Credentials::Bearer(token) => self.by_token(&token, None, origin),
            Credentials::Certificate { user } => self.by_certificate(&user, origin),
        };
        let outcome = outcome.and_then(|identity| self.unless_refused(identity));
        if let Err(denied) = &outcome {
            // The name is not logged, because users sometimes type their password into the wrong
            // field.
            tracing::info!(
                target: "users", listener = %origin.listener, peer = %origin.peer, %denied,
                "login refused"
            );
        }
        outcome
    }

    /// Refuses a user that an operator has banned, in whatever way it logged in, and one whose
    /// sessions could still be those of an earlier user of the name.
    fn unless_refused(&self, identity: Identity) -> Result<Identity, LoginRefusal> {
        let Some(name) = identity.user() else {
            return Ok(identity);
        };
        if let Some(retry_after) = self.shared.live.bans.users().remaining(name) {
            return Err(LoginRefusal::Banned { retry_after });
        }
        if self.has_predecessor(name) {
            return Err(LoginRefusal::Busy);
        }
        Ok(identity)
    }

    /// Begins a login by SCRAM-SHA-256 (RFC 7677).
    pub fn scram(&self, origin: LoginOrigin) -> ScramLogin {
        ScramLogin::new(self.clone(), origin)
    }

    /// A user was banned, or a ban was lifted: open connections are to ask again for their rights,
    /// as after a change of users.
    pub async fn bans_changed(&self) -> Result<(), UsersError> {
        let users = self.clone();
        let loading = tokio::task::spawn_blocking(move || users.load_snapshot());
        // It fails to be joined only where the server ends.
        loading.await.unwrap_or(Ok(()))
    }

    /// Whether a login is possible: there is a user, or a trusted issuer of tokens. From then on,
    /// peers must log in where `anonymous` is `auto`.
    pub fn any(&self) -> bool {
        let shared = &self.shared;
        shared.live.load().has_users() || !shared.issuers.load().is_empty()
    }

    /// Whether there is a user of this server's own, whatever issuers are trusted.
    pub(crate) fn has_users(&self) -> bool {
        self.shared.live.load().has_users()
    }

    /// Whether the program at the other end of a connection of this machine acts for itself, as far
    /// as its account shows. Asks the kernel once per connection.
    pub fn counts_as_local(&self, account: &PeerAccount) -> bool {
        self.shared.local_accounts.include(account)
    }

    /// Whether a known user or one of a trusted issuer may log in under this name.
    pub fn can_log_in(&self, name: &str) -> bool {
        let shared = &self.shared;
        shared.live.load().user(name).is_some() || !shared.issuers.load().is_empty()
    }

    /// The rights of a client that is not connected, by the name of its login, if it had logged in.
    /// A user that was removed or disabled has none.
    pub fn owner(&self, user: Option<&str>, client: &str) -> Identity {
        let has_issuers = !self.shared.issuers.load().is_empty();
        self.absent(user, client, LoginBasis::Owner(has_issuers), None)
    }

    /// The rights of what a user left here: those of the login that made it
    /// ([`Identity::kept_login`]). Without a login, the user must have a record.
    pub fn owner_by_login(
        &self,
        user: Option<&str>,
        client: &str,
        login: Option<&serde_json::Value>,
    ) -> Identity {
        let login = login.map_or(KeptLogin::Record, KeptLogin::of_value);
        let (basis, expires) = login.basis(&self.shared.live.load());
        self.absent(user, client, basis, expires)
    }

    /// The identity of a client that is not connected. Its listener and peer do not matter.
    fn absent(
        &self,
        user: Option<&str>,
        client: &str,
        basis: LoginBasis,
        expires: Option<u64>,
    ) -> Identity {
        let origin = LoginOrigin::new(Listener::Mqtt, Peer::Local).with_client(client);
        self.identity(user.map(Arc::from), &origin, basis, expires)
    }

    /// The number of changes that this process has seen. It increases with each change.
    pub fn generation(&self) -> u64 {
        self.shared.live.generation()
    }

    /// Reads users, tokens, rules and keys of issuers again. After an error the earlier ones stay.
    pub fn reload(&self) -> Result<(), UsersError> {
        let issuers = Issuers::load(&self.shared.settings.jwt)?;
        self.shared.issuers.store(Arc::new(issuers));
        self.load_snapshot()
    }

    /// Signals each change, after which [`Identity::is_revoked`] may differ.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    fn revision(&self) -> Result<Vec<u8>, UsersError> {
        let record = self.shared.store.record(record::ACCESS, record::REVISION)?;
        Ok(record.map_or_else(Vec::new, |revision| revision.to_vec()))
    }

    /// Whether the users are known: always, except on a new server of a cluster that has not read
    /// the cluster's users yet. Until then clients are refused as if there were users.
    pub fn are_known(&self) -> bool {
        let cluster = self.shared.store.shared_records();
        cluster.is_none_or(|cluster| cluster.is_complete())
    }

    pub(crate) fn load_snapshot(&self) -> Result<(), UsersError> {
        let shared = &self.shared;
        let mut loaded = shared.loaded.lock();
        // The revision is read first: if a change is made in the meantime, the next check finds
        // another revision.
        *loaded = self.revision()?;
        let generation = shared.live.generation() + 1;
        let snapshot = Snapshot::load(&shared.store, &shared.settings, generation)?;
        shared.live.replace(snapshot);
        if let Some(pepper) = pepper::stored(&shared.store)? {
            shared.pepper.store(Arc::new(pepper));
        }
        drop(loaded);
        shared.changed.send_replace(generation);
        Ok(())
    }

    fn identity(
        &self,
        user: Option<Arc<str>>,
        origin: &LoginOrigin,
        basis: LoginBasis,
        expires: Option<u64>,
    ) -> Identity {
        Identity::new(self.shared.live.clone(), user, origin, basis, expires)
    }

    fn anonymous(&self, origin: &LoginOrigin) -> Result<Identity, LoginRefusal> {
        if origin.anonymous == AnonymousAccess::Auto && !self.shared.issuers.load().is_empty() {
            return Err(LoginRefusal::Anonymous);
        }
        let basis = LoginBasis::Anonymous(origin.anonymous, origin.local);
        let identity = self.identity(None, origin, basis, None);
        if identity.is_revoked() {
            return Err(LoginRefusal::Anonymous);
        }
        Ok(identity)
    }

    async fn by_password(
        &self,
        name: &str,
        password: Secret,
        origin: &LoginOrigin,
    ) -> Result<Identity, LoginRefusal> {
        let text = password.expose();
        if text.starts_with(token::PREFIX) || jwt::has_jwt_form(&password) {
            return self.by_token(&password, Some(name), origin);
        }
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(LoginRefusal::Credentials);
        }
        let snapshot = self.shared.live.load_full();
        let user = snapshot.user(name).cloned();
        let folded = fold(name);
        let attempt = PasswordAttempt {
            epoch: user.as_ref().map_or(0, |user| user.epoch),
            known: user.is_some(),
            hash: match &user {
                Some(user) => user.password.clone(),
                None => self.hash_of_unknown(&snapshot, &folded),
            },
            user: folded.into(),
            password: password.clone(),
            source: origin.source(),
        };
        self.wait_for_turn(&attempt).await?;
        self.shared.checker.check(attempt).await?;
        let user = user.ok_or(LoginRefusal::Credentials)?;
        self.renew_hash(&user, &password).await;
        self.admit(&user, origin)
    }

    /// The hash that the password of an unknown user is compared with.
    fn hash_of_unknown(&self, snapshot: &Snapshot, folded_name: &str) -> Arc<str> {
        let key = &**self.shared.pepper.load();
        let chosen = snapshot.decoys.choose(key, folded_name);
        chosen.unwrap_or(&self.shared.decoy_hash).clone()
    }

    /// Delays a peer on this machine after many failures instead of refusing it: the correct
    /// password must always be accepted eventually. Other peers are refused just before their
    /// password is checked.
    async fn wait_for_turn(&self, attempt: &PasswordAttempt) -> Result<(), LoginRefusal> {
        if !attempt.source.is_local || self.shared.checker.remembers(attempt) {
            return Ok(());
        }
        let limits = &self.shared.failure_limits;
        let Some(wait) = limits.must_wait(attempt.source, Some(&attempt.user)) else {
            return Ok(());
        };
        let permit = self.shared.delayed_local_logins.try_acquire();
        let _permit = permit.map_err(|_| LoginRefusal::TooMany { retry_after: wait })?;
        tokio::time::sleep(wait.min(LOCAL_WAIT_MAX)).await;
        Ok(())
    }

    fn by_certificate(&self, name: &str, origin: &LoginOrigin) -> Result<Identity, LoginRefusal> {
        let user = self.user(name).ok_or(LoginRefusal::Credentials)?;
        self.admit(&user, origin)
    }

    fn admit(&self, user: &KnownUser, origin: &LoginOrigin) -> Result<Identity, LoginRefusal> {
        if user.disabled {
            return Err(LoginRefusal::Disabled);
        }
        let basis = LoginBasis::User(user.epoch);
        Ok(self.identity(Some(user.name.clone()), origin, basis, None))
    }

    pub(crate) fn user(&self, name: &str) -> Option<Arc<KnownUser>> {
        self.shared.live.load().user(name).cloned()
    }

    fn may_try(&self, source: LoginSource, user: Option<&str>) -> Result<(), LoginRefusal> {
        match self.shared.failure_limits.must_wait(source, user) {
            Some(retry_after) => Err(LoginRefusal::TooMany { retry_after }),
            None => Ok(()),
        }
    }
}
