//! Names, passwords and certificates, and who guesses them.

use super::*;

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
