//! The identity of a connection and its permissions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use gatepost_message::is_bridge_state;

use crate::access_generation::AccessGeneration;
use crate::credentials::{AnonymousAccess, LoginOrigin};
use crate::kept_login::KeptLogin;
use crate::live_snapshot::LiveSnapshot;
use crate::login_basis::LoginBasis;
use crate::mount::Mount;
use crate::names::fold;
use crate::rules::{CompiledRules, Rule};
use crate::snapshot::Snapshot;
use crate::{Access, AccessDecision};

/// An authenticated peer. Cheap to clone; each connection has one. Its answers change with the
/// rules.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<IdentityState>,
}

struct IdentityState {
    generation: AccessGeneration,
    user: Option<Arc<str>>,
    client: Option<Box<str>>,
    basis: Arc<LoginBasis>,
    /// Unix seconds.
    expires: Option<u64>,
    permissions: ArcSwap<Permissions>,
}

/// The permissions in one generation of the snapshot.
struct Permissions {
    generation: u64,
    revoked: bool,
    admin: bool,
    rules: Arc<CompiledRules>,
    scope: Option<CompiledRules>,
    mount: Mount,
}

impl Identity {
    pub(crate) fn new(
        live: Arc<LiveSnapshot>,
        user: Option<Arc<str>>,
        origin: &LoginOrigin,
        basis: LoginBasis,
        expires: Option<u64>,
    ) -> Self {
        let client = origin.client.as_deref();
        Self::of(live, user, client, Arc::new(basis), (expires, None))
    }

    fn of(
        live: Arc<LiveSnapshot>,
        user: Option<Arc<str>>,
        client: Option<&str>,
        basis: Arc<LoginBasis>,
        (expires, session_ended): (Option<u64>, Option<Arc<AtomicBool>>),
    ) -> Self {
        let permissions = {
            let snapshot = live.load();
            let banned = is_banned(&live, user.as_deref());
            Permissions::new(&snapshot, user.as_deref(), client, &basis, banned)
        };
        Self {
            inner: Arc::new(IdentityState {
                client: client.map(Box::from),
                user,
                basis,
                expires,
                permissions: ArcSwap::from_pointee(permissions),
                generation: AccessGeneration {
                    live,
                    session_ended,
                },
            }),
        }
    }

    /// The same login as the identity of a browser's session, which ends at the latest at `expires`
    /// (Unix seconds), or once `ended` is true.
    pub(crate) fn of_session(&self, expires: u64, ended: Arc<AtomicBool>) -> Self {
        let inner = &*self.inner;
        let expires = inner.expires.map_or(expires, |own| own.min(expires));
        Self::of(
            inner.generation.live.clone(),
            inner.user.clone(),
            inner.client.as_deref(),
            inner.basis.clone(),
            (Some(expires), Some(ended)),
        )
    }

    /// The same login of a client with this id, which replaces `%c` in rules.
    #[must_use]
    pub fn for_client(&self, client: Option<&str>) -> Self {
        let inner = &*self.inner;
        Self::of(
            inner.generation.live.clone(),
            inner.user.clone(),
            client,
            inner.basis.clone(),
            (inner.expires, inner.generation.session_ended.clone()),
        )
    }

    /// The user's name; `None` for a peer that did not log in.
    pub fn user(&self) -> Option<&str> {
        self.inner.user.as_deref()
    }

    /// Whether the peer is an administrator: it may read and change everything, such as the
    /// quarantine, users and `$SYS`. A JWT or a token with a scope never makes an administrator.
    pub fn is_admin(&self) -> bool {
        self.with_permissions(|permissions| permissions.admin)
            .unwrap_or(false)
    }

    /// Whether the login is no longer valid: the user was removed, disabled or given another
    /// password, the token was revoked or has expired, or the browser's session has ended. Every
    /// further request is denied, and the listener closes the connection.
    pub fn is_revoked(&self) -> bool {
        self.with_permissions(|_| ()).is_none()
    }

    /// The prefix of the user's topics, which ends with `/`; `None` for a peer without one.
    pub fn mount(&self) -> Option<Arc<str>> {
        let mount = self.with_permissions(|permissions| permissions.mount.clone())?;
        match mount {
            Mount::At(prefix) => Some(prefix),
            Mount::Everywhere | Mount::Nowhere => None,
        }
    }

