//! Tokens that are accepted and tokens that are not. The keys are used by these tests only.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RsaKeyPair};
use serde_json::{Value, json};

use super::*;
use crate::identity::unix_seconds;
use crate::scram::hmac_sha256;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn signed(algorithm: &str, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> Secret {
    let header = part(&json!({"alg": algorithm, "typ": "JWT"}));
    let text = format!("{header}.{}", part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(text.as_bytes()));
    Secret::new(format!("{text}.{signature}"))
}

fn hs256(claims: &Value) -> Secret {
    signed("HS256", claims, |text| {
        hmac_sha256(SECRET, &[text]).to_vec()
    })
}

fn claims() -> Value {
    json!({"sub": "anna", "exp": unix_seconds() + 600})
}

fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (key, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => claims.as_object_mut().expect("an object").remove(key),
            value => claims
                .as_object_mut()
                .expect("an object")
                .insert(key.clone(), value.clone()),
        };
    }
    claims
}

struct KeyFile(tempfile::NamedTempFile);

impl KeyFile {
    fn new(bytes: &[u8]) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        Self(file)
    }

    fn settings(&self, algorithm: JwtAlgorithm) -> JwtSettings {
        JwtSettings {
            algorithm,
            key: self.0.path().to_owned(),
            ..JwtSettings::default()
        }
    }
}

fn hs256_issuer() -> Issuers {
    let key = KeyFile::new(SECRET);
    Issuers::load(&[key.settings(JwtAlgorithm::Hs256)]).expect("a key")
}

