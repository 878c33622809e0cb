//! Wills, and the messages that they become.

mod cluster;
mod fixture;
#[path = "../support/mod.rs"]
mod support;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gatepost_message::MessageId;
use gatepost_store::{StoreError, Ticket};

use fixture::{Fixture, HOUR, received};

// MQTT 5, section 3.1.3.2.4, and [MQTT-3.3.2-5].
#[test]
fn a_will_arrives_and_begins_to_expire_when_it_is_published() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let before = MessageId::next();
    fixture.await_client(1, Duration::from_secs(1));
    fixture.writer.commit(usize::MAX);
    fixture.clock.pass(Duration::from_secs(2));
    fixture.broker.tick(0);
    fixture.writer.commit(usize::MAX);

    let published = received(&mut reader);
    let [published] = published.as_slice() else {
        panic!("{published:?}");
    };
    assert!(published.id > before, "{:?} is not new", published.id);
    assert_eq!(fixture.retained(), std::slice::from_ref(published));
}

#[test]
fn a_will_is_published_again_when_it_can_be_stored_and_not_before() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.lose_while_disk_fails(connected);
    for tick in 0..5 {
        fixture.broker.tick(tick);
        fixture.writer.fail(&StoreError::Closed);
    }
    assert_eq!(received(&mut reader).len(), 1, "subscribers get it at once");
    assert_eq!(fixture.retained().len(), 0);

    fixture.writer.probe();
    fixture.broker.tick(5);
    fixture.writer.commit(usize::MAX);
    assert_eq!(received(&mut reader).len(), 1);
    assert_eq!(fixture.retained().len(), 1);
    fixture.broker.tick(6);
    assert_eq!(received(&mut reader).len(), 0);
}

/// Polls a future once.
fn polled<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_will_of_a_removed_user_is_discarded_with_its_session() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let mut connected = fixture.connect_as("anna");
    fixture.writer.commit(usize::MAX);
    connected.attachment.begin();
    let ended = fixture.broker.end_sessions_of_users(|user| user == "otto");
    assert!(matches!(polled(ended), Poll::Ready(Ok(0))));
    let ended = fixture.broker.end_sessions_of_users(|user| user == "anna");
    assert!(polled(ended).is_pending(), "it is not durable yet");
    fixture.writer.commit(usize::MAX);
    assert_eq!(received(&mut reader).len(), 0);
    assert_eq!(fixture.broker.sessions("", 0, 10).1, 0);
}

#[test]
fn a_client_whose_will_cannot_be_stored_may_connect_again() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.lose_while_disk_fails(connected);
    let connected = fixture.connect(true, Duration::ZERO);
    assert!(connected.tickets.is_empty(), "it waits for nothing");
    assert_eq!(received(&mut reader).len(), 1);
}

// [MQTT-3.1.2-4]
#[test]
fn a_client_waits_for_the_end_of_its_earlier_session() {
    let mut fixture = Fixture::new();
    let mut reader = fixture.read();
    let connected = fixture.connect(true, HOUR);
    fixture.lose_while_disk_fails(connected);
    for _ in 0..3 {
        let connected = fixture.connect(true, Duration::ZERO);
        assert!(connected.tickets.iter().any(Result::is_err));
    }
    assert_eq!(received(&mut reader).len(), 1);

    fixture.writer.probe();
    let connected = fixture.connect(true, Duration::ZERO);
    fixture.writer.commit(usize::MAX);
    let is_stored = |ticket: &Result<Ticket, StoreError>| ticket.as_ref().is_ok_and(is_committed);
    assert!(!connected.tickets.is_empty() && connected.tickets.iter().all(is_stored));
    assert_eq!(received(&mut reader).len(), 1);
}

fn is_committed(ticket: &Ticket) -> bool {
    matches!(ticket.outcome(), Some(Ok(())))
}
