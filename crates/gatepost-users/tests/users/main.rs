//! Users as a listener meets them: who is let in, who is not, and what each may do, also when
//! that changes under an open connection.

use std::time::Duration;

use gatepost_message::{Listener, Peer};
use gatepost_store::{Store, StoreSettings};
use gatepost_users::*;

fn settings() -> AccessSettings {
    AccessSettings {
        scram_iterations: 4_096,
        ..AccessSettings::default()
    }
}

fn users() -> Users {
    users_with(&settings())
}

fn users_with(settings: &AccessSettings) -> Users {
    Users::open(Store::in_memory().expect("a store"), settings).expect("users")
}

fn origin() -> Origin {
    Origin::new(Listener::Mqtt, Peer::Local).with_client("c1")
}

fn password(user: &str, password: &str) -> Credentials {
    Credentials::Password {
        user: user.to_owned(),
        password: password.into(),
    }
}

async fn anna(users: &Users) -> Identity {
    users
        .add("anna", "secret".into(), false)
        .await
        .expect("added");
    login(users, "anna", "secret").await.expect("let in")
}

async fn login(users: &Users, user: &str, secret: &str) -> Result<Identity, Denied> {
    users.authenticate(password(user, secret), &origin()).await
}

fn access(text: &str) -> AccessSet {
    text.parse().expect("access")
}

#[tokio::test]
async fn a_fresh_install_is_open_on_loopback_until_there_is_a_user() {
    let users = users();
    let first = users.authenticate(Credentials::Anonymous, &origin()).await;
    let first = first.expect("let in");
    assert!(first.is_admin() && first.user().is_none());
    assert!(first.may_subscribe("$SYS/#").is_allowed());

    for (setting, local) in [(AnonymousAccess::Auto, false), (AnonymousAccess::No, true)] {
        let origin = origin().with_door(setting, local);
        let answer = users.authenticate(Credentials::Anonymous, &origin).await;
        assert_eq!(answer.err(), Some(Denied::Anonymous), "{setting:?} {local}");
    }

    let anna = anna(&users).await;
    assert_eq!(anna.user(), Some("anna"));
    assert!(first.is_revoked(), "the door closes behind the first user");
    assert!(!first.may_publish("a", false).is_allowed());
    let late = users.authenticate(Credentials::Anonymous, &origin()).await;
    assert_eq!(late.err(), Some(Denied::Anonymous));

    let open = origin().with_door(AnonymousAccess::Yes, false);
    let guest = users
        .authenticate(Credentials::Anonymous, &open)
        .await
        .expect("let in");
    assert!(!guest.is_admin());
    assert!(guest.may_publish("a", true).is_allowed());
    assert!(!guest.may_subscribe("$SYS/#").is_allowed());
    users
        .grant(ANONYMOUS, Effect::Deny, AccessSet::ALL, "a/#")
        .await
        .expect("granted");
    assert!(!guest.may_publish("a", false).is_allowed());
    assert!(anna.may_publish("a", false).is_allowed());
}

#[tokio::test]
async fn wrong_users_and_passwords_are_refused_alike() {
    let users = users();
    anna(&users).await;
    for (user, secret) in [
        ("anna", "Secret"),
        ("anna", ""),
        ("otto", "secret"),
        ("", ""),
        ("anna", "gp_unknown"),
        (
            "anna",
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIiwiZXhwIjo5OTk5OTk5OTk5fQ.",
        ),
    ] {
        let answer = login(&users, user, secret).await;
        assert_eq!(answer.err(), Some(Denied::Credentials), "{user} {secret}");
    }
    let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
    assert_eq!(
        login(&users, "anna", &long).await.err(),
        Some(Denied::Credentials)
    );
}

#[tokio::test]
async fn names_and_passwords_are_checked_when_made() {
    let users = users();
    anna(&users).await;
    let again = users.add("anna", "other".into(), false).await;
    assert!(matches!(again, Err(UsersError::Exists(_))));
    for name in ["", "a/b", "everyone", "+"] {
        let answer = users.add(name, "secret".into(), false).await;
        assert!(matches!(answer, Err(UsersError::Name(_))), "{name}");
    }
    let empty = users.add("otto", "".into(), false).await;
    assert!(matches!(empty, Err(UsersError::Password)));
    assert!(matches!(
        users.remove("otto").await,
        Err(UsersError::NoUser(_))
    ));
    let rule = users
        .grant("otto", Effect::Allow, AccessSet::ALL, "#")
        .await;
    assert!(matches!(rule, Err(UsersError::NoUser(_))));
    let rule = users
        .grant("anna", Effect::Allow, AccessSet::ALL, "a/#/b")
        .await;
    assert!(matches!(rule, Err(UsersError::Filter { .. })));
    let none = users.revoke("anna", AccessSet::ALL, "a").await;
    assert!(matches!(none, Err(UsersError::NoRule { .. })));
}

