//! Sessions of a failed node whose adoption is interrupted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use gatepost_broker::{ReaderOptions, StreamEvent};
use gatepost_message::{Publication, Topic, TopicFilter};
use gatepost_store::{SessionChange, SessionRow, StoreChange, WillRow};

use super::super::failed_nodes::StreamClaim;
use super::super::taken_session::FailedStream;
use super::super::taking_over::take_over;
use super::super::{MoveContext, releasing};
use super::nodes::{TestNode, name, session};
use crate::error::BackboneError;
use crate::log::position::LogPosition;
use crate::moves::ownership::{Ownership, SessionId};
use crate::node_epoch::NodeStreamId;
use crate::node_stream::change;
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::test_server::TestServer;

const FAILED: NodeStreamId = NodeStreamId { node: 9, epoch: 5 };
/// A node that has begun to adopt the sessions of the other one.
const ADOPTER: NodeStreamId = NodeStreamId { node: 8, epoch: 6 };

const fn failed(id: NodeStreamId) -> FailedStream {
    FailedStream {
        id,
        is_only: true,
        may_wait: true,
    }
}

/// The key of a session.
async fn key(context: &MoveContext, client: &str) -> Ownership {
    let id = SessionId::of(&name(client));
    let found = context.directory.find_at_leader(id).await;
    found.expect("it is read").expect("a key").0
}

/// Writes the key of a session of the failed node that another node has begun to adopt.
async fn write_key_of(adopter: NodeStreamId, context: &MoveContext, client: &str) -> Ownership {
    let ownership = Ownership::first(FAILED).taken_over(adopter);
    let id = SessionId::of(&name(client));
    let created = context.directory.create(id, &ownership).await;
    created.expect("written").expect("there was no key");
    ownership
}

fn row(number: u64, client: &str) -> SessionRow {
    SessionRow {
        number,
        client: client.to_owned(),
        user: None,
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        ended: None,
        sent: Some(0),
        will: None,
    }
}

/// Writes the stream of a failed node, with sessions of these clients and other changes.
async fn write_stream(
    node: &TestNode,
    id: NodeStreamId,
    clients: &[&str],
    more: Vec<SessionChange>,
) {
    let shared = &node.context.shared;
    let mut body = BytesMut::new();
    let mut push = |change| change::push(&mut body, &StoreChange::Session(change));
    for (number, client) in (1..).zip(clients) {
        push(SessionChange::Put(Box::new(row(number, client))));
        for row in session(client, number).subscriptions {
            push(SessionChange::Subscribe(Box::new(row)));
        }
    }
    more.into_iter().for_each(push);
    change::push(&mut body, &LogPosition::after(node.stream, 0).put(1));
    let config = async_nats::jetstream::stream::Config {
        name: shared.subjects.node_stream_name(id),
        subjects: vec![shared.subjects.node_stream(id)],
        ..Default::default()
    };
    let engine = &node.context.engine;
    engine.create_stream(config).await.expect("a stream");
    let kinds = [
        MessageKind::Begin,
        MessageKind::Changes,
        MessageKind::SnapshotEnd,
    ];
    for (number, kind) in (0..).zip(kinds) {
        let body = match kind {
            MessageKind::Changes => body.split().freeze(),
            _ => bytes::Bytes::new(),
        };
        let message = StreamMessage {
            kind,
            run: 1,
            number,
            body,
        };
        let subject = shared.subjects.node_stream(id);
        let sent = engine.publish(subject, message.bytes()).await;
        sent.expect("sent").await.expect("stored");
    }
}

#[tokio::test]
async fn sessions_whose_adoption_was_interrupted_are_adopted_by_the_next_attempt() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    node.set_position(0);
    write_stream(&node, FAILED, &["keyed", "keyless"], Vec::new()).await;
    let (keyed, keyless) = (
        SessionId::of(&name("keyed")),
        SessionId::of(&name("keyless")),
    );
    let directory = &node.context.directory;
    let first = Ownership::first(FAILED);
    let created = directory.create(keyed, &first).await.expect("written");
    created.expect("there was no key");
    // The connection ends after the keys were written, before the sessions are stored.
    node.waiting = None;
    let interrupted = take_over(&node.context, failed(FAILED)).await;
    interrupted.expect_err("no session can join");
    for client in ["keyed", "keyless"] {
        let found = key(&node.context, client).await;
        assert_eq!((found.owner, found.sources.len()), (1, 1), "{found:?}");
        assert_eq!(found.sources[0].node, FAILED.node);
    }
    node.reconnect();
    let running = node.adopt_sessions();
    let taken = take_over(&node.context, failed(FAILED)).await;
    taken.expect("the sessions are adopted");
    for (client, id) in [("keyed", keyed), ("keyless", keyless)] {
        let found = key(&node.context, client).await;
        assert_eq!((found.owner, found.sources.len()), (1, 0), "{found:?}");
        assert_eq!(node.context.shared.moves.own_claim(id), Some(found.claim));
        let moved = node.release(&name(client)).expect("the session is here");
        assert_eq!(moved.subscriptions.len(), 1);
    }
    assert!(!running.is_finished());
}

