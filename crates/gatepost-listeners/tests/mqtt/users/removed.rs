//! Sessions of removed users.

use super::*;

/// Ends the sessions of removed users, as the server does after each change of users.
fn end_sessions(server: &Server) -> usize {
    let removed = server.users.removed().expect("read");
    let is_removed = |user: &str| removed.includes(user);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let ended = runtime.block_on(server.broker.end_sessions_of_users(is_removed));
    let ended = ended.expect("durable");
    server.change(server.users.confirm_removed(removed));
    ended
}

#[test]
fn a_later_user_of_the_name_finds_no_session() {
    let server = server();
    assert_eq!(end_sessions(&server), 0);
    let (mut anna, ..) = lasting(&server, "anna", true);
    assert_eq!(suback(&mut anna, &["a"]), [Reason::SUCCESS]);
    let (mut otto, ..) = lasting(&server, "otto", true);
    server.change(server.users.remove("anna"));
    server.change(server.users.add("anna", "secret".into(), false));
    assert_eq!(end_sessions(&server), 1);
    anna.expect(|packet| match packet {
        Packet::Disconnect(outcome) => assert_eq!(outcome.reason, Reason::NOT_AUTHORIZED),
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(anna.is_closed() && otto.is_alive());
    let (_, reason, present) = lasting(&server, "anna", false);
    assert_eq!((reason, present), (Reason::SUCCESS, false));
    assert_eq!(end_sessions(&server), 0, "this one is hers");
}