#[tokio::test]
async fn grants_narrow_and_follow_an_open_connection() {
    let users = users();
    let anna = anna(&users).await;
    assert!(anna.may_publish("anything", true).is_allowed());
    let grant = |text: &'static str, filter: &'static str| {
        users.grant("anna", Effect::Allow, access(text), filter)
    };
    grant("publish", "home/%u/#").await.expect("granted");
    grant("subscribe", "dev/%c").await.expect("granted");
    assert!(anna.may_publish("home/anna/door", false).is_allowed());
    assert!(
        !anna.may_publish("home/anna/door", true).is_allowed(),
        "retain is apart"
    );
    assert!(!anna.may_publish("anything", false).is_allowed());
    assert!(anna.may_subscribe("dev/c1").is_allowed());
    assert!(!anna.may_subscribe("dev/c2").is_allowed());
    assert!(!anna.may_subscribe("dev/+").is_allowed());

    grant("retain", "home/%u/#").await.expect("granted");
    assert!(anna.may_publish("home/anna/door", true).is_allowed());
    users
        .revoke("anna", access("publish"), "home/%u/#")
        .await
        .expect("revoked");
    assert!(!anna.may_publish("home/anna/door", true).is_allowed());
    let rules = users.rules("anna");
    assert_eq!(rules.len(), 2, "{rules:?}");
    users
        .revoke("anna", AccessSet::ALL, "home/%u/#")
        .await
        .expect("revoked");
    assert_eq!(users.rules("anna").len(), 1);
}

#[tokio::test]
async fn a_client_id_cannot_widen_a_grant() {
    let users = users();
    anna(&users).await;
    users
        .grant("anna", Effect::Allow, AccessSet::ALL, "dev/%c/#")
        .await
        .expect("granted");
    for client in ["#", "+", "a/b", ""] {
        let origin = Origin::new(Listener::Mqtt, Peer::Local).with_client(client);
        let identity = users
            .authenticate(password("anna", "secret"), &origin)
            .await;
        let identity = identity.expect("let in");
        assert!(
            !identity.may_publish("dev/x/y", false).is_allowed(),
            "{client}"
        );
        assert!(
            !identity.may_publish("dev/a/b", false).is_allowed(),
            "{client}"
        );
        assert!(!identity.may_subscribe("dev/#").is_allowed(), "{client}");
    }
}

#[tokio::test]
async fn who_loses_the_ground_loses_everything() {
    let users = users();
    let before = anna(&users).await;
    users.set_password("anna", "new".into()).await.expect("set");
    assert!(before.is_revoked());
    assert_eq!(
        login(&users, "anna", "secret").await.err(),
        Some(Denied::Credentials)
    );

    let after = login(&users, "anna", "new").await.expect("let in");
    users
        .set_standing("anna", Some(true), None)
        .await
        .expect("set");
    assert!(after.is_revoked());
    assert_eq!(
        login(&users, "anna", "new").await.err(),
        Some(Denied::Disabled)
    );
    assert_eq!(
        login(&users, "anna", "bad").await.err(),
        Some(Denied::Credentials)
    );
    users
        .set_standing("anna", Some(false), Some(true))
        .await
        .expect("set");
    assert!(!after.is_revoked() && after.is_admin());

    users
        .grant("anna", Effect::Allow, AccessSet::ALL, "#")
        .await
        .expect("granted");
    let token = users
        .create_token("anna", "x", None, None)
        .await
        .expect("a token");
    users.remove("anna").await.expect("removed");
    assert!(after.is_revoked());
    assert!(!after.may_publish("a", false).is_allowed());
    // A later user of the same name inherits neither rules nor tokens.
    users.add("anna", "new".into(), false).await.expect("added");
    assert!(after.is_revoked());
    assert!(users.rules("anna").is_empty());
    let bearer = users
        .authenticate(Credentials::Bearer(token), &origin())
        .await;
    assert_eq!(bearer.err(), Some(Denied::Credentials));
}