    /// The login, in the form in which it is stored with what acts for the user later; it is valid
    /// for [`Users::owner_by_login`](crate::Users::owner_by_login).
    pub fn kept_login(&self) -> serde_json::Value {
        KeptLogin::of(&self.inner.basis).to_value()
    }

    /// The time at which a token expires, in Unix seconds.
    pub fn expires(&self) -> Option<u64> {
        self.inner.expires
    }

    /// The generation of users and rules that the answers are based on. If the number has changed,
    /// an access that was allowed before may be denied.
    pub fn generation(&self) -> u64 {
        self.inner.generation.number()
    }

    /// The source of [`generation`](Self::generation).
    pub fn access_generation(&self) -> AccessGeneration {
        self.inner.generation.clone()
    }

    /// Whether the peer has this access to `topic`. For [`Access::Subscribe`] use
    /// [`may_subscribe`](Self::may_subscribe), which takes a filter; this method is for a single
    /// topic, such as that of a retained message. Takes no lock and does not allocate.
    pub fn may(&self, access: Access, topic: &str) -> AccessDecision {
        self.decide(access, topic, |rules| rules.may(access, topic))
    }

    /// Whether the peer may publish to `topic`, retained or not. The state of its own bridge needs
    /// no rule.
    pub fn may_publish(&self, topic: &str, retain: bool) -> AccessDecision {
        let decision = match self.may(Access::Publish, topic) {
            AccessDecision::Allow if retain => self.may(Access::Retain, topic),
            decision => decision,
        };
        let client_id = self.inner.client.as_deref();
        if !decision.is_allowed() && client_id.is_some_and(|id| is_bridge_state(topic, id)) {
            return AccessDecision::Allow;
        }
        self.inner.generation.live.refusals.publication(decision)
    }

    /// Whether the peer may subscribe to `filter` (for a shared subscription, the filter after
    /// `$share/group/`): whether every topic that the filter can match is allowed. A malformed
    /// filter matches nothing, so its answer has no effect.
    pub fn may_subscribe(&self, filter: &str) -> AccessDecision {
        let decision = self.decide(Access::Subscribe, filter, |rules| {
            rules.may_subscribe(filter)
        });
        self.inner.generation.live.refusals.subscription(decision)
    }

    /// Whether the login's token leaves this access to the user; a login without a restricted token
    /// leaves all. The user's own rules are not considered.
    pub fn token_permits(&self, access: Access, topic: &str) -> bool {
        self.with_permissions(|permissions| {
            let scope = permissions.scope.as_ref();
            scope.is_none_or(|scope| scope.may(access, topic).is_allowed())
        })
        .unwrap_or(false)
    }

    /// Whether the user is one of those named.
    pub fn is_one_of(&self, names: &[String]) -> bool {
        let user = self.user().map(fold);
        user.is_some_and(|user| names.iter().any(|name| fold(name) == user))
    }

    fn decide(
        &self,
        access: Access,
        name: &str,
        ask: impl Fn(&CompiledRules) -> AccessDecision,
    ) -> AccessDecision {
        self.with_permissions(|permissions| {
            if !permissions.mount.contains(access, name) {
                return AccessDecision::Deny;
            }
            let scope = permissions.scope.as_ref();
            match scope.map_or(AccessDecision::Allow, &ask) {
                AccessDecision::Allow => ask(&permissions.rules),
                AccessDecision::Deny => AccessDecision::Deny,
            }
        })
        .unwrap_or(AccessDecision::Deny)
    }

    /// `None` if the login is revoked or has expired.
    fn with_permissions<R>(&self, ask: impl FnOnce(&Permissions) -> R) -> Option<R> {
        let inner = &*self.inner;
        let expires = inner.expires;
        if inner.generation.has_ended() || expires.is_some_and(|expires| unix_seconds() >= expires)
        {
            return None;
        }
        let mut permissions = inner.permissions.load();
        if permissions.generation != inner.generation.live.generation() {
            inner.renew();
            permissions = inner.permissions.load();
        }
        (!permissions.revoked).then(|| ask(&permissions))
    }
}

impl IdentityState {
    #[cold]
    fn renew(&self) {
        let snapshot = self.generation.live.load();
        let (user, client) = (self.user.as_deref(), self.client.as_deref());
        let banned = is_banned(&self.generation.live, user);
        let permissions = Permissions::new(&snapshot, user, client, &self.basis, banned);
        self.permissions.store(Arc::new(permissions));
    }
}

