//! Which nodes are alive, and the claim of this server to its number.
//!
//! Each node has a key in a bucket whose keys expire. It creates the key, which fails if another
//! has it, and renews it by compare-and-set. A key that is not renewed ends by itself, so a server
//! that was killed leaves its number free after [`LEASE`]. A later server that uses the same
//! database takes the key over at once, since only one server at a time can use a database.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store};
use async_nats::jetstream::{Context, stream::StorageType};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gatepost_broker::LiveNode;
use gatepost_message::MessageId;
use gatepost_store::{StoreChange, StoreError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::BackboneError;
use crate::node_epoch::NodeStreamId;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The time after which a key ends that was not renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The interval of renewals.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(3);
/// A key of another server that is renewed within this time has a living owner.
const OBSERVED_FOR: Duration = Duration::from_millis(4_500);
/// The interval at which the key is read meanwhile.
const OBSERVED_EVERY: Duration = Duration::from_millis(250);

/// The words by which a node makes itself known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its number.
    pub node: u8,
    /// The name of its machine.
    pub host: String,
    /// The number of its process there.
    pub process: u32,
    /// The time of its start, in milliseconds since 1970, which is its run.
    pub started_unix_ms: u64,
    /// Its version.
    pub version: String,
    /// The number of the database that it uses; 0 if it is not known.
    #[serde(default)]
    pub database: u64,
    /// The epoch of its stream; 0 if it is not known.
    #[serde(default)]
    pub epoch: u64,
    /// The latest encoding that it reads; 0 if it is not known.
    #[serde(default)]
    pub encoding: u8,
}

/// The key space of the number of the database.
const DATABASE_SPACE: &str = "backbone.database";

/// The number of this server's database, which is given at the first call.
pub(crate) fn database_number(database: &gatepost_store::Store) -> Result<u64, StoreError> {
    let found = database.record(DATABASE_SPACE, b"")?;
    if let Some(number) = found.and_then(|value| value.as_ref().try_into().ok()) {
        return Ok(u64::from_be_bytes(number));
    }
    let number = MessageId::next().number();
    // If it is lost in a crash, the next server waits for the end of the key.
    database.submit([StoreChange::PutRecord {
        space: DATABASE_SPACE,
        key: Bytes::new(),
        value: Bytes::copy_from_slice(&number.to_be_bytes()),
    }])?;
    Ok(number)
}

impl NodeRecord {
    /// The record of a node whose own record cannot be read, such as that of a later version.
    const fn unreadable(node: u8) -> Self {
        Self {
            node,
            host: String::new(),
            process: 0,
            started_unix_ms: 0,
            version: String::new(),
            database: 0,
            epoch: 0,
            encoding: 0,
        }
    }

    /// The record of a node. Later versions only add fields.
    pub(crate) fn read(node: u8, value: &[u8]) -> Self {
        let record = serde_json::from_slice(value);
        record.unwrap_or_else(|_| Self::unreadable(node))
    }

    /// Whether it writes this stream. A node whose record cannot be read may write any of its own.
    pub(crate) fn writes(&self, id: NodeStreamId) -> bool {
        id.node == self.node && (id.epoch == self.epoch || self.version.is_empty())
    }

    fn holder(&self) -> String {
        format!("{}, process {}", self.host, self.process)
    }

    /// Whether this is the record of an earlier connection of this server, or of an earlier server
    /// that used the same database. A copy of a database has its number as well: then the server
    /// that was started last counts.
    fn is_earlier(&self, other: &Self) -> bool {
        let is_of_database = self.database != 0 && other.database == self.database;
        other == self || is_of_database && other.started_unix_ms < self.started_unix_ms
    }

    fn key(&self) -> String {
        key_of(self.node)
    }

