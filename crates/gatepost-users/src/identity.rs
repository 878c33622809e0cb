//! Who a connection is, and what it may do.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

use crate::credentials::{AnonymousAccess, Origin};
use crate::rules::{Compiled, Rule};
use crate::snapshot::Snapshot;
use crate::token::TokenHash;
use crate::users::Shared;
use crate::{Access, Decision};

/// A peer that was let in. Cheap to clone; each connection keeps one. It follows the rules as
/// they change: nothing need be asked anew.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    user: Option<Arc<str>>,
    client: Option<Box<str>>,
    ground: Ground,
    /// Unix seconds.
    expires: Option<u64>,
    standing: ArcSwap<Standing>,
}

/// What it was let in for; when that falls away, so does the identity.
pub(crate) enum Ground {
    /// It need not log in here: while that holds.
    Anonymous(AnonymousAccess, bool),
    /// Its password, or a certificate: while the user is there with this epoch.
    User(u64),
    /// A token of ours: while it is there and its user's epoch does not matter to it.
    Token(TokenHash),
    /// The issuer of a JWT: until it expires.
    Vouched(Option<Vec<Rule>>),
}

/// What that comes to in one generation of the snapshot.
struct Standing {
    generation: u64,
    revoked: bool,
    admin: bool,
    rules: Arc<Compiled>,
    scope: Option<Compiled>,
}

impl Identity {
    pub(crate) fn new(
        shared: Arc<Shared>,
        user: Option<Arc<str>>,
        origin: &Origin,
        ground: Ground,
        expires: Option<u64>,
    ) -> Self {
        let client = origin.client.as_deref();
        let standing = {
            let snapshot = shared.snapshot.load();
            Standing::new(&snapshot, user.as_deref(), client, &ground)
        };
        Self {
            inner: Arc::new(Inner {
                client: client.map(Box::from),
                user,
                ground,
                expires,
                standing: ArcSwap::from_pointee(standing),
                shared,
            }),
        }
    }

    /// The user's name; `None` for a peer that did not log in.
    pub fn user(&self) -> Option<&str> {
        self.inner.user.as_deref()
    }

    /// Whether it may look at and change everything: quarantine, users, `$SYS`. A token with a
    /// scope and a JWT never may.
    pub fn is_admin(&self) -> bool {
        self.with_standing(|standing| standing.admin)
            .unwrap_or(false)
    }

    /// Whether what it logged in with is gone: the user removed, switched off or given another
    /// password, the token revoked or expired. All that it asks is denied from then on; the
    /// listener ends the connection when it sees this.
    pub fn is_revoked(&self) -> bool {
        self.with_standing(|_| ()).is_none()
    }

    /// When it ends by itself, in Unix seconds: a token's own end.
    pub fn expires(&self) -> Option<u64> {
        self.inner.expires
    }

    /// Which of the changes of users and rules its answers rest on; another number means that
    /// what was allowed before may be denied now. One load.
    pub fn generation(&self) -> u64 {
        self.inner.shared.generation()
    }

    /// Whether it may do this to `topic`. For [`Access::Subscribe`] use
    /// [`may_subscribe`](Self::may_subscribe), since that is asked with a filter; this one serves
    /// for a single topic, such as a retained message about to be sent. Takes no lock and
    /// allocates nothing.
    pub fn may(&self, access: Access, topic: &str) -> Decision {
        self.decide(|rules| rules.may(access, topic))
    }

    /// Whether it may publish to `topic`, retained or not.
    pub fn may_publish(&self, topic: &str, retain: bool) -> Decision {
        let decision = match self.may(Access::Publish, topic) {
            Decision::Allow if retain => self.may(Access::Retain, topic),
            decision => decision,
        };
        self.inner.shared.refusals.publication(decision)
    }

    /// Whether it may subscribe to `filter` (for a shared subscription, the filter within
    /// `$share/group/`): whether every topic that the filter can match is allowed. A filter that
    /// is none, such as an empty one, matches nothing, so the answer is of no matter.
    pub fn may_subscribe(&self, filter: &str) -> Decision {
        let decision = self.decide(|rules| rules.may_subscribe(filter));
        self.inner.shared.refusals.subscription(decision)
    }

    fn decide(&self, ask: impl Fn(&Compiled) -> Decision) -> Decision {
        self.with_standing(|standing| {
            let scope = standing.scope.as_ref();
            match scope.map_or(Decision::Allow, &ask) {
                Decision::Allow => ask(&standing.rules),
                Decision::Deny => Decision::Deny,
            }
        })
        .unwrap_or(Decision::Deny)
    }

    /// `None` if revoked or expired.
    fn with_standing<R>(&self, ask: impl FnOnce(&Standing) -> R) -> Option<R> {
        let inner = &*self.inner;
        if inner
            .expires
            .is_some_and(|expires| unix_seconds() >= expires)
        {
            return None;
        }
        let mut standing = inner.standing.load();
        if standing.generation != inner.shared.generation() {
            inner.renew();
            standing = inner.standing.load();
        }
        (!standing.revoked).then(|| ask(&standing))
    }
}

impl Inner {
    #[cold]
    fn renew(&self) {
        let snapshot = self.shared.snapshot.load();
        let (user, client) = (self.user.as_deref(), self.client.as_deref());
        let standing = Standing::new(&snapshot, user, client, &self.ground);
        self.standing.store(Arc::new(standing));
    }
}

impl Standing {
    fn new(snapshot: &Snapshot, user: Option<&str>, client: Option<&str>, ground: &Ground) -> Self {
        let generation = snapshot.generation;
        let known = user.and_then(|name| snapshot.users.get(name));
        let standing = |admin, rules, scope: Option<&Vec<Rule>>| Self {
            generation,
            revoked: false,
            admin,
            rules,
            scope: scope.map(|scope| Compiled::scope(scope, user, client)),
        };
        let enabled = known.filter(|user| !user.disabled);
        let granted = match ground {
            Ground::Anonymous(setting, local) => {
                let free = snapshot.users.is_empty() && *local;
                let allowed = match setting {
                    AnonymousAccess::Auto => free,
                    AnonymousAccess::Yes => true,
                    AnonymousAccess::No => false,
                };
                allowed.then(|| standing(free, snapshot.compiled_anonymous(client, free), None))
            }
            Ground::User(epoch) => enabled
                .filter(|user| user.epoch == *epoch)
                .map(|user| standing(user.admin, snapshot.compiled(user, client), None)),
            Ground::Token(hash) => enabled.and_then(|user| {
                let token = snapshot.tokens.get(hash)?;
                let admin = user.admin && token.scope.is_none();
                let rules = snapshot.compiled(user, client);
                Some(standing(admin, rules, token.scope.as_ref()))
            }),
            Ground::Vouched(scope) => match known {
                // The issuer may vouch for strangers, but not for those whom we switched off.
                Some(user) if user.disabled => None,
                Some(user) => Some(standing(
                    false,
                    snapshot.compiled(user, client),
                    scope.as_ref(),
                )),
                None => user.map(|name| {
                    let rules = snapshot.compiled_for_stranger(name, client);
                    standing(false, rules, scope.as_ref())
                }),
            },
        };
        granted.unwrap_or_else(|| Self {
            generation,
            revoked: true,
            admin: false,
            rules: Arc::new(Compiled::nothing()),
            scope: None,
        })
    }
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
