//! Credentials of peers: an `Authorization` value, a token, a JWT whose signature is right and
//! whose claims are anything, and the messages of a SCRAM exchange. None of them admits a client
//! but a token's own words.
#![no_main]

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatepost_message::{Listener, Peer};
use gatepost_store::Store;
use gatepost_users::{
    AccessSettings, Credentials, JwtAlgorithm, JwtSettings, LoginOrigin, ScramStep, Secret, Users,
};
use libfuzzer_sys::fuzz_target;
use ring::hmac;

const KEY: &[u8] = b"a secret of thirty-two bytes, or more";

static USERS: LazyLock<Users> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("gatepost-fuzz-{}", std::process::id()));
    std::fs::write(&path, KEY).expect("a key file");
    let settings = AccessSettings {
        jwt: vec![JwtSettings {
            algorithm: JwtAlgorithm::Hs256,
            key: path,
            ..JwtSettings::default()
        }],
        ..AccessSettings::default()
    };
    let store = Store::in_memory().expect("a store");
    Users::open(store, &settings).expect("users")
});
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
});

/// A JWT that says `claims`, with a signature that is right.
fn signed(claims: &[u8]) -> String {
    let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()));
    format!("{text}.{signature}")
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let origin = || LoginOrigin::new(Listener::Mqtt, Peer::Local);
    let _ = Credentials::from_authorization(&text);
    for token in [text.clone().into_owned(), signed(bytes)] {
        let credentials = Credentials::Bearer(Secret::new(token));
        if let Ok(identity) = RUNTIME.block_on(USERS.authenticate(credentials, &origin())) {
            assert!(identity.user().is_some() && identity.expires().is_some());
            let _ = identity.may_publish("a/b", true);
            let _ = identity.may_subscribe("a/#");
        }
    }
    let mut login = USERS.scram(origin());
    for message in bytes.split(|&byte| byte == b'\n') {
        match login.step(message) {
            Ok(ScramStep::Done { .. }) => unreachable!("there is no user"),
            Ok(ScramStep::Challenge(_)) => {}
            Err(_) => break,
        }
    }
});
