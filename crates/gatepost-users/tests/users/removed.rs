//! Users that were removed, by this process or by another one.

use super::*;

async fn add(users: &Users, name: &str) {
    let added = users.add(name, "secret".into(), false).await;
    added.expect("added");
}

/// The names of the removed users, of which everything is then removed.
async fn removed(users: &Users) -> Vec<String> {
    let removed = users.removed().expect("read");
    let names = removed.names().map(str::to_owned).collect();
    users.confirm_removed(removed).await.expect("confirmed");
    names
}

#[tokio::test]
async fn a_removed_user_is_found_until_what_it_left_is_removed() {
    let store = Store::in_memory().expect("a store");
    let users = Users::open(store.clone(), &settings()).expect("users");
    add(&users, "Anna").await;
    add(&users, "otto").await;
    assert!(removed(&users).await.is_empty());
    // A command, while no server runs.
    let command = Users::open(store.clone(), &settings()).expect("users");
    command.remove("Anna").await.expect("removed");
    let users = Users::open(store, &settings()).expect("users");
    let found = users.removed().expect("read");
    assert!(found.includes("anna") && !found.includes("otto"));
    assert_eq!(removed(&users).await, ["Anna"], "not confirmed before");
    assert!(removed(&users).await.is_empty());
}

#[tokio::test]
async fn a_later_user_of_the_name_is_another_one() {
    let users = users();
    add(&users, "anna").await;
    assert!(removed(&users).await.is_empty());
    users.remove("anna").await.expect("removed");
    add(&users, "anna").await;
    // The first connection would be given the sessions of the earlier one.
    let refused = login(&users, "anna", "secret").await;
    assert_eq!(refused.err(), Some(LoginRefusal::Busy));
    assert_eq!(removed(&users).await, ["anna"]);
    assert!(login(&users, "anna", "secret").await.is_ok());
    assert!(removed(&users).await.is_empty());
}

#[tokio::test]
async fn a_changed_user_remains_the_same() {
    let users = users();
    add(&users, "anna").await;
    assert!(removed(&users).await.is_empty());
    let changed = users.set_password("anna", "another secret".into());
    changed.await.expect("changed");
    let changed = users.set_standing("anna", Some(true), Some(true));
    changed.await.expect("changed");
    assert!(removed(&users).await.is_empty());
}
