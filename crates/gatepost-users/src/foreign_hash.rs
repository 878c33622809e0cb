//! Hashes of passwords that another server made, imported with its users: mosquitto's and bcrypt's,
//! which ntfy has. A login replaces such a hash by one of ours.
//!
//! | form | made by |
//! | --- | --- |
//! | `$7$ITERATIONS$SALT$HASH` | mosquitto: PBKDF2 with HMAC-SHA512, salt and hash in base64 |
//! | `$6$SALT$HASH` | mosquitto before 2.0: SHA-512 of the password and the salt |
//! | `$2a$…`, `$2b$…`, `$2y$…` | bcrypt |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pbkdf2::pbkdf2_hmac;
use sha2::{Digest, Sha512};
use subtle::ConstantTimeEq;

use crate::Secret;

/// A hash with more would keep a thread for seconds at each attempt.
const ITERATIONS_MAX: u32 = 2_000_000;
const BCRYPT_COST_MAX: u32 = 16;
/// A bcrypt hash is `$2b$`, two digits, `$`, 22 characters of salt and 31 of hash.
const BCRYPT_BYTES: usize = 60;
/// Passwords are cut here by bcrypt; its other implementations cut them silently.
const BCRYPT_PASSWORD_BYTES_MAX: usize = 72;

/// The algorithm and cost, which decide how long a check against such a hash takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PasswordHashKind {
    Pbkdf2 { iterations: u32 },
    Sha512,
    Bcrypt { cost: u32 },
}

/// One such hash.
enum ForeignHash<'a> {
    Pbkdf2 {
        iterations: u32,
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
    Sha512 {
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
    Bcrypt {
        cost: u32,
        text: &'a str,
    },
}

impl<'a> ForeignHash<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix('$')?;
        let (kind, rest) = rest.split_once('$')?;
        let decoded = |text: &str| BASE64.decode(text).ok();
        match kind {
            "7" => {
                let mut parts = rest.splitn(3, '$');
                let iterations = parts.next()?.parse().ok()?;
                let is_bounded = (1..=ITERATIONS_MAX).contains(&iterations);
                let (salt, hash) = (decoded(parts.next()?)?, decoded(parts.next()?)?);
                let is_whole = is_bounded && hash.len() == 64;
                is_whole.then_some(Self::Pbkdf2 {
                    iterations,
                    salt,
                    hash,
                })
            }
            "6" => {
                let (salt, hash) = rest.split_once('$')?;
                let (salt, hash) = (decoded(salt)?, decoded(hash)?);
                (hash.len() == 64).then_some(Self::Sha512 { salt, hash })
            }
            "2a" | "2b" | "2y" => {
                let cost: u32 = rest.split_once('$')?.0.parse().ok()?;
                let is_whole = cost <= BCRYPT_COST_MAX && text.len() == BCRYPT_BYTES;
                is_whole.then_some(Self::Bcrypt { cost, text })
            }
            _ => None,
        }
    }

    const fn kind(&self) -> PasswordHashKind {
        match *self {
            Self::Pbkdf2 { iterations, .. } => PasswordHashKind::Pbkdf2 { iterations },
            Self::Sha512 { .. } => PasswordHashKind::Sha512,
            Self::Bcrypt { cost, .. } => PasswordHashKind::Bcrypt { cost },
        }
    }

    fn matches(&self, password: &Secret) -> bool {
        let password = password.expose().as_bytes();
        match self {
            Self::Pbkdf2 {
                iterations,
                salt,
                hash,
            } => {
                let mut derived = [0; 64];
                pbkdf2_hmac::<Sha512>(password, salt, *iterations, &mut derived);
                derived.ct_eq(hash).into()
            }
            Self::Sha512 { salt, hash } => {
                let digest = Sha512::new().chain_update(password).chain_update(salt);
                digest.finalize().ct_eq(hash.as_slice()).into()
            }
            Self::Bcrypt { text, .. } => {
                let cut = password.len().min(BCRYPT_PASSWORD_BYTES_MAX);
                let password = password.get(..cut).unwrap_or_default();
                bcrypt::verify(password, text).unwrap_or(false)
            }
        }
    }
}

/// Whether a login can be checked against this hash.
pub fn is_known(hash: &str) -> bool {
    ForeignHash::parse(hash).is_some()
}

/// The kind of such a hash; `None` for any other hash.
pub(crate) fn kind(hash: &str) -> Option<PasswordHashKind> {
    ForeignHash::parse(hash).map(|hash| hash.kind())
}

/// Whether the password fits the hash; `None` for any other hash.
pub(crate) fn verify(password: &Secret, hash: &str) -> Option<bool> {
    ForeignHash::parse(hash).map(|hash| hash.matches(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `mosquitto_passwd` 2.0 and by `crypt(3)`; the password is `correct horse`.
    const MOSQUITTO: &str = "$7$101$zPVq7sxU58LmFz6u$CB/K98fIpygpgg85iyaf8Ug9dztQ/QdbDh8864CLMqQ\
        FglRpOp9iqNFm3fzkpdcoYGq+xza4A1hwh853wOpCNA==";
    const BCRYPT: &str = "$2b$04$HLvV8qZpeoLVbsFU3sfBtu4xT4uhPOGk/z/IMcZ.g/JwkgdQHf8Ce";

    #[test]
    fn hashes_of_others_know_their_password_only() {
        for hash in [MOSQUITTO, BCRYPT] {
            assert_eq!(verify(&"correct horse".into(), hash), Some(true), "{hash}");
            assert_eq!(verify(&"correct hors".into(), hash), Some(false), "{hash}");
        }
        let salt = BASE64.encode("salt");
        let hash = BASE64.encode(Sha512::digest("secretsalt"));
        let old = format!("$6${salt}${hash}");
        assert_eq!(verify(&"secret".into(), &old), Some(true));
        assert_eq!(verify(&"secre".into(), &old), Some(false));
    }

    #[test]
    fn other_hashes_are_refused() {
        for hash in [
            "",
            "secret",
            "$7$101$c2FsdA==$c2hvcnQ=",
            "$7$4000000000$c2FsdA==$c2FsdA==",
            "$2b$31$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA",
        ] {
            assert!(!is_known(hash), "{hash}");
        }
    }
}
