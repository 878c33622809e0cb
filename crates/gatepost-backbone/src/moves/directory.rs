//! The directory: which node has a session, in a bucket of the engine.
//!
//! Each persistent session has a key, written by compare-and-set. Its value names the owner, the
//! number of the claim by which the owner got the session, and the earlier owners whose content the
//! owner may not have yet. A session without a key belongs to the node that creates it.

use std::time::Duration;

use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, StorageType};
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;

use super::directory_writing::{DirectoryWriter, WRITING};
use super::ownership::{Ownership, SessionId};
use crate::error::BackboneError;
use crate::removed_keys::is_removal;
use crate::settings::BackboneSettings;
use crate::stream_reading::StreamReader;
use crate::subjects::Subjects;

/// The time for which the engine remembers that a key was removed.
const REMOVED_FOR: Duration = Duration::from_hours(1);
/// The key that a node writes to find the end of the bucket. It is none of a session.
const END_KEY: &str = "end";
const READING: &str = "reading the directory";

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

    /// Visits all keys, each with its revision. What was written before this is visited, also if
    /// the server that is read lags: reading ends with a key that is written now. A key that is
    /// changed meanwhile is visited again.
    pub(crate) async fn each(
        &self,
        mut visit: impl FnMut(SessionId, Ownership, u64),
    ) -> Result<(), BackboneError> {
        let written = self.bucket.put(END_KEY, Bytes::new()).await;
        let end = written.map_err(|error| BackboneError::request(WRITING, error))?;
        let subjects = vec![format!("{}>", self.bucket.prefix)];
        let mut reader = StreamReader::last_of_each(&self.bucket.stream, subjects, READING).await?;
        loop {
            let next = reader.next().await?;
            if let Some((id, ownership)) = self.read_key(&next.message)? {
                visit(id, ownership, next.sequence);
            }
            if next.sequence >= end {
                return Ok(());
            }
        }
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
    BackboneError::request(READING, error)
}

fn read(value: &[u8]) -> Result<Ownership, BackboneError> {
    let read = Ownership::read(value);
    read.map_err(|error| BackboneError::unreadable("the directory of sessions", error))
}
