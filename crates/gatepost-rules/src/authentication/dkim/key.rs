//! Public keys in DNS, RFC 6376, section 3.6.1 and RFC 8463.

use gatepost_mail::decode_base64;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::algorithm::Algorithm;
use super::signature::DkimSignature;
use super::tags::Tags;

/// A public key and its permitted uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DkimPublicKey {
    /// For RSA: the PKCS #1 structure. For Ed25519: the 32 bytes.
    bytes: Vec<u8>,
    is_rsa: bool,
    /// The permitted hash algorithms; any if empty.
    hashes: Vec<String>,
    /// `t=s`: the identity's domain must be the signer's.
    is_strict: bool,
    pub(crate) is_test: bool,
    /// `s=` permits mail.
    serves_mail: bool,
}

impl DkimPublicKey {
    /// Parses a record; `None` if it is malformed or a revoked key.
    pub(crate) fn parse(record: &[u8]) -> Option<Self> {
        let tags = Tags::parse(record)?;
        if tags.text("v").is_some_and(|version| version != "DKIM1") {
            return None;
        }
        let bytes = decode_base64(tags.raw("p").filter(|key| !key.is_empty())?);
        let kind = tags
            .text("k")
            .unwrap_or_else(|| "rsa".to_owned())
            .to_ascii_lowercase();
        let (bytes, is_rsa) = match kind.as_str() {
            "rsa" => (rsa_key(&bytes)?.to_vec(), true),
            "ed25519" => (bytes, false),
            _ => return None,
        };
        let list = |name: &str| -> Vec<String> {
            let text = tags.text(name).unwrap_or_default().to_ascii_lowercase();
            text.split(':')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let (flags, services) = (list("t"), list("s"));
        Some(Self {
            bytes,
            is_rsa,
            hashes: list("h"),
            is_strict: flags.iter().any(|flag| flag == "s"),
            is_test: flags.iter().any(|flag| flag == "y"),
            serves_mail: services.is_empty()
                || services
                    .iter()
                    .any(|service| service == "*" || service == "email"),
        })
    }

    /// The size of the modulus.
    pub(crate) fn bits(&self) -> Option<usize> {
        let (_, structure, _) = element(&self.bytes).filter(|_| self.is_rsa)?;
        let (_, modulus, _) = element(structure)?;
        let leading = modulus.iter().take_while(|&&byte| byte == 0).count();
        let first = modulus.get(leading)?;
        Some((modulus.len() - leading) * 8 - first.leading_zeros() as usize)
    }

    /// Whether the key permits this signature's algorithm and identity.
    pub(crate) fn allows(&self, signature: &DkimSignature) -> bool {
        let hash = signature.algorithm.hash_name();
        self.serves_mail
            && (self.hashes.is_empty() || self.hashes.iter().any(|known| known == hash))
            && (!self.is_strict || signature.identity_is_signer())
    }

    /// Verifies a signature of a text.
    pub(crate) fn verifies(&self, algorithm: Algorithm, text: &[u8], value: &[u8]) -> bool {
        let (method, is_rsa): (&dyn VerificationAlgorithm, bool) = match algorithm {
            Algorithm::RsaSha1 => (
                &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                true,
            ),
            Algorithm::RsaSha256 => (
                &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                true,
            ),
            // RFC 8463, section 3: the hash is signed.
            Algorithm::Ed25519Sha256 => {
                let hash = algorithm.hash(text);
                return !self.is_rsa
                    && UnparsedPublicKey::new(&signature::ED25519, &self.bytes)
                        .verify(&hash, value)
                        .is_ok();
            }
        };
        self.is_rsa == is_rsa
            && UnparsedPublicKey::new(method, &self.bytes)
                .verify(text, value)
                .is_ok()
    }
}

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// The first element of a DER text: its tag, its content, the rest.
fn element(text: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = text.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        let (bytes, rest) = rest.split_at_checked(count).filter(|_| count <= 4)?;
        (
            bytes
                .iter()
                .fold(0, |length, &byte| length << 8 | usize::from(byte)),
            rest,
        )
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The PKCS #1 structure of a published key: most records wrap it into an X.509 structure.
fn rsa_key(bytes: &[u8]) -> Option<&[u8]> {
    let (tag, inner, _) = element(bytes)?;
    let (first, _, after) = element(inner)?;
    if tag != SEQUENCE {
        return None;
    }
    if first != SEQUENCE {
        return Some(bytes);
    }
    let (kind, key, _) = element(after)?;
    // The first byte counts unused bits.
    (kind == BIT_STRING).then(|| key.get(1..))?
}
