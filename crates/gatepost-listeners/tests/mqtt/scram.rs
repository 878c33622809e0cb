//! The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), written from the standard.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

pub(crate) struct ScramClient {
    user: &'static str,
    password: &'static str,
    /// The last message that the server must send.
    expected: String,
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

impl ScramClient {
    pub(crate) const fn new(user: &'static str, password: &'static str) -> Self {
        Self {
            user,
            password,
            expected: String::new(),
        }
    }

    pub(crate) fn first(&self) -> String {
        format!("n,,n={},r={NONCE}", self.user)
    }

    /// The proof, for the server's challenge.
    pub(crate) fn last(&mut self, challenge: &[u8]) -> String {
        let challenge = std::str::from_utf8(challenge).expect("text");
        let part = |name: &str| {
            let found = challenge
                .split(',')
                .find_map(|part| part.strip_prefix(name));
            found.expect("in the challenge")
        };
        let nonce = part("r=");
        assert!(nonce.starts_with(NONCE) && nonce.len() > NONCE.len());
        let salt = STANDARD.decode(part("s=")).expect("base64");
        let iterations = part("i=").parse().expect("a number");
        let mut salted = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(self.password.as_bytes(), &salt, iterations, &mut salted);
        let without_proof = format!("c=biws,r={nonce}");
        let first = format!("n={},r={NONCE}", self.user);
        let message = format!("{first},{challenge},{without_proof}");
        let client_key = hmac(&salted, b"Client Key");
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        let signature = hmac(&stored_key, message.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let server_key = hmac(&salted, b"Server Key");
        let proven = hmac(&server_key, message.as_bytes());
        self.expected = format!("v={}", STANDARD.encode(proven));
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    /// Whether the server knows the password too.
    pub(crate) fn is_proven(&self, last: &[u8]) -> bool {
        last == self.expected.as_bytes()
    }
}
