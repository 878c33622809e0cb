//! A login by SCRAM-SHA-256, message by message: connects the mechanism to the users' keys, the
//! limits against guessing, and the log.

use super::Users;
use crate::names::fold;
use crate::scram::{ClientFirst, ScramExchange, ScramKeys, ScramProof};
use crate::{Identity, LoginOrigin, LoginRefusal};

/// One login by SCRAM-SHA-256, driven by the listener: SMTP's AUTH, MQTT 5's AUTH packets.
pub struct ScramLogin {
    users: Users,
    origin: LoginOrigin,
    exchange: ScramExchange,
}

/// The listener's next step after a message of the client.
#[derive(Debug)]
pub enum ScramStep {
    /// Send this and wait for the client's next message.
    Challenge(Vec<u8>),
    /// The client is authenticated. Send `last` to the client: with MQTT in CONNACK's
    /// authentication data, with SMTP as another challenge that the client answers with an empty
    /// line.
    Done {
        /// The server's proof.
        last: Vec<u8>,
        /// The client's identity.
        identity: Identity,
    },
}

impl ScramLogin {
    /// The mechanism's name in SASL and in MQTT's Authentication Method.
    pub const MECHANISM: &str = "SCRAM-SHA-256";

    pub(super) const fn new(users: Users, origin: LoginOrigin) -> Self {
        Self {
            users,
            origin,
            exchange: ScramExchange::Start,
        }
    }

    /// Processes the client's next message, as raw bytes (SMTP: after base64). After an error or
    /// [`ScramStep::Done`] the login has ended.
    pub fn step(&mut self, message: &[u8]) -> Result<ScramStep, LoginRefusal> {
        match std::mem::replace(&mut self.exchange, ScramExchange::Over) {
            ScramExchange::Start => self.challenge(message),
            ScramExchange::Proof(proof) => self.verify(&proof, message),
            ScramExchange::Over => Err(LoginRefusal::Malformed("the login is over")),
        }
    }

    fn challenge(&mut self, message: &[u8]) -> Result<ScramStep, LoginRefusal> {
        let first = ClientFirst::parse(message)?;
        self.users
            .may_try(self.origin.source(), Some(&fold(&first.user)))?;
        let shared = &self.users.shared;
        let keys = self
            .users
            .user(&first.user)
            .and_then(|user| user.scram.clone());
        let keys = keys.unwrap_or_else(|| {
            let iterations = shared.settings.scram_iterations;
            // A known user has one salt in whatever letter case it is named.
            ScramKeys::decoy(&**shared.pepper.load(), &fold(&first.user), iterations)
        });
        let (proof, answer) = ScramProof::challenge(&first, keys);
        self.exchange = ScramExchange::Proof(Box::new(proof));
        Ok(ScramStep::Challenge(answer))
    }

    fn verify(&self, proof: &ScramProof, message: &[u8]) -> Result<ScramStep, LoginRefusal> {
        // Checked again: any number of exchanges may have started before the first failure.
        self.users
            .may_try(self.origin.source(), Some(&fold(&proof.user)))?;
        let last = proof.verify(message).inspect_err(|denied| {
            let failure_limits = &self.users.shared.failure_limits;
            failure_limits.failed(self.origin.source(), Some(&fold(&proof.user)));
            tracing::info!(
                target: "users",
                listener = %self.origin.listener,
                peer = %self.origin.peer,
                %denied,
                "login refused"
            );
        })?;
        let user = self
            .users
            .user(&proof.user)
            .ok_or(LoginRefusal::Credentials)?;
        let identity = self.users.admit(&user, &self.origin)?;
        let identity = self.users.unless_refused(identity)?;
        Ok(ScramStep::Done { last, identity })
    }
}
