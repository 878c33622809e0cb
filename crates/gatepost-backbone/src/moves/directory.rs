//! The directory: which node has a session, in a bucket of the engine.
//!
//! Each persistent session has a key, written by compare-and-set. Its value names the owner, the
//! number of the claim by which the owner got the session, and the earlier owners whose content the
//! owner may not have yet. A session without a key belongs to the node that creates it.
//!
//! Each owner is named with its epoch. A node that adopts the sessions of one epoch of a node
//! leaves those that the node got in a later epoch alone.

use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, StorageType};
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;
use futures_util::StreamExt as _;
use gatepost_broker::SessionName;
use gatepost_message::MessageId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::directory_writing::DirectoryWriter;
use crate::encoding::{self, EncodingError};
use crate::error::BackboneError;
use crate::node_epoch::NodeStreamId;
use crate::removed_keys::is_removal;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The time for which the engine remembers that a key was removed.
const REMOVED_FOR: Duration = Duration::from_hours(1);

/// The identifier of a session's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

impl SessionId {
    pub(crate) fn of(name: &SessionName) -> Self {
        let mut digest = Sha256::new();
        digest.update([u8::from(name.user.is_some())]);
        let user = name.user.as_deref().unwrap_or_default();
        digest.update((user.len() as u64).to_be_bytes());
        digest.update(user);
        digest.update(&*name.client_id);
        let digest: [u8; 32] = digest.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }

    pub(super) fn key(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    fn from_key(key: &str) -> Option<Self> {
        let number = u128::from_str_radix(key, 16).ok()?;
        (key.len() == 32).then(|| Self(number.to_be_bytes()))
    }
}

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ownership {
    /// The number of the claim, which rises with each.
    pub(crate) claim: u64,
    /// The node.
    pub(crate) owner: u8,
    /// The epoch of the node in which it got the session; 0 before its first one.
    #[serde(default)]
    pub(crate) epoch: u64,
    /// The earlier owners whose content the owner may not have yet, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<SessionSource>,
}

/// An earlier owner of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSource {
    /// The claim by which it had the session.
    pub(crate) claim: u64,
    /// The node.
    pub(crate) node: u8,
    /// The epoch of the node in which it got the session; 0 before its first one.
    #[serde(default)]
    pub(crate) epoch: u64,
}

impl Ownership {
    /// The ownership of a session that no node has. Its claim is later than those of all earlier
    /// sessions of the same name, since it begins with the time.
    pub(crate) fn first(owner: NodeStreamId) -> Self {
        Self {
            claim: MessageId::next().number(),
            owner: owner.node,
            epoch: owner.epoch,
            sources: Vec::new(),
        }
    }

    /// The ownership after a claim by a node that does not have the session. `takes_content` says
    /// whether the session continues.
    pub(crate) fn claimed_by(&self, by: NodeStreamId, takes_content: bool) -> Self {
        let mut sources = Vec::new();
        if takes_content {
            sources.extend((self.owner != by.node).then_some(self.as_source()));
            sources.extend(&self.sources);
        }
        self.next(by, sources)
    }

    /// The ownership after a node has got the session from an owner that has failed.
    pub(crate) fn taken_over(&self, by: NodeStreamId) -> Self {
        let mut sources = vec![self.as_source()];
        sources.extend(&self.sources);
        self.next(by, sources)
    }

    /// The ownership by the next claim.
    pub(crate) const fn next(&self, by: NodeStreamId, sources: Vec<SessionSource>) -> Self {
        Self {
            claim: self.claim + 1,
            owner: by.node,
            epoch: by.epoch,
            sources,
        }
    }

    const fn as_source(&self) -> SessionSource {
        SessionSource {
            claim: self.claim,
            node: self.owner,
            epoch: self.epoch,
        }
    }

    /// The ownership when the owner has the content.
    pub(crate) fn without_sources(&self) -> Self {
        Self {
            sources: Vec::new(),
            ..self.clone()
        }
    }

    /// The claim under which `node` has or had the session.
    pub(crate) fn claim_of(&self, node: u8) -> Option<u64> {
        let of_source = self.sources.iter().find(|source| source.node == node);
        let own = (self.owner == node).then_some(self.claim);
        own.or(of_source.map(|source| source.claim))
    }

    /// Whether a node has or had the session in this epoch or an earlier one.
    pub(crate) fn is_or_was_of(&self, stream: NodeStreamId) -> bool {
        let mut owners = std::iter::once(self.as_source()).chain(self.sources.iter().copied());
        owners.any(|owner| owner.node == stream.node && owner.epoch <= stream.epoch)
    }

    /// The value of a key.
    pub(crate) fn value(&self) -> Bytes {
        encoding::json(self)
    }

