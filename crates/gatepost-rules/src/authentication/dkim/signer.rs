//! Signs mail of our own by DKIM: `rsa-sha256` (RFC 6376) and `ed25519-sha256` (RFC 8463), in the
//! relaxed forms, which survive what relays do to white space.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_mail::decode_base64;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};

use super::canonical::Canonicalization;
use super::fields::RawMail;
use super::signature::{add_signed_fields, without_value};

/// The fields that are signed, where a mail has them. Each is listed once more than the mail has
/// it, so that none can be added (RFC 6376, section 8.15).
const SIGNED_FIELDS: [&str; 15] = [
    "from",
    "to",
    "cc",
    "reply-to",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "auto-submitted",
    // RFC 8058, section 4.
    "list-unsubscribe",
    "list-unsubscribe-post",
];
/// Characters of a signature in one line.
const LINE_LENGTH: usize = 70;
/// The algorithm identifier of RSA keys (RFC 3279, section 2.3.1).
const RSA_IDENTIFIER: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// The text is not a key that can sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DkimKeyError {
    /// No private key in PEM.
    #[error("there is no private key in PEM; make one with gatepost dkim new, or with openssl")]
    NotPem,
    /// Another kind of key, too short, or damaged.
    #[error("the key is neither Ed25519 nor RSA with 2048 to 4096 bits ({0})")]
    Unusable(String),
}

/// A private key of a domain.
pub enum DkimKey {
    /// `ed25519-sha256`
    Ed25519(Ed25519KeyPair),
    /// `rsa-sha256`
    Rsa(Box<RsaKeyPair>),
}

impl DkimKey {
    /// Reads a PEM file's text: PKCS #8, or PKCS #1 for RSA.
    pub fn from_pem(text: &str) -> Result<Self, DkimKeyError> {
        let unusable = |error: ring::error::KeyRejected| DkimKeyError::Unusable(error.to_string());
        if let Some(der) = pem_section(text, "RSA PRIVATE KEY") {
            let key = RsaKeyPair::from_der(&der).map_err(unusable)?;
            return Ok(Self::Rsa(Box::new(key)));
        }
        let der = pem_section(text, "PRIVATE KEY").ok_or(DkimKeyError::NotPem)?;
        // OpenSSL writes no public key into the file.
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            return Ok(Self::Ed25519(key));
        }
        let key = RsaKeyPair::from_pkcs8(&der).map_err(unusable)?;
        Ok(Self::Rsa(Box::new(key)))
    }

    /// A new Ed25519 key, in PEM; `None` where the system gives no random numbers.
    pub fn generate() -> Option<String> {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
        let lines = folded(&BASE64.encode(der.as_ref()), "\n");
        Some(
            [
                "-----BEGIN PRIVATE KEY-----\n",
                &lines,
                "\n-----END PRIVATE KEY-----\n",
            ]
            .concat(),
        )
    }

    /// The text of the key's TXT record (RFC 6376, section 3.6.1).
    pub fn record(&self) -> String {
        match self {
            Self::Ed25519(key) => {
                let public = BASE64.encode(key.public_key().as_ref());
                format!("v=DKIM1; k=ed25519; p={public}")
            }
            Self::Rsa(key) => {
                let public = BASE64.encode(subject_public_key_info(key.public_key().as_ref()));
                format!("v=DKIM1; k=rsa; p={public}")
            }
        }
    }

    /// `a=`
    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "ed25519-sha256",
            Self::Rsa(_) => "rsa-sha256",
        }
    }

    fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            // RFC 8463, section 3: the hash is signed.
            Self::Ed25519(key) => Some(key.sign(digest(&SHA256, text).as_ref()).as_ref().to_vec()),
            Self::Rsa(key) => {
                let mut value = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut value)
                    .ok()?;
                Some(value)
            }
        }
    }
}

/// A key with the name under which DNS has its public part.
pub struct DkimSigner {
    domain: String,
    selector: String,
    key: DkimKey,
}

impl DkimSigner {
    /// Signs for `domain` by the record `SELECTOR._domainkey.DOMAIN`.
    pub fn new(domain: &str, selector: &str, key: DkimKey) -> Self {
        Self {
            domain: domain.to_ascii_lowercase(),
            selector: selector.to_ascii_lowercase(),
            key,
        }
    }

    /// Whether a sender at `host` is its domain's, or below it.
    pub fn signs_for(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let before = host.strip_suffix(self.domain.as_str());
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }

