//! One listener's door: the users, and the listener's word on those who do not log in.

use gatepost_message::{Listener, Peer};

use crate::{AnonymousAccess, Credentials, Denied, Identity, Origin, ScramLogin, Users};

/// Lets peers in at one listener. Cheap to clone.
#[derive(Clone)]
pub struct Door {
    users: Users,
    listener: Listener,
    anonymous: AnonymousAccess,
    local: bool,
}

impl Door {
    /// `local` says whether all of the listener's addresses can only be reached from this
    /// machine.
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
        }
    }

    /// [`Users::authenticate`] at this door. `client` is what `%c` stands for in rules.
    pub async fn authenticate(
        &self,
        credentials: Credentials,
        peer: Peer,
        client: Option<&str>,
    ) -> Result<Identity, Denied> {
        let origin = self.origin(peer, client);
        self.users.authenticate(credentials, &origin).await
    }

    /// [`Users::scram`] at this door.
    pub fn scram(&self, peer: Peer, client: Option<&str>) -> ScramLogin {
        self.users.scram(self.origin(peer, client))
    }

    /// Whether there is anybody who could log in.
    pub fn any_user(&self) -> bool {
        self.users.any()
    }

    /// The users behind it.
    pub const fn users(&self) -> &Users {
        &self.users
    }

    fn origin(&self, peer: Peer, client: Option<&str>) -> Origin {
        let origin = Origin::new(self.listener, peer).with_door(self.anonymous, self.local);
        match client {
            Some(client) => origin.with_client(client),
            None => origin,
        }
    }
}
