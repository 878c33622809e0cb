//! SASL exchanges (RFC 4422) of SMTP and POP3: PLAIN (RFC 4616), LOGIN, SCRAM-SHA-256 (RFC 7677).
//!
//! The protocols differ in the framing of challenges; the content is the same and is handled here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_message::Peer;
use gatepost_users::{
    Credentials, Identity, ListenerAuth, LoginRefusal, ScramLogin, ScramStep, Secret,
};

/// The mechanisms that EHLO and CAPA offer.
pub(crate) const MECHANISMS: &str = "SCRAM-SHA-256 PLAIN LOGIN";
/// A response longer than this is refused before it is decoded (RFC 4954, section 4).
pub(crate) const RESPONSE_BYTES_MAX: usize = 12_288;

/// An exchange that waits for the client's next response.
pub(crate) enum SaslExchange {
    Plain,
    LoginUser,
    LoginPassword(String),
    Scram(Box<ScramLogin>),
    /// The server's proof was sent; an empty response ends it.
    ScramDone(Box<Identity>),
}

/// The next step after a response.
pub(crate) enum SaslStep {
    /// Sent to the client, in base64.
    Challenge(String, SaslExchange),
    Done(Box<Identity>),
}

impl SaslExchange {
    /// Begins an exchange; returns `None` for an unsupported mechanism.
    pub(crate) fn begin(mechanism: &str, auth: &ListenerAuth, peer: Peer) -> Option<Self> {
        Some(match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => Self::Plain,
            "LOGIN" => Self::LoginUser,
            "SCRAM-SHA-256" => Self::Scram(Box::new(auth.scram(peer, None))),
            _ => return None,
        })
    }

    /// The challenge, in base64, for a client that gave no initial response.
    pub(crate) fn initial_challenge(&self) -> String {
        match self {
            Self::LoginUser => BASE64.encode("Username:"),
            _ => String::new(),
        }
    }

    /// Handles a response, in base64; `=` is an empty one (RFC 4954, section 4).
    pub(crate) async fn respond(
        self,
        response: &str,
        auth: &ListenerAuth,
        peer: Peer,
    ) -> Result<SaslStep, LoginRefusal> {
        let response = match response {
            "=" => Vec::new(),
            text => BASE64
                .decode(text)
                .map_err(|_| LoginRefusal::Malformed("a response that is not base64"))?,
        };
        match self {
            Self::Plain => {
                let credentials = plain(&response)?;
                auth.authenticate(credentials, peer, None).await.map(done)
            }
            Self::LoginUser => {
                let user = text(response)?;
                let next = Self::LoginPassword(user);
                Ok(SaslStep::Challenge(BASE64.encode("Password:"), next))
            }
            Self::LoginPassword(user) => {
                let password = Secret::from(text(response)?.as_str());
                let credentials = Credentials::Password { user, password };
                auth.authenticate(credentials, peer, None).await.map(done)
            }
            Self::Scram(mut login) => Ok(match login.step(&response)? {
                ScramStep::Challenge(challenge) => {
                    SaslStep::Challenge(BASE64.encode(challenge), Self::Scram(login))
                }
                ScramStep::Done { last, identity } => {
                    let next = Self::ScramDone(Box::new(identity));
                    SaslStep::Challenge(BASE64.encode(last), next)
                }
            }),
            Self::ScramDone(identity) if response.is_empty() => Ok(SaslStep::Done(identity)),
            Self::ScramDone(_) => Err(LoginRefusal::Malformed("an unexpected response")),
        }
    }
}

fn done(identity: Identity) -> SaslStep {
    SaslStep::Done(Box::new(identity))
}

fn text(response: Vec<u8>) -> Result<String, LoginRefusal> {
    String::from_utf8(response).map_err(|_| LoginRefusal::Malformed("a response that is not UTF-8"))
}

/// `[authorize as] NUL user NUL password`
fn plain(response: &[u8]) -> Result<Credentials, LoginRefusal> {
    const MALFORMED: LoginRefusal = LoginRefusal::Malformed("no PLAIN response");
    let response = std::str::from_utf8(response).map_err(|_| MALFORMED)?;
    let mut parts = response.split('\0');
    let (Some(authorize), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(MALFORMED);
    };
    // Authorization as another user is not supported; naming the same user is harmless.
    if !authorize.is_empty() && authorize != user {
        return Err(LoginRefusal::Malformed("authorization as another user"));
    }
    Ok(Credentials::Password {
        user: user.to_owned(),
        password: Secret::from(password),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_three_parts() {
        for (response, expected) in [
            ("\0anna\0secret", Some("anna")),
            ("anna\0anna\0secret", Some("anna")),
            ("otto\0anna\0secret", None),
            ("anna\0secret", None),
            ("\0anna\0secret\0", None),
            ("", None),
        ] {
            let user = match plain(response.as_bytes()) {
                Ok(Credentials::Password { user, .. }) => Some(user),
                _ => None,
            };
            assert_eq!(user.as_deref(), expected, "{response:?}");
        }
    }
}
