//! Permissions, and their removal.

use super::*;

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
        let origin = LoginOrigin::new(Listener::Mqtt, Peer::Local).with_client(client);
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
async fn a_client_id_leads_to_no_topic_of_the_server() {
    let users = users();
    anna(&users).await;
    users
        .grant(EVERYONE, Effect::Allow, AccessSet::ALL, "%c/#")
        .await
        .expect("granted");
    for (client, filter, is_allowed) in [
        ("sensor", "sensor/#", true),
        ("$SYS", "$SYS/#", false),
        ("$call", "$call/#", false),
        ("$sparkplug", "$sparkplug/#", false),
    ] {
        let origin = LoginOrigin::new(Listener::Mqtt, Peer::Local).with_client(client);
        let identity = users
            .authenticate(password("anna", "secret"), &origin)
            .await;
        let identity = identity.expect("let in");
        assert_eq!(
            identity.may_subscribe(filter).is_allowed(),
            is_allowed,
            "{client}"
        );
        let topic = format!("{client}/x");
        let may_publish = identity.may_publish(&topic, false);
        assert_eq!(may_publish.is_allowed(), is_allowed, "{client}");
    }
}

#[tokio::test]
async fn who_loses_the_ground_loses_everything() {
    let users = users();
    let before = anna(&users).await;
    users
        .set_password("anna", "newest".into())
        .await
        .expect("set");
    assert!(before.is_revoked());
    assert_eq!(
        login(&users, "anna", "secret").await.err(),
        Some(LoginRefusal::Credentials)
    );

    let after = login(&users, "anna", "newest").await.expect("let in");
    users
        .set_standing("anna", Some(true), None)
        .await
        .expect("set");
    assert!(after.is_revoked());
    assert_eq!(
        login(&users, "anna", "newest").await.err(),
        Some(LoginRefusal::Disabled)
    );
    assert_eq!(
        login(&users, "anna", "bad").await.err(),
        Some(LoginRefusal::Credentials)
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
    users
        .add("anna", "newest".into(), false)
        .await
        .expect("added");
    assert!(after.is_revoked());
    assert!(users.rules("anna").is_empty());
    let bearer = users
        .authenticate(Credentials::Bearer(token), &origin())
        .await;
    assert_eq!(bearer.err(), Some(LoginRefusal::Credentials));
}