impl Permissions {
    fn new(
        snapshot: &Snapshot,
        user: Option<&str>,
        client: Option<&str>,
        basis: &LoginBasis,
        is_banned: bool,
    ) -> Self {
        Self::granted(snapshot, user, client, basis)
            .filter(|_| !is_banned)
            .unwrap_or_else(|| Self {
                generation: snapshot.generation,
                revoked: true,
                admin: false,
                rules: Arc::new(CompiledRules::nothing()),
                scope: None,
                mount: Mount::Nowhere,
            })
    }

    /// The permissions of a login; `None` if it is no longer valid.
    fn granted(
        snapshot: &Snapshot,
        user: Option<&str>,
        client: Option<&str>,
        basis: &LoginBasis,
    ) -> Option<Self> {
        let known = user.and_then(|name| snapshot.user(name));
        let mount = mount_of(snapshot, user);
        let permissions = |admin, rules, scope: Option<&Vec<Rule>>| Self {
            mount: mount.clone(),
            generation: snapshot.generation,
            revoked: false,
            admin,
            rules,
            scope: scope.map(|scope| CompiledRules::scope(scope, user, client)),
        };
        let enabled = known.filter(|user| !user.disabled);
        match basis {
            LoginBasis::Anonymous(setting, local) => {
                let free = !snapshot.has_users() && *local;
                let allowed = match setting {
                    AnonymousAccess::Auto => free,
                    AnonymousAccess::Yes => true,
                    AnonymousAccess::No => false,
                };
                allowed.then(|| permissions(free, snapshot.compiled_anonymous(client, free), None))
            }
            LoginBasis::Owner(has_issuers) => match (user, known) {
                (None, _) => {
                    let free = !snapshot.has_users();
                    let rules = snapshot.compiled_anonymous(client, free);
                    Some(permissions(false, rules, None))
                }
                (Some(_), Some(user)) if user.disabled => None,
                (Some(_), Some(user)) => {
                    Some(permissions(false, snapshot.compiled(user, client), None))
                }
                (Some(name), None) => has_issuers.then(|| {
                    let rules = snapshot.compiled_for_stranger(name, client);
                    permissions(false, rules, None)
                }),
            },
            LoginBasis::User(epoch) => enabled
                .filter(|user| user.epoch == *epoch)
                .map(|user| permissions(user.admin, snapshot.compiled(user, client), None)),
            LoginBasis::Token(hash) => enabled.and_then(|user| {
                let token = snapshot.tokens.get(hash)?;
                let admin = user.admin && token.scope.is_none();
                let rules = snapshot.compiled(user, client);
                Some(permissions(admin, rules, token.scope.as_ref()))
            }),
            LoginBasis::Issuer { scope, .. } => match known {
                // An issuer may authenticate users without a record, but not disabled ones.
                Some(user) if user.disabled => None,
                Some(user) => {
                    let rules = snapshot.compiled(user, client);
                    Some(permissions(false, rules, scope.as_ref()))
                }
                // Without a record only the claims grant something: a user that is removed keeps
                // nothing by a token without claims.
                None => user.zip(scope.as_ref()).map(|(name, scope)| {
                    let rules = snapshot.compiled_for_stranger(name, client);
                    permissions(false, rules, Some(scope))
                }),
            },
        }
    }
}

/// The topics that a user can reach at all; administrators and peers without a login reach all.
fn mount_of(snapshot: &Snapshot, user: Option<&str>) -> Mount {
    let known = user.and_then(|name| snapshot.user(name));
    let name = known.map(|user| &*user.name).or(user);
    match name.filter(|_| known.is_none_or(|user| !user.admin)) {
        Some(name) => snapshot.mounts.of_user(name),
        None => Mount::Everywhere,
    }
}

/// Whether an operator shuts the user out now. A ban that ends later does not give the rights back
/// to this login, whose connection has ended.
fn is_banned(live: &LiveSnapshot, user: Option<&str>) -> bool {
    user.is_some_and(|user| live.bans.users().remaining(user).is_some())
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user().unwrap_or(crate::ANONYMOUS);
        write!(formatter, "Identity({user})")
    }
}
