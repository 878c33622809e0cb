//! Bearer tokens of ours: `gp_` and 256 random bits.
//!
//! Only the hash is kept. A fast hash suffices: 256 random bits cannot be guessed. Looking a hash
//! up takes a time that depends on stored hashes, which reveals nothing about a token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::{Secret, random};

/// What every token of ours begins with, so that scanners for leaked secrets find it.
pub(crate) const PREFIX: &str = "gp_";
/// Characters of a hash in hexadecimal that name a token in listings.
const ID_CHARACTERS: usize = 12;

pub(crate) type TokenHash = [u8; 32];

pub(crate) fn generate() -> Secret {
    let bits = zeroize::Zeroizing::new(random::bytes::<32>());
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(*bits)))
}

pub(crate) fn hash(token: &Secret) -> TokenHash {
    Sha256::digest(token.expose().as_bytes()).into()
}

/// The name of a token for people; it does not open anything.
pub(crate) fn id(hash: &TokenHash) -> String {
    use std::fmt::Write;
    let mut id = String::with_capacity(ID_CHARACTERS);
    for byte in hash.iter().take(ID_CHARACTERS / 2) {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_their_names_tell_nothing() {
        let (one, other) = (generate(), generate());
        assert_ne!(one, other);
        assert_eq!(one.expose().len(), PREFIX.len() + 43);
        let id = id(&hash(&one));
        assert_eq!(id.len(), ID_CHARACTERS);
        assert!(!one.expose().contains(&id));
    }
}
