//! Sessions of a failed node whose adoption is interrupted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use gatepost_broker::{ReaderOptions, StreamEvent};
use gatepost_message::{Publication, Topic, TopicFilter};
use gatepost_store::{SessionChange, SessionRow, StoreChange, WillRow};

use super::super::failed_nodes::StreamClaim;
use super::super::taking_over::take_over;
use super::nodes::{TestNode, name, session};
use crate::log::position::LogPosition;
use crate::moves::ownership::{Ownership, SessionId};
use crate::node_epoch::NodeStreamId;
use crate::node_stream::change;
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::test_server::TestServer;

const FAILED: NodeStreamId = NodeStreamId { node: 9, epoch: 5 };

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

/// Writes the stream of the failed node, with sessions of these clients and other changes.
async fn write_stream(node: &TestNode, clients: &[&str], more: Vec<SessionChange>) {
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
        name: shared.subjects.node_stream_name(FAILED),
        subjects: vec![shared.subjects.node_stream(FAILED)],
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
        let subject = shared.subjects.node_stream(FAILED);
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
    write_stream(&node, &["keyed", "keyless"], Vec::new()).await;
    let (keyed, keyless) = (
        SessionId::of(&name("keyed")),
        SessionId::of(&name("keyless")),
    );
    let directory = node.context.directory.clone();
    let first = Ownership::first(FAILED);
    let created = directory.create(keyed, &first).await.expect("written");
    created.expect("there was no key");
    // The connection ends after the keys were written, before the sessions are stored.
    node.waiting = None;
    let interrupted = take_over(&node.context, FAILED, true).await;
    interrupted.expect_err("no session can join");
    let find = async |id| {
        let found = directory.find_at_leader(id).await.expect("it is read");
        found.expect("a key").0
    };
    for id in [keyed, keyless] {
        let found = find(id).await;
        assert_eq!((found.owner, found.sources.len()), (1, 1), "{found:?}");
        assert_eq!(found.sources[0].node, FAILED.node);
    }
    node.reconnect();
    let running = node.adopt_sessions();
    let taken = take_over(&node.context, FAILED, true).await;
    taken.expect("the sessions are adopted");
    for (client, id) in [("keyed", keyed), ("keyless", keyless)] {
        let found = find(id).await;
        assert_eq!((found.owner, found.sources.len()), (1, 0), "{found:?}");
        assert_eq!(node.context.shared.moves.own_claim(id), Some(found.claim));
        let moved = node.release(&name(client)).expect("the session is here");
        assert_eq!(moved.subscriptions.len(), 1);
    }
    assert!(!running.is_finished());
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
    write_stream(&node, &["client"], will).await;
    let broker = node.context.broker.clone();
    let filters = [TopicFilter::new("will").expect("a filter")];
    let mut reader = broker.subscribe_stream(&filters, ReaderOptions::default());
    let running = node.adopt_sessions();
    let taken = take_over(&node.context, FAILED, true).await;
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
