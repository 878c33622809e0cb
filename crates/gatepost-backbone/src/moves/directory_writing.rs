//! Writing of the directory: keys that wait at the same time are written together.
//!
//! The engine synchronizes its disks for each write, and so a batch of many keys costs little more
//! than one key. There is one write at a time: keys that wait meanwhile share the next one, so a
//! key that is alone waits for none.
//!
//! The engine stores all keys of a batch or none. If one of them has changed, it answers with an
//! error, and each key is written by itself. After a write without an answer, none of its keys is
//! written again: the requester finds out what became of it, as after any write of its own.

use std::collections::HashSet;

use async_nats::HeaderMap;
use async_nats::header;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{self, CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::future::join_all;
use gatepost_message::MessageId;
use tokio::sync::{mpsc, oneshot};

use super::ownership::{Ownership, SessionId};
use crate::error::BackboneError;

pub(super) const WRITING: &str = "writing the directory";
/// Keys that are written together. The engine takes 1,000.
const BATCH_MAX: usize = 128;
/// Keys that wait to be written. Further requesters wait for a place.
const WAITING_MAX: usize = 1_024;

/// The revision of a key after a write, `None` if the key had another one than was expected.
type Written = Result<Option<u64>, BackboneError>;

/// A key that is to be written.
struct KeyWrite {
    id: SessionId,
    value: Bytes,
    /// The revision that the key must have, 0 if there must be no key.
    expected: u64,
    reply: oneshot::Sender<Written>,
}

/// Writes keys for all requesters of a connection, until the last of them has gone.
#[derive(Clone)]
pub(super) struct DirectoryWriter(mpsc::Sender<KeyWrite>);

impl DirectoryWriter {
    pub(super) fn start(context: Context, bucket: kv::Store) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        gatepost_tasks::spawn(write_all(context, bucket, waiting));
        Self(sender)
    }

    /// Writes a key, if it has this revision; 0 if there must be no key.
    pub(super) async fn write(
        &self,
        id: SessionId,
        ownership: &Ownership,
        expected: u64,
    ) -> Written {
        let lost = || BackboneError::Lost("the directory is not written".to_owned());
        let (reply, written) = oneshot::channel();
        let value = ownership.value();
        let write = KeyWrite {
            id,
            value,
            expected,
            reply,
        };
        self.0.send(write).await.map_err(|_| lost())?;
        written.await.map_err(|_| lost())?
    }
}

async fn write_all(context: Context, bucket: kv::Store, mut waiting: mpsc::Receiver<KeyWrite>) {
    // A bucket that an earlier version made, and whose config could not be changed, takes none.
    let takes_batches = bucket.stream.cached_info().config.allow_atomic_publish;
    let batch_max = if takes_batches { BATCH_MAX } else { 1 };
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => first,
            None => match waiting.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let mut ids = HashSet::from([first.id]);
        let mut writes = vec![first];
        while writes.len() < batch_max
            && let Ok(write) = waiting.try_recv()
        {
            if !ids.insert(write.id) {
                // The second write of a key expects the revision of the first.
                next = Some(write);
                break;
            }
            writes.push(write);
        }
        write_together(&context, &bucket, writes).await;
    }
}

/// Writes keys that differ, and replies to all requesters.
async fn write_together(context: &Context, bucket: &kv::Store, writes: Vec<KeyWrite>) {
    if writes.len() == 1 {
        return write_singly(bucket, writes).await;
    }
    match write_batch(context, bucket, &writes).await {
        Ok(last) => {
            // The keys of a batch have consecutive revisions.
            let first = last + 1 - writes.len() as u64;
            for (write, revision) in writes.into_iter().zip(first..) {
                let _ = write.reply.send(Ok(Some(revision)));
            }
        }
        Err(error) if is_answered(&error) => write_singly(bucket, writes).await,
        Err(error) => {
            for write in writes {
                let _ = write.reply.send(Err(failed(&error)));
            }
        }
    }
}

/// Whether the engine has answered that nothing was stored.
fn is_answered(error: &PublishError) -> bool {
    match error.kind() {
        PublishErrorKind::WrongLastSequence | PublishErrorKind::Other => true,
        PublishErrorKind::StreamNotFound
        | PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending
        | PublishErrorKind::MaxPayloadExceeded => false,
    }
}

/// Returns the revision of the last key.
async fn write_batch(
    context: &Context,
    bucket: &kv::Store,
    writes: &[KeyWrite],
) -> Result<u64, PublishError> {
    let batch = format!("sessions-{:x}", MessageId::next().number());
    let headers = |place: usize| {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_BATCH_ID, batch.as_str());
        headers.insert(header::NATS_BATCH_SEQUENCE, (place + 1).to_string());
        let expected = writes[place].expected.to_string();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
        headers
    };
    let subject = |write: &KeyWrite| format!("{}{}", bucket.prefix, write.id.key());
    let last = writes.len() - 1;
    for (place, write) in writes[..last].iter().enumerate() {
        let client = context.client();
        let sent = client.publish_with_headers(subject(write), headers(place), write.value.clone());
        let broken = |error| PublishError::with_source(PublishErrorKind::BrokenPipe, error);
        sent.await.map_err(broken)?;
    }
    let mut headers = headers(last);
    headers.insert(header::NATS_BATCH_COMMIT, header::NATS_BATCH_COMMIT_FINAL);
    let message = PublishMessage::build()
        .headers(headers)
        .payload(writes[last].value.clone());
    let sent = context.send_publish(subject(&writes[last]), message);
    Ok(sent.await?.await?.sequence)
}

async fn write_singly(bucket: &kv::Store, writes: Vec<KeyWrite>) {
    let all = writes.into_iter().map(|write| async {
        let written = write_one(bucket, &write).await;
        let _ = write.reply.send(written);
    });
    join_all(all).await;
}

async fn write_one(bucket: &kv::Store, write: &KeyWrite) -> Written {
    let (key, value) = (write.id.key(), write.value.clone());
    if write.expected == 0 {
        // This also replaces the mark of a removed key.
        return match bucket.create(key, value).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(failed(&error)),
        };
    }
    match bucket.update(key, value, write.expected).await {
        Ok(revision) => Ok(Some(revision)),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &impl ToString) -> BackboneError {
    BackboneError::request(WRITING, error.to_string())
}
