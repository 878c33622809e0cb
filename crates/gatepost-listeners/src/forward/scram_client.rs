//! The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without I/O and channel binding.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2, rand};

/// The maximum number of iterations that are computed, so that no server can keep this one busy.
const ITERATIONS_MAX: u32 = 1_000_000;
const NONCE_BYTES: usize = 18;
const HASH_BYTES: usize = 32;
/// No channel binding, no other identity: `n,,`.
const HEAD: &str = "n,,";

/// The reason why the exchange cannot continue.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScramError {
    #[error("the system gives no random numbers")]
    Random,
    #[error("its SCRAM message is malformed")]
    Malformed,
    #[error("it requires more than 1000000 iterations")]
    Iterations,
    #[error("it did not prove that it knows the password")]
    Unproven,
}

/// The exchange before the server has answered.
pub(super) struct ScramClient {
    nonce: String,
    bare: String,
}

/// The last message, and the answer that it must get.
pub(super) struct ScramClientProof {
    pub(super) message: String,
    expected: hmac::Tag,
}

impl ScramClient {
    pub(super) fn new(user: &str) -> Result<Self, ScramError> {
        let random = rand::generate::<[u8; NONCE_BYTES]>(&rand::SystemRandom::new());
        let random = random.map_err(|_| ScramError::Random)?;
        Ok(Self::with_nonce(user, BASE64.encode(random.expose())))
    }

    fn with_nonce(user: &str, nonce: String) -> Self {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        Self {
            bare: format!("n={name},r={nonce}"),
            nonce,
        }
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("{HEAD}{}", self.bare)
    }

    /// The last message, after the server's first.
    pub(super) fn prove(
        &self,
        challenge: &[u8],
        password: &str,
    ) -> Result<ScramClientProof, ScramError> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| ScramError::Malformed)?;
        let mut fields = challenge.split(',');
        let mut field = |name| fields.next().and_then(|field| field.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(iterations)) = (field("r="), field("s="), field("i="))
        else {
            return Err(ScramError::Malformed);
        };
        let salt = BASE64.decode(salt).map_err(|_| ScramError::Malformed)?;
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| ScramError::Malformed)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Malformed);
        }
        if iterations.get() > ITERATIONS_MAX {
            return Err(ScramError::Iterations);
        }
        let mut salted = [0; HASH_BYTES];
        let method = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(method, iterations, &salt, password.as_bytes(), &mut salted);
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let client_key = hmac::sign(&key(&salted), b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let unproven = format!("c={},r={nonce}", BASE64.encode(HEAD));
        let signed = [&self.bare, challenge, &unproven].join(",");
        let signature = hmac::sign(&key(stored_key.as_ref()), signed.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(a, b)| a ^ b).collect();
        let server_key = hmac::sign(&key(&salted), b"Server Key");
        Ok(ScramClientProof {
            message: format!("{unproven},p={}", BASE64.encode(proof)),
            expected: hmac::sign(&key(server_key.as_ref()), signed.as_bytes()),
        })
    }
}

impl ScramClientProof {
    /// Whether the server's last message proves that it has the user's keys.
    pub(super) fn check(&self, last: &[u8]) -> Result<(), ScramError> {
        let value = last.strip_prefix(b"v=").ok_or(ScramError::Unproven)?;
        let value = value.split(|&byte| byte == b',').next().unwrap_or_default();
        let value = BASE64.decode(value).map_err(|_| ScramError::Malformed)?;
        // A forged proof is compared once: the time that this takes is of no use.
        if value == self.expected.as_ref() {
            return Ok(());
        }
        Err(ScramError::Unproven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn client() -> ScramClient {
        ScramClient::with_nonce("user", "rOprNGfwEbeRWgbNEkqO".to_owned())
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let client = client();
        assert_eq!(client.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = client
            .prove(CHALLENGE.as_bytes(), "pencil")
            .expect("a proof");
        assert_eq!(
            proof.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        proof.check(last).expect("a proof");
        for wrong in [&b"v=AAAA"[..], b"e=other-error", b""] {
            assert!(proof.check(wrong).is_err());
        }
    }

    #[test]
    fn a_server_that_lies_is_not_answered() {
        for wrong in [
            CHALLENGE.replace("rOpr", "xxxx"),
            CHALLENGE.replace("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            CHALLENGE.replace("4096", "2000000"),
            CHALLENGE.replace("4096", "0"),
            CHALLENGE.replace("s=W", "s=*"),
            "m=ext".to_owned(),
            String::new(),
        ] {
            assert!(
                client().prove(wrong.as_bytes(), "pencil").is_err(),
                "{wrong}"
            );
        }
    }
}
