//! Bearer tokens of this gateway: `gp_` and 256 random bits.
//!
//! Only the hash is stored. A fast hash is sufficient: 256 random bits cannot be guessed. The time
//! of a lookup depends on the stored hashes, which reveals nothing about a token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::{Secret, random};

/// The prefix of every token, by which scanners for leaked secrets recognise it.
pub(crate) const PREFIX: &str = "gp_";
/// The number of hexadecimal characters of a hash that identify a token in listings.
const ID_CHARACTERS: usize = 12;

pub(crate) type TokenHash = [u8; 32];

pub(crate) fn generate() -> Secret {
    let bits = zeroize::Zeroizing::new(random::bytes::<32>());
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(*bits)))
}

pub(crate) fn hash(token: &Secret) -> TokenHash {
    Sha256::digest(token.expose().as_bytes()).into()
}

/// The displayed id of a token; it cannot be used to log in.
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
