//! The handle that every listener holds.

use gatepost_store::Store;

use crate::{AccessSettings, Credentials, Denied, Identity, Origin, UsersError};

/// All users and rules. Cheap to clone.
#[derive(Clone)]
pub struct Users {}

impl Users {
    /// Loads them from the store and starts the threads that check passwords.
    pub fn open(store: Store, settings: &AccessSettings) -> Result<Self, UsersError> {
        let _ = (store, settings);
        Ok(Self {})
    }

    /// Lets a peer in, or says why not. Passwords are checked on threads of their own; waiting
    /// for them is bounded by the settings.
    pub async fn authenticate(
        &self,
        credentials: Credentials,
        origin: &Origin,
    ) -> Result<Identity, Denied> {
        let _ = (credentials, origin);
        Err(Denied::Credentials)
    }

    /// Begins a login by SCRAM-SHA-256 (RFC 7677).
    pub fn scram(&self, origin: Origin) -> ScramLogin {
        let _ = origin;
        ScramLogin {}
    }

    /// Reads users, tokens and rules anew, and the keys of JWT issuers: what SIGHUP does.
    pub fn reload(&self) -> Result<(), UsersError> {
        Ok(())
    }

    /// Whether there is any user. From the first one on, peers must log in where `anonymous` is
    /// `auto`.
    pub fn any(&self) -> bool {
        false
    }
}

/// One login by SCRAM-SHA-256, driven by the listener: SMTP's AUTH, MQTT 5's AUTH packets.
pub struct ScramLogin {}

/// What to do after a message of the client's.
pub enum ScramStep {
    /// Send this and wait for the client's next message.
    Challenge(Vec<u8>),
    /// The client is in. `last` goes to the client: with MQTT in CONNACK's authentication data,
    /// with SMTP as one more challenge that the client answers with an empty line.
    Done {
        /// The server's proof.
        last: Vec<u8>,
        /// Who it is.
        identity: Identity,
    },
}

impl ScramLogin {
    /// Takes the client's next message, as bare bytes (SMTP: after base64).
    pub fn step(&mut self, message: &[u8]) -> Result<ScramStep, Denied> {
        let _ = message;
        Err(Denied::Credentials)
    }
}
