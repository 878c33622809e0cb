//! The server side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without I/O.
//!
//! The client proves that it knows the password without sending it, and the server proves that it
//! has the user's keys. Neither the password nor an equivalent of it is on the wire or in the
//! store. Channel binding is not offered.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{LoginRefusal, Secret, random};

/// The maximum length of a client's message.
const MESSAGE_BYTES_MAX: usize = 2_048;
/// RFC 7677, section 4: at least 4,096 iterations.
pub(crate) const ITERATIONS_MIN: u32 = 4_096;

const KEY_BYTES: usize = 32;

pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    // HMAC accepts keys of any length, so this constructor cannot fail; an empty key would be a
    // bug, not an error of the peer.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length");
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The stored keys of a password (RFC 5802, section 3).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScramKeys {
    #[serde(with = "base64_text")]
    pub(crate) salt: Vec<u8>,
    pub(crate) iterations: u32,
    #[serde(with = "base64_text")]
    pub(crate) stored_key: Vec<u8>,
    #[serde(with = "base64_text")]
    pub(crate) server_key: Vec<u8>,
}

impl ScramKeys {
    /// Derives the keys; takes the time of `iterations`.
    pub(crate) fn derive(password: &Secret, salt: &[u8], iterations: u32) -> Self {
        let mut salted = zeroize::Zeroizing::new([0; KEY_BYTES]);
        pbkdf2::pbkdf2_hmac::<Sha256>(
            password.expose().as_bytes(),
            salt,
            iterations.max(ITERATIONS_MIN),
            &mut *salted,
        );
        let client_key = hmac_sha256(&*salted, &[b"Client Key"]);
        Self {
            salt: salt.to_vec(),
            iterations: iterations.max(ITERATIONS_MIN),
            stored_key: Sha256::digest(client_key).to_vec(),
            server_key: hmac_sha256(&*salted, &[b"Server Key"]).to_vec(),
        }
    }

    /// Keys that no password matches, always the same for one name, so that the reply for an
    /// unknown user does not differ from that for a known one (RFC 5802, section 9).
    pub(crate) fn decoy(pepper: &[u8], user: &str, iterations: u32) -> Self {
        let salt = hmac_sha256(pepper, &[b"scram salt\0", user.as_bytes()]);
        Self {
            salt: salt.iter().take(16).copied().collect(),
            iterations: iterations.max(ITERATIONS_MIN),
            stored_key: random::bytes::<KEY_BYTES>().to_vec(),
            server_key: random::bytes::<KEY_BYTES>().to_vec(),
        }
    }
}

/// The state of the exchange.
pub(crate) enum ScramExchange {
    /// Waiting for the client's first message.
    Start,
    /// Waiting for the client's proof.
    Proof(Box<ScramProof>),
    /// The exchange has ended.
    Over,
}

/// The state between the two messages.
pub(crate) struct ScramProof {
    pub(crate) user: String,
    keys: ScramKeys,
    /// The client's channel binding flag, which its second message must repeat.
    header: String,
    nonce: String,
    /// `client-first-message-bare,server-first-message`.
    transcript: String,
}

/// The parsed first message of the client.
pub(crate) struct ClientFirst<'a> {
    pub(crate) user: String,
    header: &'a str,
    bare: &'a str,
    nonce: &'a str,
}

const fn malformed<T>(what: &'static str) -> Result<T, LoginRefusal> {
    Err(LoginRefusal::Malformed(what))
}

fn text(message: &[u8]) -> Result<&str, LoginRefusal> {
    if message.len() > MESSAGE_BYTES_MAX {
        return malformed("a message of SCRAM that is too long");
    }
    std::str::from_utf8(message).or_else(|_| malformed("a message of SCRAM that is not UTF-8"))
}

impl<'a> ClientFirst<'a> {
    /// `gs2-cbind-flag "," [authzid] "," [reserved-mext ","] username "," nonce ["," extensions]`
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, LoginRefusal> {
        let message = text(message)?;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(authorize), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return malformed("no SCRAM client-first-message");
        };
        // "y": the client supports channel binding but believes that the server does not, which is
        // true.
        if flag != "n" && flag != "y" {
            return malformed("channel binding is not offered");
        }
        let header = &message[..message.len() - bare.len()];
        let mut attributes = bare.split(',');
        // A mandatory extension ("m=") would be here: section 5.1, must be refused.
        let Some(name) = attributes.next().and_then(|part| part.strip_prefix("n=")) else {
            return malformed("no user name in SCRAM");
        };
        let nonce = attributes.next().and_then(|part| part.strip_prefix("r="));
        let Some(nonce) = nonce.filter(|nonce| !nonce.is_empty()) else {
            return malformed("no nonce in SCRAM");
        };
        let user = unescape(name)?;
        // Acting for another user is not supported; a client that names itself is accepted.
        let authorized = authorize.strip_prefix("a=").map(unescape).transpose()?;
        if !authorize.is_empty() && authorized.as_deref() != Some(&*user) {
            return malformed("authorization as another user");
        }
        Ok(Self {
            user,
            header,
            bare,
            nonce,
        })
    }
}

/// `=2C` and `=3D` stand for comma and equals sign; any other `=` is an error (section 5.1).
fn unescape(name: &str) -> Result<String, LoginRefusal> {
    let mut pieces = name.split('=');
    let mut user = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (character, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return malformed("a malformed user name in SCRAM"),
        };
        user.push(character);
        user.push_str(rest);
    }
    Ok(user)
}

