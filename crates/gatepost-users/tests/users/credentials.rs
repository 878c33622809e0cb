//! Names, passwords and certificates, and limits on guessing them.

use super::*;

#[tokio::test]
async fn a_fresh_install_is_open_on_loopback_until_there_is_a_user() {
    let users = users();
    let first = users.authenticate(Credentials::Anonymous, &origin()).await;
    let first = first.expect("let in");
    assert!(first.is_admin() && first.user().is_none());
    assert!(first.may_subscribe("$SYS/#").is_allowed());

    for (setting, local) in [(AnonymousAccess::Auto, false), (AnonymousAccess::No, true)] {
        let origin = origin().with_anonymous_access(setting, local);
        let answer = users.authenticate(Credentials::Anonymous, &origin).await;
        assert_eq!(
            answer.err(),
            Some(LoginRefusal::Anonymous),
            "{setting:?} {local}"
        );
    }

    let anna = anna(&users).await;
    assert_eq!(anna.user(), Some("anna"));
    assert!(
        first.is_revoked(),
        "no anonymous access once there is a user"
    );
    assert!(!first.may_publish("a", false).is_allowed());
    let late = users.authenticate(Credentials::Anonymous, &origin()).await;
    assert_eq!(late.err(), Some(LoginRefusal::Anonymous));

    let open = origin().with_anonymous_access(AnonymousAccess::Yes, false);
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
        assert_eq!(
            answer.err(),
            Some(LoginRefusal::Credentials),
            "{user} {secret}"
        );
    }
    let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
    assert_eq!(
        login(&users, "anna", &long).await.err(),
        Some(LoginRefusal::Credentials)
    );
}

#[tokio::test]
async fn names_and_passwords_are_checked_when_made() {
    let users = users();
    anna(&users).await;
    let again = users.add("anna", "others".into(), false).await;
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
        assert_eq!(answer.err(), Some(LoginRefusal::Credentials));
    }
    let answer = login(&users, "anna", "guess 4").await;
    assert!(
        matches!(answer, Err(LoginRefusal::TooMany { .. })),
        "{answer:?}"
    );
    // An attacker who guesses passwords must not be able to lock out the user.
    assert!(login(&users, "anna", "secret").await.is_ok());
    let mut scram = users.scram(origin());
    let first = scram.step(b"n,,n=anna,r=x");
    assert!(matches!(first, Err(LoginRefusal::TooMany { .. })));
}

#[tokio::test]
async fn guessing_tokens_ends_soon_too() {
    let users = users_with_ban_after(&settings(), 2);
    anna(&users).await;
    let token = || Credentials::Bearer("gp_guess".into());
    for _ in 0..2 {
        let answer = users.authenticate(token(), &origin()).await;
        assert_eq!(answer.err(), Some(LoginRefusal::Credentials));
    }
    let answer = users.authenticate(token(), &origin()).await;
    assert!(matches!(answer, Err(LoginRefusal::TooMany { .. })));
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
    assert_eq!(stranger.err(), Some(LoginRefusal::Credentials));
}

#[tokio::test]
async fn the_right_password_of_this_machine_is_never_locked_out() {
    let users = users_with(&AccessSettings {
        failures_per_user: 3,
        password_cache: "0".parse().expect("a period"),
        ..settings()
    });
    users
        .add("anna", "secret".into(), false)
        .await
        .expect("added");
    for number in 0..8 {
        let _ = login(&users, "anna", &format!("guess {number}")).await;
    }
    assert!(matches!(
        login(&users, "anna", "secret").await,
        Err(LoginRefusal::TooMany { .. })
    ));
    let here = from("127.0.0.1:1");
    for number in 0..5 {
        let guess = password("anna", &format!("local guess {number}"));
        let answer = users.authenticate(guess, &here).await;
        assert_eq!(
            answer.err(),
            Some(LoginRefusal::Credentials),
            "checked, if late"
        );
    }
    let right = users.authenticate(password("anna", "secret"), &here).await;
    assert_eq!(right.expect("let in").user(), Some("anna"));
}

#[tokio::test]
async fn letter_case_does_not_distinguish_users() {
    let users = users();
    anna(&users).await;
    let other = users.add("Anna", "other secret".into(), true).await;
    assert!(matches!(other, Err(UsersError::Exists(name)) if name == "anna"));
    let identity = login(&users, "ANNA", "secret").await.expect("let in");
    assert_eq!(identity.user(), Some("anna"), "under the recorded name");
    users
        .grant("Anna", Effect::Allow, access("publish"), "home/%u")
        .await
        .expect("granted");
    assert_eq!(users.rules("anna").len(), 1);
    assert!(identity.may_publish("home/anna", false).is_allowed());
    assert!(!identity.may_publish("other", false).is_allowed());
    users.remove("aNNa").await.expect("removed");
    assert!(identity.is_revoked() && users.rules("anna").is_empty());
}
