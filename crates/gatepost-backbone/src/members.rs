//! The nodes that have joined the cluster, whether they are running or not.
//!
//! Each node has a key in a bucket whose keys do not expire. So a node that is not running is
//! still known, with its version, and the result of a question to all nodes can name those that
//! did not answer. `gatepost nodes forget` removes a key.

use std::collections::BTreeMap;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store};
use async_nats::jetstream::{Context, stream::StorageType};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gatepost_broker::MemberNode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::encoding::VERSION;
use crate::error::BackboneError;
use crate::membership::make_bucket;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The members of the cluster, as far as this node knows them.
#[derive(Default)]
pub(crate) struct Members(Mutex<BTreeMap<u8, MemberRecord>>);

/// A node that may not be running. Later versions only add fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The version of Gatepost with which it joined last.
    pub(crate) version: String,
    /// The latest encoding that this version reads.
    pub(crate) encoding: u8,
}

impl MemberRecord {
    /// The record of this version.
    fn present() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            encoding: VERSION,
        }
    }

    pub(crate) fn value(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// The record of a key; empty if it cannot be read.
    pub(crate) fn read(value: &[u8]) -> Self {
        serde_json::from_slice(value).unwrap_or_default()
    }

    fn of_node(self, node: u8) -> MemberNode {
        MemberNode {
            node,
            version: self.version,
            encoding: self.encoding,
        }
    }
}

impl Members {
    /// The members, by number.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.lock().keys().copied().collect()
    }

    /// The members with their versions.
    pub(crate) fn described(&self) -> Vec<MemberNode> {
        let known = self.0.lock();
        let records = known.iter();
        records
            .map(|(node, record)| record.clone().of_node(*node))
            .collect()
    }

    fn note(&self, entry: &kv::Entry) {
        let Some(node) = node_of(&entry.key) else {
            return;
        };
        if entry.operation == Operation::Put {
            self.0.lock().insert(node, MemberRecord::read(&entry.value));
        } else {
            self.0.lock().remove(&node);
        }
    }
}

fn key_of(node: u8) -> String {
    format!("node.{node}")
}

fn node_of(key: &str) -> Option<u8> {
    key.strip_prefix("node.")?.parse().ok()
}

/// The members in the bucket, by number.
pub(crate) async fn list(
    context: &Context,
    subjects: &Subjects,
) -> Result<Vec<MemberNode>, BackboneError> {
    let failed = |error: &dyn std::fmt::Display| {
        BackboneError::request("reading the members", error.to_string())
    };
    // Without the bucket, no node has joined.
    let Ok(bucket) = context.get_key_value(subjects.stream("MEMBERS")).await else {
        return Ok(Vec::new());
    };
    let keys = bucket.keys().await.map_err(|error| failed(&error))?;
    let keys: Vec<String> = keys.try_collect().await.map_err(|error| failed(&error))?;
    let mut members = Vec::new();
    for (node, key) in keys.iter().filter_map(|key| Some((node_of(key)?, key))) {
        let value = bucket.get(key).await.map_err(|error| failed(&error))?;
        members.extend(value.map(|value| MemberRecord::read(&value).of_node(node)));
    }
    members.sort_by_key(|member| member.node);
    Ok(members)
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
    let (key, value) = (key_of(node), MemberRecord::present().value());
    let joined = match bucket.create(&key, value.clone()).await {
        Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
            // After an upgrade, the version is another one.
            bucket.put(&key, value).await.map(|_| ())
        }
        Err(error) => return Err(BackboneError::request("joining the cluster", error)),
        Ok(_) => Ok(()),
    };
    joined.map_err(|error| BackboneError::request("joining the cluster", error))?;
    Ok(bucket)
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
