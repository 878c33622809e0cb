//! Tokens: their permissions and lifetimes.

use super::*;

#[tokio::test]
async fn a_token_has_the_rights_of_its_scope_within_those_of_its_user() {
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
        "a narrowed token is not an administrator's"
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

    // As a password, for clients that support nothing else; with its user's name or without a name.
    assert!(login(&users, "root", narrow.expose()).await.is_ok());
    assert!(login(&users, "", narrow.expose()).await.is_ok());
    let other = login(&users, "anna", narrow.expose()).await;
    assert_eq!(other.err(), Some(LoginRefusal::Credentials));

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
    assert_eq!(gone.err(), Some(LoginRefusal::Credentials));
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
    assert_eq!(answer.err(), Some(LoginRefusal::Credentials));
}

#[tokio::test]
async fn a_program_with_a_wrong_token_locks_out_no_other_of_this_machine() {
    let users = users();
    anna(&users).await;
    let token = users.create_token("anna", "", None, None).await;
    let token = token.expect("a token");
    let here = from("127.0.0.1:1");
    for _ in 0..200 {
        let wrong = Credentials::Bearer("gp_wrong".into());
        let answer = users.authenticate(wrong, &here).await;
        assert_eq!(answer.err(), Some(LoginRefusal::Credentials));
    }
    let right = users.authenticate(Credentials::Bearer(token), &here).await;
    assert_eq!(right.expect("let in").user(), Some("anna"));
}

#[tokio::test]
async fn what_a_token_left_behind_ends_with_the_token_and_with_its_user() {
    let users = users();
    let by_password = anna(&users).await.kept_login();
    let scope = vec![(access("subscribe"), "alarms/#".to_owned())];
    let token = users
        .create_token("anna", "", None, Some(scope))
        .await
        .expect("a token");
    let login = users
        .authenticate(Credentials::Bearer(token), &origin())
        .await;
    let by_token = login.expect("let in").kept_login();
    assert_ne!(by_password, by_token);
    let owner = |login| users.owner_by_login(Some("anna"), "c1", Some(login));
    let kept = owner(&by_token);
    assert!(kept.may_subscribe("alarms/fire").is_allowed());
    assert!(!kept.may_subscribe("other").is_allowed());
    assert!(owner(&by_password).may_subscribe("other").is_allowed());

    let id = &users.list()[0].tokens[0].id;
    users.remove_token(id).await.expect("removed");
    assert!(kept.is_revoked() && owner(&by_token).is_revoked());
    users
        .set_password("anna", "another secret".into())
        .await
        .expect("changed");
    assert!(!owner(&by_password).is_revoked(), "the user remains");
    users.remove("anna").await.expect("removed");
    assert!(owner(&by_password).is_revoked());
}
