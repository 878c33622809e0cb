//! The bucket of shared records: a key for each entry, written by compare-and-set.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, LastRawMessageErrorKind, StorageType, Stream,
};
use bytes::Bytes;
use gatepost_message::MessageId;

use crate::error::BackboneError;
use crate::removed_keys::{OPERATION, is_removal};
use crate::settings::BackboneSettings;
use crate::stream_creation::make_stream;
use crate::stream_reading::{ReceivedMessage, StreamReader};
use crate::subjects::Subjects;

/// The most bytes of an entry: half of what NATS servers take by default.
pub(crate) const ENTRY_BYTES_MAX: usize = 512 * 1024;
/// The most bytes of all entries; the engine refuses further ones.
const BUCKET_BYTES_MAX: i64 = 256 * 1024 * 1024;
/// The time for which the engine keeps the mark of a removed entry. Nodes need no mark: they remove
/// what the bucket does not have.
const REMOVED_FOR: Duration = Duration::from_hours(1);
/// The key of the stream's metadata that has the number of the bucket, which no bucket of the same
/// name had before. A bucket that is restored from a backup has the number that it had.
const NUMBER: &str = "gatepost.bucket";
/// Without a message for so long, the end of the bucket is read at the leader again.
const READ_SILENCE: Duration = Duration::from_secs(2);
/// The number of such silences after which reading has failed.
const SILENCES_MAX: u32 = 4;
/// The headers of a removal that replaces the earlier messages of the key.
const PURGE: &str = "PURGE";
const ROLLUP: &str = "Nats-Rollup";
const ROLLUP_OF_SUBJECT: &str = "sub";
const READING: &str = "reading the shared records";

/// The latest state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyState {
    /// The number of the last write.
    pub(crate) revision: u64,
    /// `None` for a removed entry.
    pub(crate) value: Option<Bytes>,
}

/// The bucket, over one connection.
#[derive(Clone)]
pub(crate) struct RecordBucket {
    context: Context,
    stream: Stream,
    /// The subject of a key without the key.
    prefix: String,
}

impl RecordBucket {
    /// The bucket, which is made if it is not there.
    pub(crate) async fn open(
        context: &Context,
        subjects: &Subjects,
        settings: &BackboneSettings,
    ) -> Result<Self, BackboneError> {
        let bucket = subjects.stream("USERS");
        let prefix = format!("$KV.{bucket}.");
        let number = MessageId::next().number().to_string();
        let config = Config {
            name: format!("KV_{bucket}"),
            description: Some("users, tokens, rules and listed senders of a cluster".to_owned()),
            subjects: vec![format!("{prefix}>")],
            max_messages_per_subject: 1,
            max_message_size: ENTRY_BYTES_MAX as i32,
            max_bytes: BUCKET_BYTES_MAX,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: usize::from(settings.replicas),
            allow_direct: true,
            allow_rollup: true,
            deny_delete: true,
            allow_message_ttl: true,
            metadata: [(NUMBER.to_owned(), number)].into(),
            ..Config::default()
        };
        Ok(Self {
            context: context.clone(),
            stream: make_stream(context, config).await?,
            prefix,
        })
    }

    /// The bucket's name and number.
    pub(crate) fn identity(&self) -> String {
        identity_of(self.stream.cached_info())
    }

    /// Fails if the bucket is no longer there, or if there is another one in its place. The reader
    /// does not notice either.
    pub(crate) async fn check(&self) -> Result<(), BackboneError> {
        let now = self.stream.get_info().await.map_err(failed)?;
        if identity_of(&now) != self.identity() {
            return Err(failed("another bucket has taken its place"));
        }
        Ok(())
    }

    /// The state of a key at the leader of the engine: another server may be late.
    pub(crate) async fn find(&self, key: &str) -> Result<KeyState, BackboneError> {
        let subject = format!("{}{key}", self.prefix);
        let message = match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(KeyState {
                    revision: 0,
                    value: None,
                });
            }
            Err(error) => return Err(failed(error)),
        };
        let is_removed = is_removal(Some(&message.headers));
        Ok(KeyState {
            revision: message.sequence,
            value: (!is_removed).then_some(message.payload),
        })
    }

    /// Writes a key that has this revision, or removes it; returns the new revision, or `None` if
    /// the key has another one.
    pub(crate) async fn write(
        &self,
        key: &str,
        revision: u64,
        value: Option<Bytes>,
    ) -> Result<Option<u64>, BackboneError> {
        let message = PublishMessage::build().expected_last_subject_sequence(revision);
        let message = match value {
            Some(value) => message.payload(value),
            None => message
                .header(OPERATION, PURGE)
                .header(ROLLUP, ROLLUP_OF_SUBJECT)
                .ttl(REMOVED_FOR),
        };
        let subject = format!("{}{key}", self.prefix);
        let written = async { self.context.send_publish(subject, message).await?.await };
        match written.await {
            Ok(acknowledgement) => Ok(Some(acknowledgement.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(BackboneError::request("writing the shared records", error)),
        }
    }

    /// The number of the last write that the leader has; 0 if it has none.
    async fn last_revision(&self) -> Result<u64, BackboneError> {
        Ok(self.find(">").await?.revision)
    }

    /// Reads all keys. The reader then reads the later writes.
    pub(crate) async fn read(
        &self,
    ) -> Result<(BTreeMap<String, KeyState>, BucketReader), BackboneError> {
        let mut last = self.last_revision().await?;
        let subjects = vec![format!("{}>", self.prefix)];
        let mut reader = BucketReader {
            messages: StreamReader::last_of_each(&self.stream, subjects, READING).await?,
            prefix: self.prefix.clone(),
        };
        let mut keys = BTreeMap::new();
        let (mut seen, mut silences) = (0, 0);
        while seen < last {
            let read = tokio::time::timeout(READ_SILENCE, reader.next()).await;
            let Ok(read) = read else {
                // The last write may have been the mark of a removal, which has expired.
                last = self.last_revision().await?;
                silences += 1;
                if silences > SILENCES_MAX {
                    return Err(failed("no answer"));
                }
                continue;
            };
            let (key, state) = read?;
            seen = state.revision;
            keys.insert(key, state);
        }
        Ok((keys, reader))
    }
}

/// Reads the writes of the bucket in their order.
pub(crate) struct BucketReader {
    messages: StreamReader,
    prefix: String,
}

impl BucketReader {
    /// The next write. Cancel-safe. A write may be read again after an interruption.
    pub(crate) async fn next(&mut self) -> Result<(String, KeyState), BackboneError> {
        let next = self.messages.next().await?;
        Ok(self.state_in(&next))
    }

    /// A write that has arrived already.
    pub(crate) fn try_next(&mut self) -> Option<Result<(String, KeyState), BackboneError>> {
        let next = self.messages.try_next()?;
        Some(next.map(|next| self.state_in(&next)))
    }

    fn state_in(&self, next: &ReceivedMessage) -> (String, KeyState) {
        let ReceivedMessage {
            message, sequence, ..
        } = next;
        let is_removed = is_removal(message.headers.as_ref());
        let key = message.subject.strip_prefix(self.prefix.as_str());
        let state = KeyState {
            revision: *sequence,
            value: (!is_removed).then(|| message.payload.clone()),
        };
        (key.unwrap_or_default().to_owned(), state)
    }
}

fn identity_of(info: &Info) -> String {
    let config = &info.config;
    match config.metadata.get(NUMBER) {
        Some(number) => format!("{} {number}", config.name),
        // Not made by Gatepost.
        None => format!("{} of {}", config.name, info.created),
    }
}

fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request(READING, error)
}
