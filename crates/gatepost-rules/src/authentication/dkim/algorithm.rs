//! The algorithms of signatures, RFC 6376, section 3.3 and RFC 8463.

use ring::digest;

/// The algorithm of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    RsaSha1,
    RsaSha256,
    Ed25519Sha256,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "rsa-sha1" => Self::RsaSha1,
            "rsa-sha256" => Self::RsaSha256,
            "ed25519-sha256" => Self::Ed25519Sha256,
            _ => return None,
        })
    }

    pub(super) fn hash_name(self) -> &'static str {
        match self {
            Self::RsaSha1 => "sha1",
            _ => "sha256",
        }
    }

    pub(crate) fn hash(self, text: &[u8]) -> Vec<u8> {
        let method = match self {
            Self::RsaSha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            _ => &digest::SHA256,
        };
        digest::digest(method, text).as_ref().to_vec()
    }
}