    /// Reads the value of a key.
    pub(crate) fn read(value: &[u8]) -> Result<Self, EncodingError> {
        encoding::read_json(value)
    }
}

/// The directory, over one connection.
#[derive(Clone)]
pub(crate) struct Directory {
    bucket: kv::Store,
    writer: DirectoryWriter,
}

impl Directory {
    fn new(context: &Context, bucket: kv::Store) -> Self {
        let writer = DirectoryWriter::start(context.clone(), bucket.clone());
        Self { bucket, writer }
    }

    /// The bucket, if it is there.
    pub(crate) async fn existing(context: &Context, subjects: &Subjects) -> Option<Self> {
        let bucket = existing_bucket(context, subjects).await?;
        Some(Self::new(context, bucket))
    }

    /// The bucket, which is made if it is not there.
    pub(crate) async fn open(
        context: &Context,
        subjects: &Subjects,
        settings: &BackboneSettings,
    ) -> Result<Self, BackboneError> {
        let mut bucket = match existing_bucket(context, subjects).await {
            Some(bucket) => bucket,
            None => make_bucket(context, subjects, settings).await?,
        };
        if !bucket.stream.cached_info().config.allow_atomic_publish {
            let mut config = bucket.stream.cached_info().config.clone();
            config.allow_atomic_publish = true;
            if let Err(error) = context.update_stream(config).await {
                tracing::debug!(target: "backbone", %error, "keys are written one at a time");
            }
            let _ = bucket.stream.info().await;
        }
        Ok(Self::new(context, bucket))
    }

    /// The owner of a session, with the revision of the key; `None` if there is no key.
    pub(crate) async fn find(
        &self,
        id: SessionId,
    ) -> Result<Option<(Ownership, u64)>, BackboneError> {
        let entry = self.bucket.entry(id.key()).await;
        let entry = entry.map_err(failed)?;
        let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) else {
            return Ok(None);
        };
        Ok(Some((read(&entry.value)?, entry.revision)))
    }

    /// As [`Directory::find`], from the leader of the engine: another server may be late, and not
    /// know a key or its last change.
    pub(crate) async fn find_at_leader(
        &self,
        id: SessionId,
    ) -> Result<Option<(Ownership, u64)>, BackboneError> {
        let subject = format!("{}{}", self.bucket.prefix, id.key());
        let found = self.bucket.stream.get_last_raw_message_by_subject(&subject);
        let message = match found.await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        if is_removal(Some(&message.headers)) {
            return Ok(None);
        }
        Ok(Some((read(&message.payload)?, message.sequence)))
    }

    /// Creates the key of a session; `None` if another node has created it.
    pub(crate) async fn create(
        &self,
        id: SessionId,
        ownership: &Ownership,
    ) -> Result<Option<u64>, BackboneError> {
        self.writer.write(id, ownership, 0).await
    }

    /// Changes the owner, if the key still has this revision; `None` if it has not.
    pub(crate) async fn update(
        &self,
        id: SessionId,
        ownership: &Ownership,
        revision: u64,
    ) -> Result<Option<u64>, BackboneError> {
        self.writer.write(id, ownership, revision).await
    }

    /// Removes a key of this revision. Another revision stays. Returns whether the key was removed.
    pub(crate) async fn remove(&self, id: SessionId, revision: u64) -> bool {
        let removed = self
            .bucket
            .purge_expect_revision_with_ttl(id.key(), revision, REMOVED_FOR)
            .await;
        if let Err(error) = &removed {
            tracing::debug!(target: "backbone", %error, "a key of the directory stays");
        }
        removed.is_ok()
    }

    /// Visits all keys, each with its revision.
    pub(crate) async fn each(
        &self,
        mut visit: impl FnMut(SessionId, Ownership, u64),
    ) -> Result<(), BackboneError> {
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::LastPerSubject,
            filter_subject: format!("{}>", self.bucket.prefix),
            ..OrderedConfig::default()
        };
        let consumer = self.bucket.stream.create_consumer(config).await;
        let mut consumer = consumer.map_err(failed)?;
        if consumer.info().await.map_err(failed)?.num_pending == 0 {
            return Ok(());
        }
        let mut messages = consumer.messages().await.map_err(failed)?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(failed)?;
            let info = message.info().map_err(failed)?;
            if let Some((id, ownership)) = self.read_key(&message)? {
                visit(id, ownership, info.stream_sequence);
            }
            if info.pending == 0 {
                return Ok(());
            }
        }
        Err(BackboneError::Lost("the directory ended".to_owned()))
    }

    /// A key as it is in the stream; `None` if it was removed.
    fn read_key(&self, message: &Message) -> Result<Option<(SessionId, Ownership)>, BackboneError> {
        let is_removed = is_removal(message.headers.as_ref());
        let key = message.subject.strip_prefix(self.bucket.prefix.as_str());
        let Some(id) = key.and_then(SessionId::from_key).filter(|_| !is_removed) else {
            return Ok(None);
        };
        match read(&message.payload) {
            Ok(ownership) => Ok(Some((id, ownership))),
            Err(error @ BackboneError::Later { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(target: "backbone", %error, "a key is passed over");
                Ok(None)
            }
        }
    }
}

