//! The key by which push services recognise this server (VAPID, RFC 8292).
//!
//! The key is made once and never changes, since browsers bind their subscriptions to it. It is
//! stored in the database, and so in backups; it is never shown or logged.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use gatepost_store::{Store, StoreChange};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::WebPushError;

/// The key's place among the records of the database, as PKCS#8.
const SPACE: &str = "web_push_key";
const KEY: &[u8] = b"vapid";
/// The time for which a token is valid; at most a day (RFC 8292, section 2).
const TOKEN_TIME: Duration = Duration::from_hours(12);
/// The header of every token.
const TOKEN_HEADER: &str = r#"{"typ":"JWT","alg":"ES256"}"#;

pub(super) struct VapidKey {
    pair: EcdsaKeyPair,
    /// The public key as browsers take it.
    public: String,
    contact: String,
}

impl VapidKey {
    /// The key of this database, which is made if there is none yet.
    pub(super) fn open(store: &Store, contact: &str) -> Result<Self, WebPushError> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = if let Some(document) = store.record(SPACE, KEY)? {
            document
        } else {
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random);
            let made = made.map_err(|Unspecified| WebPushError::Key)?;
            let document = Bytes::copy_from_slice(made.as_ref());
            // A subscription is committed after the key, so no subscription is bound to a lost key.
            store.submit([StoreChange::PutRecord {
                space: SPACE,
                key: KEY.into(),
                value: document.clone(),
            }])?;
            document
        };
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &document, &random);
        let pair = pair.map_err(|_| WebPushError::Key)?;
        Ok(Self {
            public: BASE64.encode(pair.public_key().as_ref()),
            contact: contact.to_owned(),
            pair,
        })
    }

    /// The public key in base64 for URLs: `applicationServerKey` of a browser.
    pub(super) fn public(&self) -> &str {
        &self.public
    }

    /// The value of `Authorization` for a push service of this origin (RFC 8292, section 3).
    pub(super) fn authorization(
        &self,
        origin: &str,
        now: SystemTime,
    ) -> Result<String, Unspecified> {
        let expires = now + TOKEN_TIME;
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = json!({
            "aud": origin,
            "exp": expires.as_secs(),
            "sub": self.contact,
        });
        let signed = format!(
            "{}.{}",
            BASE64.encode(TOKEN_HEADER),
            BASE64.encode(claims.to_string())
        );
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes())?;
        let signature = BASE64.encode(signature.as_ref());
        Ok(format!("vapid t={signed}.{signature},k={}", self.public))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_push::subscription::{self, tests::commit};
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    #[tokio::test]
    async fn a_token_is_signed_by_the_key_that_is_kept() {
        let store = Store::in_memory().expect("a store");
        let key = VapidKey::open(&store, "mailto:root@example.org").expect("a key");
        commit(&store, [subscription::delete("none")]).await;
        let again = VapidKey::open(&store, "mailto:root@example.org").expect("a key");
        assert_eq!(key.public(), again.public());
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let value = key.authorization("https://push.example.net", now);
        let value = value.expect("signed");
        let (token, public) = value
            .strip_prefix("vapid t=")
            .and_then(|value| value.split_once(",k="))
            .expect("two parts");
        let (signed, signature) = token.rsplit_once('.').expect("a signature");
        let public = BASE64.decode(public).expect("base64");
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
            .verify(
                signed.as_bytes(),
                &BASE64.decode(signature).expect("base64"),
            )
            .expect("the signature of the key");
        let (_, claims) = signed.split_once('.').expect("claims");
        let claims = BASE64.decode(claims).expect("base64");
        let claims: serde_json::Value = serde_json::from_slice(&claims).expect("JSON");
        assert_eq!(
            claims,
            json!({
                "aud": "https://push.example.net",
                "exp": 1_000 + 12 * 3_600,
                "sub": "mailto:root@example.org",
            })
        );
    }
}