#[tokio::test]
async fn a_token_does_what_its_scope_says_within_what_its_user_may() {
    let users = users();
    users
        .add("root", "secret".into(), true)
        .await
        .expect("added");
    let scope = vec![(access("publish"), "alarms/#".to_owned())];
    let narrow = users
        .create_token("root", "ci", None, Some(scope))
        .await
        .expect("a token");
    let wide = users
        .create_token("root", "", None, None)
        .await
        .expect("a token");
    assert!(narrow.expose().starts_with("gp_"));

    let narrow_id = users
        .authenticate(Credentials::Bearer(narrow.clone()), &origin())
        .await;
    let narrow_id = narrow_id.expect("let in");
    assert!(narrow_id.may_publish("alarms/fire", false).is_allowed());
    assert!(!narrow_id.may_publish("alarms/fire", true).is_allowed());
    assert!(!narrow_id.may_publish("other", false).is_allowed());
    assert!(!narrow_id.may_subscribe("alarms/fire").is_allowed());
    assert!(
        !narrow_id.is_admin(),
        "a narrowed token is no administrator's"
    );
    let wide = users
        .authenticate(Credentials::Bearer(wide), &origin())
        .await
        .expect("let in");
    assert!(wide.is_admin());

    users
        .grant("root", Effect::Deny, access("publish"), "alarms/secret")
        .await
        .expect("granted");
    assert!(!narrow_id.may_publish("alarms/secret", false).is_allowed());

    // As a password, for clients that know nothing else; with its user's name or with none.
    assert!(login(&users, "root", narrow.expose()).await.is_ok());
    assert!(login(&users, "", narrow.expose()).await.is_ok());
    let other = login(&users, "anna", narrow.expose()).await;
    assert_eq!(other.err(), Some(Denied::Credentials));

    let listed = users.list();
    let id = &listed[0]
        .tokens
        .iter()
        .find(|token| token.label == "ci")
        .expect("listed")
        .id;
    users.remove_token(id).await.expect("removed");
    assert!(narrow_id.is_revoked());
    assert!(users.remove_token(id).await.is_err());
    let gone = users
        .authenticate(Credentials::Bearer(narrow), &origin())
        .await;
    assert_eq!(gone.err(), Some(Denied::Credentials));
}

#[tokio::test]
async fn an_expired_token_is_no_token() {
    let users = users();
    anna(&users).await;
    let token = users
        .create_token("anna", "", Some(0), None)
        .await
        .expect("a token");
    let answer = users
        .authenticate(Credentials::Bearer(token), &origin())
        .await;
    assert_eq!(answer.err(), Some(Denied::Credentials));
}

#[tokio::test]
async fn guessing_ends_soon_but_the_known_password_still_opens() {
    let users = users_with(&AccessSettings {
        failures_per_user: 3,
        ..settings()
    });
    anna(&users).await;
    for number in 0..3 {
        let answer = login(&users, "anna", &format!("guess {number}")).await;
        assert_eq!(answer.err(), Some(Denied::Credentials));
    }
    let answer = login(&users, "anna", "guess 4").await;
    assert!(matches!(answer, Err(Denied::TooMany { .. })), "{answer:?}");
    // Whoever guesses must not be able to lock her out.
    assert!(login(&users, "anna", "secret").await.is_ok());
    let mut scram = users.scram(origin());
    let first = scram.step(b"n,,n=anna,r=x");
    assert!(matches!(first, Err(Denied::TooMany { .. })));
}

#[tokio::test]
async fn guessing_tokens_ends_soon_too() {
    let users = users_with(&AccessSettings {
        failures_per_address: 2,
        ..settings()
    });
    anna(&users).await;
    let token = || Credentials::Bearer("gp_guess".into());
    for _ in 0..2 {
        let answer = users.authenticate(token(), &origin()).await;
        assert_eq!(answer.err(), Some(Denied::Credentials));
    }
    let answer = users.authenticate(token(), &origin()).await;
    assert!(matches!(answer, Err(Denied::TooMany { .. })));
}

#[tokio::test]
async fn a_certificate_is_its_users() {
    let users = users();
    anna(&users).await;
    let certificate = |user: &str| Credentials::Certificate {
        user: user.to_owned(),
    };
    let identity = users.authenticate(certificate("anna"), &origin()).await;
    assert_eq!(identity.expect("let in").user(), Some("anna"));
    let stranger = users.authenticate(certificate("otto"), &origin()).await;
    assert_eq!(stranger.err(), Some(Denied::Credentials));
}

/// A client of SCRAM, written from the RFC apart from the server.
mod scram_client {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use ring::{digest, hmac, pbkdf2};

    pub(super) struct Client {
        pub(super) first: String,
        password: String,
    }

    impl Client {
        pub(super) fn new(user: &str, password: &str) -> Self {
            Self {
                first: format!("n,,n={user},r=clientnonce"),
                password: password.to_owned(),
            }
        }

