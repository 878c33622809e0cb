//! Credentials, and the origin of a login.

use gatepost_message::{Listener, Peer};
use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::peer_origin::LoginSource;

/// The credentials of a login.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// No credentials.
    Anonymous,
    /// A name and a password: MQTT CONNECT, SMTP PLAIN and LOGIN, HTTP Basic, POP3. A token is
    /// accepted as a password too, since many clients support nothing else. The name is then the
    /// token's user, or any name if the token is a JWT.
    Password {
        /// The name that the peer gave.
        user: String,
        /// The password that the peer gave.
        password: Secret,
    },
    /// A token of this gateway (`gp_…`) or a JWT: HTTP Bearer.
    Bearer(Secret),
    /// A client certificate that TLS has verified; its common name is the user.
    Certificate {
        /// The subject's common name.
        user: String,
    },
}

impl Credentials {
    /// Credentials from the value of HTTP's `Authorization` (RFC 7617, RFC 6750), or of ntfy's
    /// `auth=` once it is decoded. `None` if the scheme is neither Basic nor Bearer or the value is
    /// malformed.
    pub fn from_authorization(value: &str) -> Option<Self> {
        let (scheme, value) = value.trim().split_once(' ')?;
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return (!value.is_empty()).then(|| Self::Bearer(Secret::from(value)));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(value)
            .ok()?;
        let text = zeroize::Zeroizing::new(String::from_utf8(bytes).ok()?);
        let (user, password) = text.split_once(':')?;
        Some(Self::Password {
            user: user.to_owned(),
            password: Secret::from(password),
        })
    }
}

/// Whether a listener serves peers that do not log in: the setting `anonymous` of each listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnonymousAccess {
    /// Only while no user exists, and only on an address of this machine.
    #[default]
    Auto,
    /// Always. On an address that other machines can reach, this opens the listener to everyone.
    Yes,
    /// Never.
    No,
}

/// The origin of a login attempt.
#[derive(Debug, Clone)]
pub struct LoginOrigin {
    /// The listener.
    pub listener: Listener,
    /// The other end of the connection; for connections through a trusted proxy, the client's
    /// address.
    pub peer: Peer,
    /// The MQTT client id, for `%c` in rules.
    pub client: Option<String>,
    /// The listener's setting.
    pub anonymous: AnonymousAccess,
    /// Whether the listener's address can only be reached from this machine
    /// ([`Bind::is_local`](gatepost_settings::Bind::is_local)).
    pub local: bool,
    /// Whether the peer may act for clients of other machines: a proxy that does not report them.
    pub acts_for_others: bool,
}

impl LoginOrigin {
    /// An attempt at a listener on an address of this machine, with the default setting.
    pub fn new(listener: Listener, peer: Peer) -> Self {
        Self {
            listener,
            peer,
            client: None,
            anonymous: AnonymousAccess::Auto,
            local: true,
            acts_for_others: false,
        }
    }

    pub(crate) fn source(&self) -> LoginSource {
        LoginSource::new(self.peer, self.acts_for_others)
    }

    /// The same origin with the peer's client id.
    #[must_use]
    pub fn with_client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// The same origin with the listener's setting; `local` states whether its address is reachable
    /// from this machine only.
    #[must_use]
    pub fn with_anonymous_access(mut self, anonymous: AnonymousAccess, local: bool) -> Self {
        self.anonymous = anonymous;
        self.local = local;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_is_basic_or_bearer() {
        match Credentials::from_authorization("Basic YW5uYTpwOnc=") {
            Some(Credentials::Password { user, password }) => {
                assert_eq!((user.as_str(), password.expose()), ("anna", "p:w"));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            Credentials::from_authorization("bearer  gp_x "),
            Some(Credentials::Bearer(token)) if token.expose() == "gp_x"
        ));
        for malformed in [
            "",
            "Basic",
            "Basic !!!!",
            "Basic YW5uYQ==",
            "Digest x",
            "Bearer ",
        ] {
            assert!(
                Credentials::from_authorization(malformed).is_none(),
                "{malformed}"
            );
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let credentials = Credentials::from_authorization("Basic YW5uYTpodW50ZXIy");
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
