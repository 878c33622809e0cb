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
    /// Whether a peer of another machine, whom a proxy beside us reports, counts as one beside us.
    whoever_comes: bool,
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
            whoever_comes: false,
        }
    }

    /// Where the config opens everything to the world: it does not matter where a peer comes from.
    #[must_use]
    pub const fn open_to_world(mut self) -> Self {
        self.local = true;
        self.whoever_comes = true;
        self
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
        let local = self.whoever_comes || self.local && is_beside_us(peer);
        let origin = Origin::new(self.listener, peer).with_door(self.anonymous, local);
        match client {
            Some(client) => origin.with_client(client),
            None => origin,
        }
    }
}

/// Whether a peer is on this machine. Behind an address that only this machine reaches, another one
/// is whom a trusted proxy has told us of.
fn is_beside_us(peer: Peer) -> bool {
    match peer {
        Peer::Local => true,
        Peer::Address(address) => address.ip().to_canonical().is_loopback(),
    }
}
