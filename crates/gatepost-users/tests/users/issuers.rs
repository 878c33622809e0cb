//! Users of a trusted issuer of JSON Web Tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Users of the database and of an issuer.
fn users_of_issuer(default: DefaultPolicy) -> Users {
    let key = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(key.path(), SECRET).expect("written");
    users_with(&AccessSettings {
        default,
        jwt: vec![JwtSettings {
            algorithm: JwtAlgorithm::Hs256,
            key: key.path().to_owned(),
            ..JwtSettings::default()
        }],
        ..settings()
    })
}

/// A token of the issuer, for an hour or so.
fn token(claims: &Value) -> Credentials {
    let mut claims = claims.clone();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    claims["exp"] = json!(now.expect("after 1970").as_secs() + 3_600);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "HS256"})), part(&claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()));
    Credentials::Bearer(format!("{text}.{signature}").as_str().into())
}

#[tokio::test]
async fn the_removal_of_a_user_ends_a_login_by_a_token_without_claims() {
    let users = users_of_issuer(DefaultPolicy::Auto);
    anna(&users).await;
    users
        .grant("anna", Effect::Allow, AccessSet::ALL, "home/anna/#")
        .await
        .expect("granted");
    let plain = json!({"sub": "anna"});
    let login = users.authenticate(token(&plain), &origin()).await;
    let login = login.expect("let in");
    assert!(login.may_publish("home/anna/door", false).is_allowed());
    assert!(!login.may_publish("home/otto/door", false).is_allowed());
    let kept = login.kept_login();

    users.remove("anna").await.expect("removed");
    assert!(login.is_revoked());
    assert!(!login.may_publish("home/otto/door", false).is_allowed());
    let kept = users.owner_by_login(Some("anna"), "c1", Some(&kept));
    assert!(kept.is_revoked());
    let again = users.authenticate(token(&plain), &origin()).await;
    assert_eq!(again.err(), Some(LoginRefusal::Credentials));
}

#[tokio::test]
async fn claims_define_the_rights_of_a_user_without_a_record() {
    for default in [
        DefaultPolicy::Auto,
        DefaultPolicy::Deny,
        DefaultPolicy::Allow,
    ] {
        let users = users_of_issuer(default);
        let news = users.grant(EVERYONE, Effect::Allow, access("subscribe"), "news/#");
        news.await.expect("granted");
        let secret = users.grant(EVERYONE, Effect::Deny, AccessSet::ALL, "home/secret");
        secret.await.expect("granted");
        let claims = json!({"sub": "otto", "publish": ["home/#"], "subscribe": ["$SYS/#"]});
        let login = users.authenticate(token(&claims), &origin()).await;
        let login = login.expect("let in");
        for (topic, is_allowed) in [
            ("home/door", true),
            ("home/secret", false),
            ("elsewhere", false),
        ] {
            let may = login.may_publish(topic, false);
            assert_eq!(may.is_allowed(), is_allowed, "{default:?} {topic}");
        }
        assert!(!login.may_publish("home/door", true).is_allowed());
        assert!(!login.may_subscribe("news/today").is_allowed());
        assert!(!login.may_subscribe("$SYS/#").is_allowed(), "{default:?}");
    }
}