async fn existing_bucket(context: &Context, subjects: &Subjects) -> Option<kv::Store> {
    let bucket = context.get_key_value(subjects.stream("SESSIONS")).await;
    bucket.ok()
}

async fn make_bucket(
    context: &Context,
    subjects: &Subjects,
    settings: &BackboneSettings,
) -> Result<kv::Store, BackboneError> {
    let name = subjects.stream("SESSIONS");
    let config = kv::Config {
        bucket: name.clone(),
        description: "the nodes that have the sessions of a Gatepost cluster".to_owned(),
        history: 1,
        storage: StorageType::File,
        num_replicas: usize::from(settings.replicas),
        limit_markers: Some(REMOVED_FOR),
        ..kv::Config::default()
    };
    match context.create_key_value(config).await {
        Ok(bucket) => Ok(bucket),
        // Another node may have made it meanwhile, and allowed batches.
        Err(error) => {
            let found = existing_bucket(context, subjects).await;
            found.ok_or_else(|| BackboneError::Stream {
                stream: name,
                replicas: settings.replicas,
                cause: error.to_string(),
            })
        }
    }
}

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request("reading the directory", error)
}

fn read(value: &[u8]) -> Result<Ownership, BackboneError> {
    let read = Ownership::read(value);
    read.map_err(|error| BackboneError::unreadable("the directory of sessions", error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const fn stream(node: u8, epoch: u64) -> NodeStreamId {
        NodeStreamId { node, epoch }
    }

    #[test]
    fn a_claim_keeps_the_sources_that_the_owner_has_not_imported() {
        let first = Ownership::first(stream(1, 7));
        let number = first.claim;
        let second = first.claimed_by(stream(2, 8), true);
        assert_eq!((second.claim, second.owner), (number + 1, 2));
        let source = |node, claim, epoch| SessionSource { claim, node, epoch };
        assert_eq!(second.sources, [source(1, number, 7)]);
        let third = second.claimed_by(stream(3, 9), true);
        let sources = [source(2, number + 1, 8), source(1, number, 7)];
        assert_eq!(third.sources, sources);
        let claims = [3, 1, 4].map(|node| third.claim_of(node));
        assert_eq!(claims, [Some(number + 2), Some(number), None]);
        // The owner claims again, as it has found nothing before.
        assert_eq!(third.claimed_by(stream(3, 9), true).sources, sources);
        assert_eq!(third.claimed_by(stream(1, 7), false).sources, []);
        assert!(
            Ownership::first(stream(1, 7)).claim > third.claim,
            "a key that was removed"
        );
    }

    #[test]
    fn an_owner_is_known_with_its_epoch() {
        let first = Ownership::first(stream(1, 7));
        let second = first.claimed_by(stream(2, 8), true);
        let third = second.taken_over(stream(1, 9));
        let of = |ownership: &Ownership, node, epochs: &[u64]| -> Vec<bool> {
            let epochs = epochs.iter().copied();
            epochs
                .map(|epoch| ownership.is_or_was_of(stream(node, epoch)))
                .collect()
        };
        assert_eq!(of(&first, 1, &[6, 7, 8]), [false, true, true]);
        assert_eq!(of(&second, 1, &[6, 7, 8]), [false, true, true]);
        assert_eq!(of(&second, 2, &[7, 8]), [false, true]);
        assert_eq!(
            of(&third.without_sources(), 1, &[7, 8, 9]),
            [false, false, true]
        );
        let read = read(&third.value()).expect("a value");
        assert_eq!(read, third);
    }

    #[test]
    fn a_key_names_one_session() {
        let name = |user: Option<&str>, client: &str| SessionName {
            user: user.map(Arc::from),
            client_id: Arc::from(client),
        };
        let names = [
            name(None, "a"),
            name(Some(""), "a"),
            name(Some("a"), ""),
            name(Some("ab"), "c"),
            name(Some("a"), "bc"),
        ];
        let ids: Vec<SessionId> = names.iter().map(SessionId::of).collect();
        for (index, id) in ids.iter().enumerate() {
            assert_eq!(SessionId::from_key(&id.key()), Some(*id));
            assert!(!ids[..index].contains(id), "{:?}", names[index]);
        }
        assert_eq!(SessionId::from_key("12"), None);
    }
}
