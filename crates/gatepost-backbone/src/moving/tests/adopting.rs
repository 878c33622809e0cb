//! Sessions that join with an early position in the log.

use std::time::{Duration, Instant};

use gatepost_broker::ClaimError;
use tokio::sync::oneshot;

use super::super::adopting::AdoptionRequest;
use super::nodes::{TestNode, name, session};
use crate::log::position::LogPosition;
use crate::moves::ownership::SessionId;
use crate::moves::question::{SessionAnswer, SessionQuestion, SessionRequest};
use crate::moves::transfer::SessionTransfer;
use crate::test_server::TestServer;

/// More entries than are read in a pause of the delivery.
const MANY: u64 = 10_000;
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

/// Requests that a session joins that has received the log up to an entry.
async fn request(
    node: &TestNode,
    client: &str,
    number: u64,
    received: u64,
) -> oneshot::Receiver<Result<(), ClaimError>> {
    let transfer = SessionTransfer {
        session: session(client, number),
        positions: vec![LogPosition::after(node.stream, received)],
    };
    let deadline = Instant::now() + ANSWERED_WITHIN;
    let (request, stored) = AdoptionRequest::new(&node.context, transfer, number, deadline);
    node.context.adoptions.send(request).await.expect("sent");
    stored
}

async fn answer(stored: oneshot::Receiver<Result<(), ClaimError>>) -> Result<(), ClaimError> {
    let answered = tokio::time::timeout(ANSWERED_WITHIN, stored).await;
    answered.expect("in time").expect("an answer")
}

#[tokio::test]
async fn a_session_that_has_missed_much_joins_with_what_it_has_subscribed_to() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    let topics = (0..MANY).map(|number| {
        let is_wanted = number.is_multiple_of(1_000);
        format!("{}/{number}", if is_wanted { "in" } else { "out" })
    });
    let last = node.append(topics).await;
    node.set_position(last);
    let running = node.adopt_sessions();
    let far = request(&node, "far", 1, 0).await;
    let near = request(&node, "near", 2, last - 1_500).await;
    assert_eq!(answer(near).await, Ok(()));
    assert_eq!(answer(far).await, Ok(()));
    let topics = |client| -> Vec<String> {
        let moved = node.release(&name(client)).expect("it is here");
        let deliveries = moved.deliveries.into_iter();
        deliveries
            .map(|one| one.publication.topic.as_str().to_owned())
            .collect()
    };
    let expected: Vec<String> = (0..10).map(|index| format!("in/{index}000")).collect();
    let mut expected = expected;
    expected[0] = "in/0".to_owned();
    assert_eq!(topics("far"), expected);
    assert_eq!(topics("near"), ["in/9000"]);
    assert!(!running.is_finished());
}

#[tokio::test]
async fn a_session_whose_missed_entries_cannot_be_read_is_refused_alone() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    let last = node.append((0..10).map(|_| "in/a".to_owned())).await;
    // The leader of the engine lacks what this node has read.
    node.set_position(last + 10);
    let running = node.adopt_sessions();
    let refused = request(&node, "refused", 1, 2).await;
    let joined = request(&node, "joined", 2, last + 10).await;
    let answered = answer(refused).await;
    assert!(
        matches!(answered, Err(ClaimError::NotStored(_))),
        "{answered:?}"
    );
    assert_eq!(answer(joined).await, Ok(()));
    let later = request(&node, "later", 3, last + 10).await;
    assert_eq!(answer(later).await, Ok(()));
    assert!(!running.is_finished());
    assert_eq!(node.release(&name("refused")), None);
}

#[tokio::test]
async fn a_session_is_released_when_the_log_was_read() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    node.set_position(0);
    let _running = node.adopt_sessions();
    let joined = request(&node, "kept", 5, 0).await;
    assert_eq!(answer(joined).await, Ok(()));
    let question = SessionQuestion {
        name: name("kept"),
        wanted: 5,
        claim: 6,
        request: SessionRequest::Piece(0),
    };
    let partition = &node.context.shared.log.partitions[0];
    partition.note_begun();
    let due = node.context.answer_to(&question);
    assert_eq!(
        (due.answer, due.after.is_some()),
        (SessionAnswer::Busy, false)
    );
    assert!(node.context.broker.has_persistent_session(&name("kept")));
    let id = SessionId::of(&name("kept"));
    assert_eq!(node.context.shared.moves.own_claim(id), Some(5));
    partition.note_read();
    let due = node.context.answer_to(&question);
    due.after
        .expect("it is released")
        .committed()
        .await
        .expect("stored");
    assert!(!node.context.broker.has_persistent_session(&name("kept")));
}