    pub(crate) fn value(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

impl From<NodeRecord> for LiveNode {
    fn from(record: NodeRecord) -> Self {
        Self {
            node: record.node,
            host: record.host,
            version: record.version,
            encoding: record.encoding,
            started_unix_ms: record.started_unix_ms,
        }
    }
}

fn key_of(node: u8) -> String {
    format!("node.{node}")
}

/// The bucket, if it exists.
pub(crate) async fn existing_bucket(context: &Context, subjects: &Subjects) -> Option<Store> {
    context.get_key_value(subjects.stream("NODES")).await.ok()
}

/// The bucket, which is made if it is not there.
async fn bucket(
    context: &Context,
    subjects: &Subjects,
    settings: &BackboneSettings,
) -> Result<Store, BackboneError> {
    if let Some(bucket) = existing_bucket(context, subjects).await {
        return Ok(bucket);
    }
    let name = subjects.stream("NODES");
    let config = kv::Config {
        bucket: name,
        description: "the nodes of a Gatepost cluster that are alive".to_owned(),
        history: 1,
        max_age: LEASE,
        storage: StorageType::File,
        num_replicas: usize::from(settings.replicas),
        ..kv::Config::default()
    };
    make_bucket(context, config).await
}

pub(crate) async fn make_bucket(
    context: &Context,
    config: kv::Config,
) -> Result<Store, BackboneError> {
    let (stream, replicas) = (config.bucket.clone(), config.num_replicas as u8);
    let made = context.create_key_value(config).await;
    made.map_err(|error| BackboneError::Stream {
        stream,
        replicas,
        cause: error.to_string(),
    })
}

/// The claim of this server to its number.
pub(crate) struct Claim {
    bucket: Store,
    record: NodeRecord,
    revision: u64,
}

impl Claim {
    /// Takes the number. Waits for a while where another server has it, to see whether that lives.
    pub(crate) async fn take(
        context: &Context,
        subjects: &Subjects,
        settings: &BackboneSettings,
        record: NodeRecord,
    ) -> Result<Self, BackboneError> {
        let bucket = bucket(context, subjects, settings).await?;
        let observed_until = Instant::now() + OBSERVED_FOR;
        let mut first_seen = None;
        loop {
            match bucket.create(record.key(), record.value()).await {
                Ok(revision) => {
                    return Ok(Self {
                        bucket,
                        record,
                        revision,
                    });
                }
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {}
                Err(error) => return Err(BackboneError::request("claiming the number", error)),
            }
            let found = bucket.entry(record.key()).await;
            let found =
                found.map_err(|error| BackboneError::request("reading the nodes", error))?;
            let Some(found) = found.filter(|entry| entry.operation == Operation::Put) else {
                continue;
            };
            let other: Option<NodeRecord> = serde_json::from_slice(&found.value).ok();
            let node = record.node;
            if other.as_ref().is_some_and(|other| record.is_earlier(other)) {
                let update = bucket.update(record.key(), record.value(), found.revision);
                if let Ok(revision) = update.await {
                    return Ok(Self {
                        bucket,
                        record,
                        revision,
                    });
                }
                continue;
            }
            let holder = other.map_or_else(|| "unknown".to_owned(), |other| other.holder());
            if *first_seen.get_or_insert(found.revision) != found.revision {
                return Err(BackboneError::Taken { node, holder });
            }
            if Instant::now() >= observed_until {
                return Err(BackboneError::Held { node, holder });
            }
            tokio::time::sleep(OBSERVED_EVERY).await;
        }
    }

    /// Renews the claim until that fails.
    pub(crate) async fn keep(mut self) -> BackboneError {
        let mut ticks = tokio::time::interval(RENEW_EVERY);
        let mut renewed = Instant::now();
        loop {
            ticks.tick().await;
            let key = self.record.key();
            let update = self.bucket.update(&key, self.record.value(), self.revision);
            match update.await {
                Ok(revision) => {
                    self.revision = revision;
                    renewed = Instant::now();
                }
                // An election of the engine takes some seconds.
                Err(error) if renewed.elapsed() >= LEASE => {
                    return BackboneError::request("renewing the claim to the number", error);
                }
                Err(error) => {
                    tracing::debug!(target: "backbone", %error, "the claim is not renewed yet");
                    self.revision = self.revision_now().await.unwrap_or(self.revision);
                }
            }
        }
    }

    /// The revision of the key, if it is this server's: an update whose answer was lost has
    /// changed it.
    async fn revision_now(&self) -> Option<u64> {
        let entry = self.bucket.entry(self.record.key()).await.ok()??;
        let is_ours = entry.value == self.record.value();
        is_ours.then_some(entry.revision)
    }

    pub(crate) fn bucket(&self) -> Store {
        self.bucket.clone()
    }
}

/// Watches the other nodes until that fails.
pub(crate) async fn watch(bucket: Store, known: &KnownNodes) -> BackboneError {
    let mut watch = match bucket.watch_with_history("node.*").await {
        Ok(watch) => watch,
        Err(error) => return BackboneError::request("watching the nodes", error),
    };
    while let Some(entry) = watch.next().await {
        match entry {
            Ok(entry) => known.note(&entry),
            Err(error) => return BackboneError::request("watching the nodes", error),
        }
    }
    BackboneError::Lost("the watch of the nodes ended".to_owned())
}

/// Ends the claim of a server that stops.
pub(crate) async fn release(bucket: &Store, node: u8) {
    if let Err(error) = bucket.delete(key_of(node)).await {
        tracing::debug!(target: "backbone", %error, "the claim ends by itself");
    }
}

/// The nodes of a cluster that are alive, by number.
pub(crate) async fn list(bucket: &Store) -> Result<Vec<NodeRecord>, BackboneError> {
    let failed = |error: &dyn std::fmt::Display| {
        BackboneError::request("reading the nodes", error.to_string())
    };
    let keys = bucket.keys().await.map_err(|error| failed(&error))?;
    let keys: Vec<String> = keys.try_collect().await.map_err(|error| failed(&error))?;
    let mut nodes = Vec::new();
    for key in keys {
        // The other keys are claims to streams.
        let node = key.strip_prefix("node.");
        let Some(node) = node.and_then(|number| number.parse().ok()) else {
            continue;
        };
        let value = bucket.get(key).await.map_err(|error| failed(&error))?;
        nodes.extend(value.map(|value| NodeRecord::read(node, &value)));
    }
    nodes.sort_by_key(|record| record.node);
    Ok(nodes)
}

/// Another node.
struct OtherNode {
    record: NodeRecord,
    heard: Instant,
    /// Whether it has left a question unanswered since its last sign of life.
    is_silent: bool,
}

/// The other nodes.
pub(crate) struct KnownNodes {
    node: u8,
    heard: Mutex<BTreeMap<u8, OtherNode>>,
}

impl KnownNodes {
    pub(crate) const fn new(node: u8) -> Self {
        Self {
            node,
            heard: Mutex::new(BTreeMap::new()),
        }
    }

    fn note(&self, entry: &kv::Entry) {
        let node = entry.key.strip_prefix("node.");
        let Some(node) = node.and_then(|number| number.parse().ok()) else {
            return;
        };
        if entry.operation == Operation::Put {
            self.note_alive(NodeRecord::read(node, &entry.value));
        } else {
            self.heard.lock().remove(&node);
        }
    }

    pub(crate) fn note_alive(&self, record: NodeRecord) {
        if record.node != self.node {
            let node = record.node;
            let other = OtherNode {
                record,
                heard: Instant::now(),
                is_silent: false,
            };
            self.heard.lock().insert(node, other);
        }
    }

    /// The nodes that are alive, by number.
    pub(crate) fn alive(&self) -> Vec<NodeRecord> {
        let mut heard = self.heard.lock();
        heard.retain(|_, other| other.heard.elapsed() < LEASE);
        heard.values().map(|other| other.record.clone()).collect()
    }

    /// The nodes that answer questions.
    pub(crate) fn answering(&self) -> Vec<u8> {
        let mut heard = self.heard.lock();
        heard.retain(|_, other| other.heard.elapsed() < LEASE);
        let answering = heard.iter().filter(|(_, other)| !other.is_silent);
        answering.map(|(node, _)| *node).collect()
    }

    /// These nodes did not answer: they get no further requests until they reappear.
    pub(crate) fn note_silent(&self, nodes: &[u8]) {
        let mut heard = self.heard.lock();
        for node in nodes {
            if let Some(other) = heard.get_mut(node) {
                other.is_silent = true;
            }
        }
    }

    pub(crate) fn forget(&self) {
        self.heard.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_follows_an_earlier_one_of_its_database() {
        let record = |started_unix_ms, database| NodeRecord {
            started_unix_ms,
            database,
            ..NodeRecord::unreadable(1)
        };
        assert!(record(2, 7).is_earlier(&record(1, 7)));
        assert!(record(2, 7).is_earlier(&record(2, 7)));
        for other in [record(3, 7), record(1, 8), record(1, 0)] {
            assert!(!record(2, 7).is_earlier(&other), "{other:?}");
        }
        assert!(
            !record(2, 0).is_earlier(&record(1, 0)),
            "an earlier version"
        );
    }

    #[tokio::test]
    async fn a_database_keeps_its_number() {
        let store = gatepost_store::Store::in_memory().expect("a store");
        let number = database_number(&store).expect("stored");
        store.flush().await;
        assert_eq!(database_number(&store).expect("read"), number);
    }

    #[test]
    fn a_silent_node_is_queried_again_when_it_reappears() {
        let known = KnownNodes::new(1);
        for node in [1, 2, 3] {
            known.note_alive(NodeRecord::unreadable(node));
        }
        assert_eq!(known.answering(), [2, 3]);
        known.note_silent(&[2]);
        assert_eq!(known.answering(), [3]);
        let alive: Vec<u8> = known.alive().iter().map(|record| record.node).collect();
        assert_eq!(alive, [2, 3]);
        known.note_alive(NodeRecord::unreadable(2));
        assert_eq!(known.answering(), [2, 3]);
        known.forget();
        assert!(known.alive().is_empty());
    }
}