        /// The client's last message, and what the server must answer to it.
        pub(super) fn answer(&self, challenge: &[u8]) -> (String, String) {
            let challenge = std::str::from_utf8(challenge).expect("text");
            let field = |name: &str| {
                let mut fields = challenge.split(',');
                fields
                    .find_map(|field| field.strip_prefix(name))
                    .expect("a field")
            };
            assert!(field("r=").starts_with("clientnonce"));
            let salt = STANDARD.decode(field("s=")).expect("base64");
            let iterations = field("i=").parse().expect("a number");
            let mut salted = [0; 32];
            let password = self.password.as_bytes();
            pbkdf2::derive(
                pbkdf2::PBKDF2_HMAC_SHA256,
                iterations,
                &salt,
                password,
                &mut salted,
            );
            let mac = |key: &[u8], text: &[u8]| {
                let key = hmac::Key::new(hmac::HMAC_SHA256, key);
                hmac::sign(&key, text).as_ref().to_vec()
            };
            let client_key = mac(&salted, b"Client Key");
            let stored = digest::digest(&digest::SHA256, &client_key);
            let without_proof = format!("c=biws,r={}", field("r="));
            let transcript = format!("{},{challenge},{without_proof}", &self.first[3..]);
            let signature = mac(stored.as_ref(), transcript.as_bytes());
            let proof: Vec<u8> = client_key
                .iter()
                .zip(signature)
                .map(|(a, b)| a ^ b)
                .collect();
            let server = mac(&mac(&salted, b"Server Key"), transcript.as_bytes());
            (
                format!("{without_proof},p={}", STANDARD.encode(proof)),
                format!("v={}", STANDARD.encode(server)),
            )
        }
    }
}

#[tokio::test]
async fn scram_lets_in_without_the_password_on_the_wire() {
    let users = users();
    anna(&users).await;
    let client = scram_client::Client::new("anna", "secret");
    let mut login = users.scram(origin());
    let Ok(ScramStep::Challenge(challenge)) = login.step(client.first.as_bytes()) else {
        panic!("no challenge");
    };
    let (answer, expected) = client.answer(&challenge);
    match login.step(answer.as_bytes()) {
        Ok(ScramStep::Done { last, identity }) => {
            assert_eq!(String::from_utf8(last), Ok(expected));
            assert_eq!(identity.user(), Some("anna"));
        }
        other => panic!("{other:?}"),
    }
    assert!(login.step(answer.as_bytes()).is_err(), "no step twice");
    let mut replay = users.scram(origin());
    replay.step(client.first.as_bytes()).expect("a challenge");
    let replayed = replay.step(answer.as_bytes());
    assert!(
        matches!(replayed, Err(Denied::Malformed(_))),
        "{replayed:?}"
    );
}

#[tokio::test]
async fn scram_refuses_wrong_passwords_and_answers_for_unknown_users_alike() {
    let users = users();
    anna(&users).await;
    for (user, secret) in [("anna", "wrong"), ("otto", "secret")] {
        let client = scram_client::Client::new(user, secret);
        let mut login = users.scram(origin());
        let Ok(ScramStep::Challenge(challenge)) = login.step(client.first.as_bytes()) else {
            panic!("no challenge for {user}");
        };
        let text = String::from_utf8(challenge.clone()).expect("text");
        assert!(text.ends_with(",i=4096"), "{text}");
        let refused = login.step(client.answer(&challenge).0.as_bytes());
        assert!(
            matches!(refused, Err(Denied::Credentials)),
            "{user}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn another_process_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
    let server = Users::open(store, &settings()).expect("users");
    let beside = Store::open_beside(folder.path(), &StoreSettings::default()).expect("a store");
    let command = Users::open(beside, &settings()).expect("users");

    let mut changes = server.changes();
    let following = server.clone();
    let follower = tokio::spawn(async move { following.follow().await });
    command
        .add("anna", "secret".into(), false)
        .await
        .expect("added");
    let seen = tokio::time::timeout(Duration::from_mins(1), changes.wait_for(|_| server.any()));
    seen.await
        .expect("seen in time")
        .expect("the server is there");
    assert!(login(&server, "anna", "secret").await.is_ok());
    follower.abort();
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_restart_and_holds_no_password() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
        let users = Users::open(store.clone(), &settings()).expect("users");
        users
            .add("anna", "correct horse battery".into(), false)
            .await
            .expect("added");
        users
            .grant("anna", Effect::Allow, AccessSet::ALL, "a/%u")
            .await
            .expect("granted");
        store.close();
    }
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("correct horse"),
            "the password is in the file"
        );
    }
    let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
    let users = Users::open(store, &settings()).expect("users");
    let anna = login(&users, "anna", "correct horse battery")
        .await
        .expect("let in");
    assert!(anna.may_publish("a/anna", false).is_allowed());
    assert!(!format!("{anna:?} {:?}", users.list()).contains("argon2"));
}
