//! The key under which a message is recorded as learned: a hash of its id.

use sha1::{Digest, Sha1};

/// Identifies a learned message: the first eight bytes of the SHA-1 of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(u64);

impl MessageKey {
    /// The key of an id.
    pub fn of(id: &[u8]) -> Self {
        let digest: [u8; 20] = Sha1::digest(id).into();
        let (beginning, _) = digest.split_at(8);
        Self(
            beginning
                .iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        )
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}
