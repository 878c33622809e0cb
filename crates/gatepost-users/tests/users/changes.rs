//! Changes that are made at the same time, or by another process, do not undo each other.

use gatepost_store::Store;
use gatepost_users::{Effect, LoginRefusal, Users, UsersError};

use crate::{access, anna, login, settings};

#[tokio::test]
async fn changes_made_at_once_are_all_kept() {
    let users = crate::users();
    anna(&users).await;
    let grant = |what: &'static str| {
        let users = users.clone();
        async move {
            let granted = users.grant("anna", Effect::Allow, access(what), "a/#");
            granted.await.expect("granted");
        }
    };
    let changes = async {
        let disabled = users.set_standing("anna", Some(true), None);
        let promoted = users.set_standing("anna", None, Some(true));
        let (disabled, promoted) = tokio::join!(disabled, promoted);
        disabled.and(promoted).expect("changed");
    };
    tokio::join!(grant("publish"), grant("subscribe"), changes);
    let found = users.list().remove(0);
    assert!(found.disabled && found.admin, "{found:?}");
    assert_eq!(found.rules.len(), 1);
    assert_eq!(found.rules[0].access, access("publish,subscribe"));
}

#[tokio::test]
async fn a_change_follows_those_of_another_process() {
    let store = Store::in_memory().expect("a store");
    let server = Users::open(store.clone(), &settings()).expect("users");
    anna(&server).await;
    let command = Users::open(store, &settings()).expect("users");
    let disabled = command.set_standing("anna", Some(true), None);
    disabled.await.expect("disabled");
    // The server has not looked since.
    let changed = server.set_password("anna", "another secret".into());
    changed.await.expect("changed");
    let refused = login(&server, "anna", "another secret").await;
    assert!(
        matches!(refused, Err(LoginRefusal::Disabled)),
        "{refused:?}"
    );

    command.remove("anna").await.expect("removed");
    let changed = server.set_password("anna", "a third secret".into()).await;
    assert!(matches!(changed, Err(UsersError::NoUser(_))), "{changed:?}");
    assert!(server.list().is_empty());
}