impl ScramProof {
    /// The server's first message, and the state to keep.
    pub(crate) fn challenge(first: &ClientFirst<'_>, keys: ScramKeys) -> (Self, Vec<u8>) {
        let own = BASE64.encode(random::bytes::<18>());
        Self::challenge_with_nonce(first, keys, &own)
    }

    fn challenge_with_nonce(
        first: &ClientFirst<'_>,
        keys: ScramKeys,
        own_nonce: &str,
    ) -> (Self, Vec<u8>) {
        let nonce = format!("{}{own_nonce}", first.nonce);
        let salt = BASE64.encode(&keys.salt);
        let answer = format!("r={nonce},s={salt},i={}", keys.iterations);
        let proof = Self {
            user: first.user.clone(),
            keys,
            header: BASE64.encode(first.header),
            transcript: format!("{},{answer}", first.bare),
            nonce,
        };
        (proof, answer.into_bytes())
    }

    /// Checks the client's second message; returns the server's last message.
    pub(crate) fn verify(&self, message: &[u8]) -> Result<Vec<u8>, LoginRefusal> {
        let message = text(message)?;
        let Some((without_proof, proof)) = message.rsplit_once(",p=") else {
            return malformed("no proof in SCRAM");
        };
        let mut attributes = without_proof.split(',');
        if attributes.next().and_then(|part| part.strip_prefix("c=")) != Some(&*self.header) {
            return malformed("another channel binding than announced");
        }
        if attributes.next().and_then(|part| part.strip_prefix("r=")) != Some(&*self.nonce) {
            return malformed("another nonce than given");
        }
        let Ok(proof) = BASE64.decode(proof) else {
            return malformed("a proof that is not base64");
        };
        let transcript = format!("{},{without_proof}", self.transcript);
        let signature = hmac_sha256(&self.keys.stored_key, &[transcript.as_bytes()]);
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let fits = Sha256::digest(&client_key).ct_eq(self.keys.stored_key.as_slice());
        if proof.len() != KEY_BYTES || !bool::from(fits) {
            return Err(LoginRefusal::Credentials);
        }
        let own = hmac_sha256(&self.keys.server_key, &[transcript.as_bytes()]);
        Ok(format!("v={}", BASE64.encode(own)).into_bytes())
    }
}

mod base64_text {
    use super::BASE64;
    use base64::Engine;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        BASE64
            .decode(String::deserialize(deserializer)?)
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of RFC 7677, section 3.
    fn example() -> (ScramProof, Vec<u8>) {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let keys = ScramKeys::derive(&"pencil".into(), &salt, 4_096);
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("first");
        assert_eq!(first.user, "user");
        ScramProof::challenge_with_nonce(&first, keys, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    }

    const NONCE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    #[test]
    fn the_example_of_the_rfc_passes() {
        let (proof, challenge) = example();
        let expected = format!("{NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert_eq!(String::from_utf8(challenge), Ok(expected));
        let last = format!("c=biws,{NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(
            proof.verify(last.as_bytes()),
            Ok(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec())
        );
    }

    #[test]
    fn a_proof_that_does_not_fit_is_refused() {
        let (proof, _) = example();
        let fits = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let wrong = "eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        for (message, refusal) in [
            (format!("c=biws,{NONCE},p={wrong}"), true),
            (format!("c=biws,{NONCE},p="), true),
            (format!("c=biws,{NONCE},p={fits}AAAA"), false),
            (format!("c=eSws,{NONCE},p={fits}"), false),
            (format!("c=biws,{NONCE}x,p={fits}"), false),
            (format!("c=biws,{NONCE},x=1,p={fits}"), true),
            (format!("c=biws,{NONCE}"), false),
            (String::new(), false),
        ] {
            let answer = proof.verify(message.as_bytes());
            if refusal {
                assert_eq!(answer, Err(LoginRefusal::Credentials), "{message}");
            } else {
                assert!(
                    matches!(answer, Err(LoginRefusal::Malformed(_))),
                    "{message}: {answer:?}"
                );
            }
        }
    }

    #[test]
    fn first_messages_are_parsed_as_in_the_rfc() {
        let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x"), Ok("a,b=c".to_owned()));
        assert_eq!(user("y,a=anna,n=anna,r=x,ext=1"), Ok("anna".to_owned()));
        for message in [
            "",
            "n,,",
            "n,,n=anna",
            "n,,n=anna,r=",
            "n,,m=1,n=anna,r=x",
            "n,a=otto,n=anna,r=x",
            "n,otto,n=anna,r=x",
            "p=tls-unique,,n=anna,r=x",
            "n,,n=a=2Zb,r=x",
            "n,,r=x,n=anna",
        ] {
            assert!(
                matches!(user(message), Err(LoginRefusal::Malformed(_))),
                "{message}"
            );
        }
        let long = format!("n,,n={},r=x", "a".repeat(MESSAGE_BYTES_MAX));
        assert!(matches!(user(&long), Err(LoginRefusal::Malformed(_))));
    }

    #[test]
    fn a_decoy_is_the_same_each_time() {
        let decoy = |user| ScramKeys::decoy(b"pepper", user, 5_000).salt;
        assert_eq!(decoy("anna"), decoy("anna"));
        assert_ne!(decoy("anna"), decoy("otto"));
    }

    proptest! {
        #[test]
        fn no_message_panics_or_passes(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClientFirst::parse(&message).is_ok();
            let (proof, _) = example();
            prop_assert!(proof.verify(&message).is_err());
        }
    }
}
