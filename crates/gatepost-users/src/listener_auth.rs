//! The authentication of one listener: the users, and its setting for peers without a login.

use std::borrow::Cow;

use gatepost_message::{Listener, Peer};

use crate::local_accounts::describe;
use crate::peer_origin::is_this_machine;
use crate::{
    AnonymousAccess, Credentials, Identity, LoginOrigin, LoginRefusal, PeerAccount, ScramLogin,
    Users,
};

/// Authenticates the peers of one listener. Cheap to clone.
#[derive(Clone)]
pub struct ListenerAuth {
    users: Users,
    listener: Listener,
    anonymous: AnonymousAccess,
    local: bool,
    /// Whether its peers may act on behalf of clients of other machines.
    peers_act_for_others: bool,
}

impl ListenerAuth {
    /// `local` states whether all of the listener's addresses are reachable from this machine only.
    pub const fn new(
        users: Users,
        listener: Listener,
        anonymous: AnonymousAccess,
        local: bool,
    ) -> Self {
        Self {
            users,
            listener,
            anonymous,
            local,
            peers_act_for_others: false,
        }
    }

    /// The same authentication for peers that do not count as being on this machine, whatever their
    /// address: the connection of a proxy, or a request that a web page may have caused.
    #[must_use]
    pub fn for_remote_peers(&self) -> Self {
        Self {
            local: false,
            peers_act_for_others: true,
            ..self.clone()
        }
    }

    /// The authentication of a peer by its account: as it is, or without what only local peers may
    /// where the account is not known to act for itself. Asks for the account only while it
    /// matters: there is no user, and the peer has a loopback address or a Unix socket.
    #[must_use]
    pub fn for_account(&self, peer: Peer, account: impl FnOnce() -> PeerAccount) -> Cow<'_, Self> {
        if !self.local || !is_this_machine(peer) {
            return Cow::Borrowed(self);
        }
        // A connection that begins while there are users stays without these rights when the last
        // user is removed.
        if !self.users.has_users() {
            let account = account();
            if self.users.counts_as_local(&account) {
                return Cow::Borrowed(self);
            }
            tracing::warn!(
                target: "users", listener = %self.listener, %peer,
                "a connection from this machine does not count as local, since it is of {}: add a \
                 user, or name the account in access.local_accounts if it acts for itself",
                describe(&account)
            );
        }
        Cow::Owned(Self {
            local: false,
            ..self.clone()
        })
    }

    /// [`Users::authenticate`] at this listener. `client` replaces `%c` in rules.
    pub async fn authenticate(
        &self,
        credentials: Credentials,
        peer: Peer,
        client: Option<&str>,
    ) -> Result<Identity, LoginRefusal> {
        let origin = self.origin(peer, client);
        self.users.authenticate(credentials, &origin).await
    }

    /// [`Users::scram`] at this listener.
    pub fn scram(&self, peer: Peer, client: Option<&str>) -> ScramLogin {
        self.users.scram(self.origin(peer, client))
    }

    /// Whether a login is possible at all.
    pub fn any_user(&self) -> bool {
        self.users.any()
    }

    /// The users that this listener authenticates.
    pub const fn users(&self) -> &Users {
        &self.users
    }

    fn origin(&self, peer: Peer, client: Option<&str>) -> LoginOrigin {
        let local = self.local && is_this_machine(peer);
        let mut origin =
            LoginOrigin::new(self.listener, peer).with_anonymous_access(self.anonymous, local);
        origin.acts_for_others = self.peers_act_for_others;
        match client {
            Some(client) => origin.with_client(client),
            None => origin,
        }
    }
}