    /// The field that goes to the front of `mail`, with its line end; `None` where the system gives
    /// no random numbers. The lines of `mail` end in CR LF.
    pub fn signature_field(&self, mail: &[u8], now: SystemTime) -> Option<String> {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let raw = RawMail::read(mail);
        let form = Canonicalization::Relaxed;
        let present: Vec<(&str, usize)> = SIGNED_FIELDS
            .iter()
            .map(|name| (*name, raw.fields_named(name.as_bytes()).count()))
            .filter(|(name, count)| *count > 0 || matches!(*name, "reply-to" | "cc"))
            .collect();
        let names: Vec<&str> = present
            .iter()
            .flat_map(|(name, count)| std::iter::repeat_n(*name, count + 1))
            .collect();
        let body_hash = BASE64.encode(digest(&SHA256, &form.body(raw.body)).as_ref());
        let Self {
            domain,
            selector,
            key,
        } = self;
        let field = format!(
            "DKIM-Signature: v=1; a={}; c=relaxed/relaxed; d={domain}; s={selector};\r\n\t\
             t={seconds};\r\n\th={};\r\n\tbh={body_hash};\r\n\tb=",
            key.algorithm(),
            names.join(":"),
        );
        let mut text = Vec::new();
        add_signed_fields(&raw, &names, form, &mut text);
        let unsigned = [field.as_bytes(), b"\r\n\r\n"].concat();
        without_value(form, RawMail::read(&unsigned).field(0)?, &mut text);
        let value = BASE64.encode(key.sign(&text)?);
        Some([&field, &folded(&value, "\r\n\t "), "\r\n"].concat())
    }
}

fn folded(text: &str, line_end: &str) -> String {
    let lines: Vec<&[u8]> = text.as_bytes().chunks(LINE_LENGTH).collect();
    let lines = lines.iter().map(|line| String::from_utf8_lossy(line));
    lines.collect::<Vec<_>>().join(line_end)
}

fn pem_section(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (inner, _) = rest.split_once(&format!("-----END {label}-----"))?;
    Some(decode_base64(inner.as_bytes()))
}

/// The structure in which most records have an RSA key (RFC 5280, section 4.1.2.7).
fn subject_public_key_info(key: &[u8]) -> Vec<u8> {
    let bits = [&[0][..], key].concat();
    der_element(
        0x30,
        &[&RSA_IDENTIFIER[..], &der_element(0x03, &bits)].concat(),
    )
}

/// An element of up to 65,535 bytes: the longest key has 1,100.
fn der_element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    [&[tag, 0x82, high, low], content].concat()
}

#[cfg(test)]
mod tests {
    use super::super::body_hashes::BodyHashes;
    use super::super::key::DkimPublicKey;
    use super::super::signature::DkimSignature;
    use super::super::tags::Tags;
    use super::*;

    const MAIL: &[u8] = b"From: Gatepost <gate@example.org>\r\nTo: anna@example.net\r\n\
        Subject: =?utf-8?B?R3LDvMOfZQ==?=\r\n folded\r\n\r\nHello  there \r\n\r\n\r\n";
    const RSA: &str = include_str!("../../../tests/data/authentication/signing-rsa.pem");

    fn verifies(field: &str, mail: &[u8], key: &DkimKey) -> bool {
        let signed = [field.as_bytes(), mail].concat();
        let raw = RawMail::read(&signed);
        let own = raw.field(0).expect("a field");
        let tags = Tags::parse(own.value()).expect("tags");
        let signature = DkimSignature::of_message(&tags, 0).expect("a signature");
        let record = DkimPublicKey::parse(key.record().as_bytes()).expect("a record");
        record.allows(&signature)
            && signature.covers_body(&mut BodyHashes::of(raw.body))
            && record.verifies(
                signature.algorithm,
                &signature.signed_text(&raw, 0),
                &signature.value,
            )
    }

    #[test]
    fn signatures_of_both_kinds_hold_until_something_changes() {
        let ed25519 = DkimKey::generate().expect("random numbers");
        for pem in [ed25519.as_str(), RSA] {
            let signer =
                DkimSigner::new("Example.org", "s1", DkimKey::from_pem(pem).expect("a key"));
            let field = signer
                .signature_field(MAIL, SystemTime::now())
                .expect("signed");
            assert!(field.lines().all(|line| line.len() < 200), "{field}");
            let text = String::from_utf8_lossy(MAIL);
            for (changed, expected) in [
                (text.to_string(), true),
                (text.replace("Hello  there ", "Hello there"), true),
                (text.replace("Hello", "Hallo"), false),
                (text.replace("anna@", "otto@"), false),
                (format!("Subject: two\r\n{text}"), false),
                (format!("Reply-To: x@example.com\r\n{text}"), false),
            ] {
                let is_good = verifies(&field, changed.as_bytes(), &signer.key);
                assert_eq!(is_good, expected, "{changed}\n{field}");
            }
        }
    }

    #[test]
    fn a_signer_is_for_its_domain_and_below() {
        let key = DkimKey::from_pem(RSA).expect("a key");
        let signer = DkimSigner::new("example.org", "s1", key);
        for (host, expected) in [
            ("example.org", true),
            ("Mail.Example.org", true),
            ("badexample.org", false),
            ("org", false),
        ] {
            assert_eq!(signer.signs_for(host), expected, "{host}");
        }
    }

    #[test]
    fn an_invalid_key_is_refused_with_a_reason() {
        let damaged = RSA.replace("MII", "MIJ");
        for text in ["", "key", "-----BEGIN PRIVATE KEY-----", damaged.as_str()] {
            let refused = DkimKey::from_pem(text).err().expect(text);
            assert!(!refused.to_string().is_empty());
        }
    }
}
