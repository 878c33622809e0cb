//! The signatures of JSON Web Tokens, checked by ring, which TLS uses too, so that the process
//! contains one cryptographic library.

// The crate requires these functions to take references to one byte.
#![allow(clippy::trivially_copy_pass_by_ref)]

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as JwtError, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, signature};
use ring::hmac;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the provider for the crate; only the first call in the process has an effect.
pub(super) fn install() {
    // An error means that a provider is already installed, which is this one.
    let _ = PROVIDER.install_default();
}

/// This gateway does not issue JSON Web Tokens.
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, JwtError> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, JwtError> {
    let DecodingKeyKind::SecretOrDer(bytes) = key.kind() else {
        return Err(ErrorKind::InvalidKeyFormat.into());
    };
    let key = match algorithm {
        Algorithm::HS256 => VerificationKey::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)),
        Algorithm::RS256 => VerificationKey::Public(UnparsedPublicKey::new(
            &RSA_PKCS1_2048_8192_SHA256,
            bytes.clone(),
        )),
        Algorithm::ES256 => VerificationKey::Public(UnparsedPublicKey::new(
            &ECDSA_P256_SHA256_FIXED,
            bytes.clone(),
        )),
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(Verifier {
        algorithm: *algorithm,
        key,
    }))
}

enum VerificationKey {
    Secret(hmac::Key),
    Public(UnparsedPublicKey<Vec<u8>>),
}

struct Verifier {
    algorithm: Algorithm,
    key: VerificationKey,
}

impl signature::Verifier<Vec<u8>> for Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        match &self.key {
            // In constant time, as ring documents.
            VerificationKey::Secret(key) => hmac::verify(key, message, signature),
            VerificationKey::Public(key) => key.verify(message, signature),
        }
        .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Verifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
