//! The nodes that have joined the cluster, whether they are running or not.
//!
//! Each node has a key in a bucket whose keys do not expire. So a node that is not running is
//! still known, and the result of a question to all nodes can name those that did not answer.
//! `gatepost nodes forget` removes a key.

use std::collections::BTreeSet;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store};
use async_nats::jetstream::{Context, stream::StorageType};
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::Mutex;

use crate::error::BackboneError;
use crate::membership::make_bucket;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The members of the cluster, as far as this node knows them.
#[derive(Default)]
pub(crate) struct Members(Mutex<BTreeSet<u8>>);

impl Members {
    /// The members, by number.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.lock().iter().copied().collect()
    }

    fn note(&self, entry: &kv::Entry) {
        let node = entry.key.strip_prefix("node.");
        let Some(node) = node.and_then(|number| number.parse().ok()) else {
            return;
        };
        if entry.operation == Operation::Put {
            self.0.lock().insert(node);
        } else {
            self.0.lock().remove(&node);
        }
    }
}

fn key_of(node: u8) -> String {
    format!("node.{node}")
}

/// The bucket, which is made if it is not there, with the key of this node in it.
pub(crate) async fn join(
    context: &Context,
    subjects: &Subjects,
    settings: &BackboneSettings,
    node: u8,
) -> Result<Store, BackboneError> {
    let name = subjects.stream("MEMBERS");
    let bucket = match context.get_key_value(name.clone()).await {
        Ok(bucket) => bucket,
        Err(_) => make_bucket(context, config_of(name, settings)).await?,
    };
    match bucket.create(key_of(node), Bytes::new()).await {
        Err(error) if error.kind() != CreateErrorKind::AlreadyExists => {
            Err(BackboneError::request("joining the cluster", error))
        }
        _ => Ok(bucket),
    }
}

fn config_of(name: String, settings: &BackboneSettings) -> kv::Config {
    kv::Config {
        description: "the nodes of a Gatepost cluster, running or not".to_owned(),
        bucket: name,
        storage: StorageType::File,
        history: 1,
        num_replicas: usize::from(settings.replicas),
        ..kv::Config::default()
    }
}

/// Follows the members until that fails.
pub(crate) async fn watch(bucket: Store, members: &Members) -> BackboneError {
    let mut watch = match bucket.watch_with_history("node.*").await {
        Ok(watch) => watch,
        Err(error) => return BackboneError::request("watching the members", error),
    };
    while let Some(entry) = watch.next().await {
        match entry {
            Ok(entry) => members.note(&entry),
            Err(error) => return BackboneError::request("watching the members", error),
        }
    }
    BackboneError::Lost("the watch of the members ended".to_owned())
}

/// Removes a node that does not return.
pub(crate) async fn forget(
    context: &Context,
    subjects: &Subjects,
    node: u8,
) -> Result<(), BackboneError> {
    // Without the bucket, no node has joined.
    let Ok(bucket) = context.get_key_value(subjects.stream("MEMBERS")).await else {
        return Ok(());
    };
    let removed = bucket.delete(key_of(node)).await;
    removed.map_err(|error| BackboneError::request("forgetting the node", error))
}