fn ec_key() -> (EcdsaKeyPair, String) {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
    // SubjectPublicKeyInfo for id-ecPublicKey on prime256v1 (RFC 5480).
    let mut der = vec![
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    der.extend_from_slice(pair.public_key().as_ref());
    let text = STANDARD.encode(der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
    (pair, pem)
}

#[test]
fn a_token_names_its_user_and_topics() {
    let token = hs256(&with(json!({
        "publish": ["a/#"], "subscribe": ["b/+"], "exp": unix_seconds() as f64 + 60.5,
    })));
    let vouched = hs256_issuer().verify(&token).expect("believed");
    assert_eq!(vouched.user, "anna");
    let scope = vouched.scope.expect("topics");
    let named: Vec<_> = scope
        .iter()
        .map(|rule| (rule.access, &*rule.filter))
        .collect();
    assert_eq!(
        named,
        [
            (Access::Publish.into(), "a/#"),
            (Access::Subscribe.into(), "b/+")
        ]
    );
    let plain = hs256_issuer().verify(&hs256(&claims())).expect("believed");
    assert!(plain.scope.is_none());
}

#[test]
fn every_defect_is_refused() {
    let issuers = hs256_issuer();
    for changes in [
        json!({"exp": null}),
        json!({"exp": unix_seconds() - 3_600}),
        json!({"exp": "tomorrow"}),
        json!({"exp": -5}),
        json!({"nbf": unix_seconds() + 3_600}),
        json!({"sub": null}),
        json!({"sub": "a/b"}),
        json!({"sub": "everyone"}),
        json!({"aud": "someone else"}),
        json!({"publish": "a"}),
        json!({"publish": ["a/#/b"]}),
        json!({"publish": ["%u/a"]}),
        json!({"publish": vec!["a"; FILTERS_MAX + 1]}),
    ] {
        let token = hs256(&with(changes.clone()));
        assert!(issuers.verify(&token).is_err(), "{changes}");
    }
    let good = hs256(&claims());
    let (text, _) = good.expose().rsplit_once('.').expect("a signature");
    for forged in [
        text.to_owned(),
        format!("{text}."),
        format!("{text}.{}", URL_SAFE_NO_PAD.encode([0; 32])),
        format!("{}.extra", good.expose()),
        String::new(),
        "x".repeat(TOKEN_BYTES_MAX + 1),
    ] {
        assert!(
            issuers.verify(&Secret::new(forged.clone())).is_err(),
            "{forged}"
        );
    }
}

#[test]
fn unsigned_tokens_and_public_keys_as_secrets_are_refused() {
    let (pair, pem) = ec_key();
    let file = KeyFile::new(pem.as_bytes());
    let issuers = Issuers::load(&[file.settings(JwtAlgorithm::Es256)]).expect("a key");
    let unsigned = signed("none", &claims(), |_| Vec::new());
    assert!(issuers.verify(&unsigned).is_err());
    assert!(hs256_issuer().verify(&unsigned).is_err());
    // The public key used as an HMAC secret: the classic confusion.
    for key in [pem.as_bytes(), pair.public_key().as_ref()] {
        let confused = signed("HS256", &claims(), |text| {
            hmac_sha256(key, &[text]).to_vec()
        });
        assert!(issuers.verify(&confused).is_err());
    }
}

#[test]
fn ec_and_rsa_signatures_are_checked() {
    let random = SystemRandom::new();
    let (pair, pem) = ec_key();
    let es256 = |claims: &Value| {
        signed("ES256", claims, |text| {
            pair.sign(&random, text)
                .expect("a signature")
                .as_ref()
                .to_vec()
        })
    };
    let file = KeyFile::new(pem.as_bytes());
    let issuers = Issuers::load(&[file.settings(JwtAlgorithm::Es256)]).expect("a key");
    assert!(issuers.verify(&es256(&claims())).is_ok());
    let (_, other) = ec_key();
    let other = KeyFile::new(other.as_bytes());
    let others = Issuers::load(&[other.settings(JwtAlgorithm::Es256)]).expect("a key");
    assert!(others.verify(&es256(&claims())).is_err());

    let (_, private) = pem::read(include_bytes!("../../testdata/jwt-test-only-rsa.pem"));
    let rsa = RsaKeyPair::from_pkcs8(&private).expect("a key");
    let rs256 = |claims: &Value| {
        signed("RS256", claims, |text| {
            let mut signature = vec![0; rsa.public().modulus_len()];
            rsa.sign(
                &ring::signature::RSA_PKCS1_SHA256,
                &random,
                text,
                &mut signature,
            )
            .expect("a signature");
            signature
        })
    };
    let public = KeyFile::new(include_bytes!("../../testdata/jwt-test-only-rsa.pub.pem"));
    let both = Issuers::load(&[
        file.settings(JwtAlgorithm::Es256),
        public.settings(JwtAlgorithm::Rs256),
    ]);
    let both = both.expect("keys");
    assert!(both.verify(&rs256(&claims())).is_ok());
    assert!(both.verify(&es256(&claims())).is_ok());
    assert!(issuers.verify(&rs256(&claims())).is_err());
}

#[test]
fn issuer_and_audience_are_checked_where_set() {
    let key = KeyFile::new(SECRET);
    let settings = JwtSettings {
        issuer: Some("https://id.example.org".to_owned()),
        audience: Some("gatepost".to_owned()),
        ..key.settings(JwtAlgorithm::Hs256)
    };
    let issuers = Issuers::load(&[settings]).expect("a key");
    let right = json!({"iss": "https://id.example.org", "aud": ["x", "gatepost"]});
    assert!(issuers.verify(&hs256(&with(right))).is_ok());
    for wrong in [
        json!({}),
        json!({"iss": "https://id.example.org"}),
        json!({"aud": "gatepost"}),
        json!({"iss": "https://id.example.org", "aud": "x"}),
        json!({"iss": "https://evil.example.org", "aud": "gatepost"}),
    ] {
        assert!(
            issuers.verify(&hs256(&with(wrong.clone()))).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn keys_that_will_not_do_are_named() {
    let short = KeyFile::new(b"short");
    let pem = KeyFile::new(include_bytes!("../../testdata/jwt-test-only-rsa.pub.pem"));
    let missing = JwtSettings {
        key: "/nonexistent/key".into(),
        ..JwtSettings::default()
    };
    for (settings, hint) in [
        (short.settings(JwtAlgorithm::Hs256), "at least 32"),
        (pem.settings(JwtAlgorithm::Hs256), "PEM"),
        (pem.settings(JwtAlgorithm::Es256), "P-256"),
        (short.settings(JwtAlgorithm::Rs256), "RSA"),
        (missing, "No such file"),
    ] {
        let error = Issuers::load(&[settings])
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains(hint), "{error}");
    }
}

/// The part of PEM that the tests' own keys need.
mod pem {
    use super::*;

    pub(super) fn read(pem: &[u8]) -> (String, Vec<u8>) {
        let text = std::str::from_utf8(pem).expect("text");
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        let label = text.lines().next().unwrap_or_default().to_owned();
        (label, STANDARD.decode(body).expect("base64"))
    }
}
