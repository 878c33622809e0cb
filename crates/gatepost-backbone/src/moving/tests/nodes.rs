//! Nodes without their connections to clients, and what they write.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, kv};
use bytes::Bytes;
use gatepost_broker::{
    Authorization, Broker, BrokerSettings, LoggedPublication, MovedSession, OtherNodes,
    OwnerRights, SessionName, SessionRelease, TopicRules,
};
use gatepost_message::{NodeNumber, Publication, Qos, Topic, TopicFilter};
use gatepost_store::{Store, SubscriptionRow};
use tokio::sync::mpsc;

use super::super::adopting::{self, AdoptionRequest};
use super::super::{ADOPTIONS_MAX, MoveContext};
use crate::encoding;
use crate::error::BackboneError;
use crate::log::entry;
use crate::log::position::LogPosition;
use crate::log_streams;
use crate::membership;
use crate::moves::directory::Directory;
use crate::records::view::RecordsView;
use crate::settings::BackboneSettings;
use crate::shared::Shared;
use crate::test_server::TestServer;

/// Anything is allowed.
struct AllRights;

impl Authorization for AllRights {
    fn may_receive(&self, _: &str) -> bool {
        true
    }

    fn may_publish(&self, _: &str, _: bool) -> bool {
        true
    }
}

impl OwnerRights for AllRights {
    fn of_owner(&self, _: Option<&str>, _: &str) -> Arc<dyn Authorization> {
        Arc::new(Self)
    }
}

pub(super) struct TestNode {
    pub(super) context: MoveContext,
    pub(super) waiting: Option<mpsc::Receiver<AdoptionRequest>>,
    /// The number of the only partition's stream.
    pub(super) stream: u64,
}

impl TestNode {
    pub(super) async fn start(server: &TestServer, number: u8) -> Self {
        let settings = BackboneSettings {
            nats: vec![server.url()],
            replicas: 1,
            ..BackboneSettings::default()
        };
        let store = Store::in_memory().expect("a store");
        let records = Arc::new(RecordsView::new(&[], false));
        let node = NodeNumber::new(number.into()).expect("a number");
        let shared = Shared::new(settings.clone(), node, store.clone(), records);
        let shared = Arc::new(shared.expect("it is read"));
        let nodes: Arc<dyn OtherNodes> = shared.clone();
        let rights = Arc::new(AllRights);
        let broker = Broker::open_as_node(
            BrokerSettings::default(),
            store,
            rights.as_ref(),
            Some(nodes),
            TopicRules::default(),
        );
        let client = server.connect().await;
        let engine = jetstream::new(client.clone());
        let log = log_streams::open(&shared, &engine).await.expect("a log");
        let directory = Directory::open(&engine, &shared.subjects, &settings).await;
        let config = kv::Config {
            bucket: shared.subjects.stream("NODES"),
            ..kv::Config::default()
        };
        let bucket = match membership::existing_bucket(&engine, &shared.subjects).await {
            Some(bucket) => bucket,
            None => membership::make_bucket(&engine, config)
                .await
                .expect("made"),
        };
        let (adoptions, waiting) = mpsc::channel(ADOPTIONS_MAX);
        Self {
            stream: log[0].number,
            context: MoveContext {
                shared,
                broker: broker.expect("a broker"),
                client,
                directory: directory.expect("a directory"),
                log: Arc::new(log.into_iter().map(|one| one.stream).collect()),
                adoptions,
                engine,
                nodes: bucket,
                rights,
            },
            waiting: Some(waiting),
        }
    }

    /// The node has delivered the log up to an entry.
    pub(super) fn set_position(&self, sequence: u64) {
        let partition = &self.context.shared.log.partitions[0];
        let position = LogPosition::after(self.stream, sequence);
        partition.progress.set(position);
        partition.note_read();
    }

    /// Appends entries with one publication each; returns the sequence of the last one.
    pub(super) async fn append(&self, topics: impl Iterator<Item = String>) -> u64 {
        let shared = &self.context.shared;
        let subject = shared.subjects.partition(1);
        for topic in topics {
            let mut bytes = encoding::begin(shared.next_origin());
            let topic = Topic::new(&topic).expect("a topic");
            let mut publication = Publication::new(topic, Bytes::from_static(b"x"));
            publication.qos = Qos::AtLeastOnce;
            let logged = LoggedPublication {
                publication: Arc::new(publication),
                session: None,
                passed_on: None,
            };
            entry::push(&mut bytes, &logged, false);
            let sent = self.context.client.publish(subject.clone(), bytes.freeze());
            sent.await.expect("sent");
        }
        crate::log_end::append(shared, &self.context.engine, 1)
            .await
            .expect("appended")
    }

    /// Lets sessions join, as a connection does.
    pub(super) fn adopt_sessions(&mut self) -> tokio::task::JoinHandle<BackboneError> {
        let waiting = self.waiting.take().expect("once");
        tokio::spawn(adopting::run(self.context.clone(), waiting))
    }

    /// A connection begins after another one.
    pub(super) fn reconnect(&mut self) {
        let (adoptions, waiting) = mpsc::channel(ADOPTIONS_MAX);
        self.context.adoptions = adoptions;
        self.waiting = Some(waiting);
    }

    /// Ends a session here; returns what it had.
    pub(super) fn release(&self, name: &SessionName) -> Option<MovedSession> {
        let mut moved = None;
        let released = self.context.broker.release_session(name, |session| {
            moved = Some(session.clone());
            Vec::new()
        });
        assert!(!matches!(released, SessionRelease::Busy), "{released:?}");
        moved
    }
}

pub(super) fn name(client: &str) -> SessionName {
    SessionName {
        user: None,
        client_id: client.into(),
    }
}

/// A session that subscribes to `in/#`.
pub(super) fn session(client: &str, number: u64) -> MovedSession {
    MovedSession {
        number,
        name: name(client),
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        sent: 0,
        subscriptions: vec![SubscriptionRow {
            session: number,
            filter: TopicFilter::new("in/#").expect("a filter"),
            qos: Qos::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            identifier: None,
        }],
        received: Vec::new(),
        deliveries: Vec::new(),
    }
}
