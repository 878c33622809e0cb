//! Password hashes: Argon2id (RFC 9106) in the PHC string format.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::foreign_hash;
use crate::{PASSWORD_BYTES_MAX, Secret, UsersError, random};

/// The crate's default parameters: 19 MiB, two passes, one lane, as OWASP recommends. A hash
/// contains its parameters, so they can be raised without locking out existing users.
pub(crate) fn hash(password: &Secret) -> Result<String, UsersError> {
    let salt = random::bytes::<16>();
    Argon2::default()
        .hash_password_with_salt(password.expose().as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|_| UsersError::Hashing)
}

/// A hash that no password has: its verification takes as long as that of [`hash`]. Random bytes
/// serve, so that a start does not take the time and the memory of a real one.
pub(crate) fn decoy_hash() -> String {
    let text = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
    format!(
        "$argon2id$v=19$m={},t={},p={}${}${}",
        Params::DEFAULT_M_COST,
        Params::DEFAULT_T_COST,
        Params::DEFAULT_P_COST,
        text(&random::bytes::<16>()),
        text(&random::bytes::<{ Params::DEFAULT_OUTPUT_LEN }>()),
    )
}

/// Takes as long as [`hash`], for a hash of ours. The comparison in it takes constant time.
pub(crate) fn verify(password: &Secret, hash: &str) -> bool {
    if let Some(fits) = foreign_hash::verify(password, hash) {
        return fits;
    }
    let Ok(hash) = PasswordHash::new(hash) else {
        return false;
    };
    Argon2::default()
        .verify_password(password.expose().as_bytes(), &hash)
        .is_ok()
}

/// Whether a password may be set. A password that looks like a token would be treated as one.
pub(crate) fn check(password: &Secret, user: &str, length_min: usize) -> Result<(), UsersError> {
    let text = password.expose();
    let is_wrong = text.is_empty()
        || text.len() > PASSWORD_BYTES_MAX
        || text.chars().any(char::is_control)
        || text.starts_with(crate::token::PREFIX)
        || crate::jwt::has_jwt_form(password);
    if is_wrong {
        return Err(UsersError::Password);
    }
    if text.chars().count() < length_min || text.to_lowercase() == user.to_lowercase() {
        return Err(UsersError::WeakPassword { length_min });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::phc::Output;

    use super::*;

    #[test]
    fn a_hash_knows_its_password_only() {
        let hash = hash(&"correct horse".into()).expect("a hash");
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        assert!(verify(&"correct horse".into(), &hash));
        assert!(!verify(&"correct hors".into(), &hash));
        assert!(!verify(&"".into(), &hash));
        assert!(!verify(&"correct horse".into(), "$argon2id$damaged"));
    }

    #[test]
    fn a_decoy_is_verified_like_a_hash() {
        let real = hash(&"correct horse".into()).expect("a hash");
        let decoy = decoy_hash();
        let (real, decoy) = (PasswordHash::new(&real), PasswordHash::new(&decoy));
        let (real, decoy) = (real.expect("PHC"), decoy.expect("PHC"));
        assert_eq!(real.algorithm, decoy.algorithm);
        assert_eq!(real.version, decoy.version);
        assert_eq!(real.params, decoy.params);
        let lengths = |hash: &PasswordHash| {
            let salt = hash.salt.as_ref().map(|salt| salt.len());
            (salt, hash.hash.as_ref().map(Output::len))
        };
        assert_eq!(lengths(&real), lengths(&decoy));
        assert!(!verify(&"".into(), &decoy_hash()));
        assert_ne!(decoy_hash(), decoy_hash());
    }

    #[test]
    fn short_passwords_and_the_own_name_are_refused() {
        for password in ["x", "Zoëii", "Annabella"] {
            let answer = check(&password.into(), "annabella", 6);
            assert!(
                matches!(answer, Err(UsersError::WeakPassword { length_min: 6 })),
                "{password}: {answer:?}"
            );
        }
        assert!(check(&"Zoëiii".into(), "annabella", 6).is_ok());
    }

    #[test]
    fn passwords_that_no_protocol_can_carry_are_refused() {
        assert!(check(&"Zoë's pass word".into(), "zoë", 6).is_ok());
        for password in ["", "a\0b", "a\nb", "gp_secret"] {
            assert!(check(&password.into(), "anna", 1).is_err(), "{password:?}");
        }
        assert!(check(&Secret::new("x".repeat(PASSWORD_BYTES_MAX + 1)), "anna", 1).is_err());
    }
}
