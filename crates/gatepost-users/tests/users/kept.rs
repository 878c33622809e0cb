//! Data that is kept across a restart, and changes by another process.

use std::time::Duration;

use gatepost_store::StoreSettings;

use super::*;

#[tokio::test]
async fn another_process_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
    let server = Users::open(store, &settings()).expect("users");
    let beside = Store::open_secondary(folder.path(), &StoreSettings::default()).expect("a store");
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
async fn users_survive_a_restart_and_contain_no_password() {
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