#[tokio::test]
async fn sessions_whose_adopter_fails_as_well_are_adopted_by_another_node() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    node.set_position(0);
    write_stream(&node, FAILED, &["begun", "untouched"], Vec::new()).await;
    write_stream(&node, ADOPTER, &["own"], Vec::new()).await;
    let context = node.context.clone();
    let begun = write_key_of(ADOPTER, &context, "begun").await;
    // The failed node does not have this session any more.
    let gone = write_key_of(ADOPTER, &context, "gone").await;
    let running = node.adopt_sessions();

    // Only the stream of the adopter says whether the session is there.
    let waits = take_over(&context, failed(FAILED)).await;
    assert_eq!(waits, Err(BackboneError::AdoptedLater(ADOPTER.node)));
    assert_eq!(key(&context, "begun").await, begun);
    assert_eq!(
        key(&context, "untouched").await.owner,
        1,
        "it does not wait"
    );
    let taken = take_over(&context, failed(ADOPTER)).await;
    taken.expect("the sessions are adopted");
    assert_eq!(key(&context, "own").await.owner, 1);
    assert_eq!(
        key(&context, "begun").await,
        begun,
        "it is left to the other stream"
    );
    assert_eq!(gone.owner, ADOPTER.node);
    let taken = take_over(&context, failed(FAILED)).await;
    taken.expect("the sessions are adopted");

    for client in ["begun", "untouched", "own"] {
        let found = key(&context, client).await;
        assert_eq!((found.owner, found.sources.len()), (1, 0), "{found:?}");
        let moved = node.release(&name(client)).expect("the session is here");
        assert_eq!(moved.subscriptions.len(), 1);
    }
    let none = context
        .directory
        .find_at_leader(SessionId::of(&name("gone")));
    assert_eq!(none.await.expect("read"), None, "no node has it");
    assert!(!running.is_finished());
}

#[tokio::test]
async fn a_running_node_is_asked_whether_it_has_a_session_that_it_began_to_adopt() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    let other = TestNode::start(&server, 2).await;
    node.set_position(0);
    other.context.shared.set_epoch(3);
    let record = other.context.shared.record();
    node.context.shared.known_nodes.note_alive(record);
    let questions = other.context.shared.subjects.session_questions(2);
    let questions = other.context.client.subscribe(questions).await;
    let answers = releasing::run(other.context.clone(), questions.expect("subscribed"));
    let answers = tokio::spawn(answers);
    other.context.client.flush().await.expect("flushed");
    write_stream(&node, FAILED, &["held", "denied"], Vec::new()).await;
    let context = node.context.clone();
    let begun_by = other.context.shared.stream_id();
    let held = write_key_of(begun_by, &context, "held").await;
    write_key_of(begun_by, &context, "denied").await;
    let own = &other.context.shared.moves.own;
    own.lock().insert(SessionId::of(&name("held")), held.claim);
    let running = node.adopt_sessions();
    let taken = take_over(&context, failed(FAILED)).await;
    taken.expect("the sessions are adopted");
    let found = key(&context, "held").await;
    assert_eq!((found.owner, found.claim), (2, held.claim));
    assert!(node.release(&name("held")).is_none());
    let found = key(&context, "denied").await;
    assert_eq!((found.owner, found.sources.len()), (1, 0), "{found:?}");
    node.release(&name("denied")).expect("the session is here");
    assert!(!running.is_finished() && !answers.is_finished());
}

#[tokio::test]
async fn a_kept_will_comes_once_beside_the_live_session_of_its_client() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let mut node = TestNode::start(&server, 1).await;
    node.set_position(0);
    let topic = Topic::new("will").expect("a topic");
    let mut keeper = row(9, "client");
    (keeper.expiry, keeper.ended) = (Duration::ZERO, Some(SystemTime::now()));
    keeper.will = Some(WillRow {
        message: 7,
        delay: Duration::ZERO,
    });
    let will = vec![
        SessionChange::Message {
            number: 7,
            publication: Arc::new(Publication::new(topic, "gone")),
        },
        SessionChange::Put(Box::new(keeper)),
    ];
    write_stream(&node, FAILED, &["client"], will).await;
    let broker = node.context.broker.clone();
    let filters = [TopicFilter::new("will").expect("a filter")];
    let mut reader = broker.subscribe_stream(&filters, ReaderOptions::default());
    let running = node.adopt_sessions();
    let taken = take_over(&node.context, failed(FAILED)).await;
    taken.expect("the session is adopted");
    broker.tick(0);
    let published = reader.try_next();
    assert!(
        matches!(&published, Some(StreamEvent::Publication(one)) if &one.payload[..] == b"gone"),
        "{published:?}"
    );
    broker.tick(1);
    assert!(reader.try_next().is_none());
    let moved = node.release(&name("client")).expect("the session is here");
    assert_eq!((moved.number, moved.subscriptions.len()), (1, 1));
    assert!(!running.is_finished());
}

#[tokio::test]
async fn a_claim_to_a_stream_ends_when_another_node_has_the_key() {
    let Some(server) = TestServer::start() else {
        return;
    };
    let node = TestNode::start(&server, 1).await;
    let (nodes, key) = (&node.context.nodes, "adopting.9.5");
    let revision = nodes.create(key, "1".into()).await.expect("created");
    let mut claim = StreamClaim {
        nodes,
        key,
        value: "1".into(),
        revision,
    };
    assert!(!claim.is_lost().await);
    // The answer to this update was lost.
    let changed = nodes.update(key, "1".into(), revision).await;
    assert!(!claim.is_lost().await);
    assert_eq!(claim.revision, changed.expect("updated"));
    nodes.put(key, "2".into()).await.expect("written");
    assert!(claim.is_lost().await);
}
