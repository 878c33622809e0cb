//! The stream of lessons at the engine: what is written to it, and questions to its leader.

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, StorageType};
use bytes::Bytes;
use futures_util::StreamExt as _;
use gatepost_learning::bayes::LessonPosition;
use gatepost_message::MessageId;

use super::snapshot::SnapshotNote;
use super::view::EncodedLesson;
use crate::error::BackboneError;
use crate::message_size::piece_bytes_max;
use crate::settings::BackboneSettings;
use crate::stream_creation::NumberedStream;
use crate::stream_reading::StreamReader;
use crate::subjects::LessonSubjects;

/// The time for one answer of the engine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// The use of the stream, in errors.
const ACTION: &str = "using the lessons of the cluster";

/// The last complete snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredSnapshot {
    pub(super) note: SnapshotNote,
    /// The sequence of its note.
    pub(super) noted_at: u64,
}

/// The stream, over one connection.
#[derive(Clone)]
pub(crate) struct LessonStream {
    context: Context,
    numbered: NumberedStream,
    subjects: LessonSubjects,
}

impl LessonStream {
    /// The stream, which is made if it is not there.
    pub(super) async fn open(
        mut context: Context,
        subjects: &LessonSubjects,
        settings: &BackboneSettings,
    ) -> Result<Self, BackboneError> {
        let config = Config {
            name: subjects.stream.clone(),
            description: Some(format!("Gatepost: {}", subjects.content)),
            subjects: vec![subjects.all()],
            storage: StorageType::File,
            num_replicas: usize::from(settings.replicas),
            allow_direct: true,
            ..Config::default()
        };
        context.set_timeout(ANSWERED_WITHIN);
        Ok(Self {
            numbered: NumberedStream::open(&context, config).await?,
            context,
            subjects: subjects.clone(),
        })
    }

    /// The name of the stream.
    pub(super) fn name(&self) -> &str {
        &self.subjects.stream
    }

    /// The number of the stream.
    pub(super) const fn number(&self) -> u64 {
        self.numbered.number
    }

    /// The last sequence. Fails if the stream is no longer there, or if there is another one in its
    /// place.
    pub(super) async fn last_sequence(&self) -> Result<u64, BackboneError> {
        let state = self.numbered.state().await.map_err(failed)?;
        Ok(state.last_sequence)
    }

    /// Sends a lesson; the engine acknowledges it afterwards. If it is sent again within two
    /// minutes, the default of the engine, the stream has it once.
    pub(super) async fn send(
        &self,
        lesson: EncodedLesson,
    ) -> Result<PublishAckFuture, BackboneError> {
        let message = PublishMessage::build()
            .message_id(format!("{:016x}", lesson.number))
            .payload(lesson.bytes);
        let sent = self.context.send_publish(self.subjects.lessons(), message);
        sent.await.map_err(failed)
    }

    /// The last complete snapshot, at the leader of the engine.
    pub(super) async fn snapshot(&self) -> Result<Option<StoredSnapshot>, BackboneError> {
        let subject = self.subjects.snapshots();
        let last = self
            .numbered
            .stream
            .get_last_raw_message_by_subject(&subject)
            .await;
        let message = match last {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(Some(StoredSnapshot {
            note: read_note(message.payload)?,
            noted_at: message.sequence,
        }))
    }

    /// The learned data of a snapshot.
    pub(super) async fn read_snapshot(&self, note: SnapshotNote) -> Result<Vec<u8>, BackboneError> {
        let config = OrderedConfig {
            filter_subject: self.subjects.snapshot(note.number),
            ..OrderedConfig::default()
        };
        let consumer = self
            .numbered
            .stream
            .create_consumer(config)
            .await
            .map_err(failed)?;
        let mut messages = consumer.messages().await.map_err(failed)?;
        let mut backup = Vec::new();
        for _ in 0..note.pieces {
            let next = tokio::time::timeout(ANSWERED_WITHIN, messages.next()).await;
            // A later snapshot may have replaced it.
            let next = next.map_err(|_| failed("a snapshot ends too early"))?;
            let piece = next.ok_or_else(|| failed("a snapshot ended"))?;
            backup.extend_from_slice(&piece.map_err(failed)?.payload);
        }
        Ok(backup)
    }

    /// Writes a snapshot that has the lessons up to a sequence, if `earlier` is still the last one,
    /// and removes what it replaces. False if another node was first.
    pub(super) async fn write_snapshot(
        &self,
        mut backup: Bytes,
        sequence: u64,
        earlier: Option<StoredSnapshot>,
    ) -> Result<bool, BackboneError> {
        let number = MessageId::next().number();
        let subject = self.subjects.snapshot(number);
        let mut note = SnapshotNote {
            number,
            sequence,
            pieces: 0,
        };
        let mut first_piece = None;
        let bytes_max = piece_bytes_max(&self.context.client());
        while !backup.is_empty() {
            let piece = backup.split_to(bytes_max.min(backup.len()));
            let sent = self.context.publish(subject.clone(), piece).await;
            let stored = sent.map_err(failed)?.await.map_err(failed)?;
            first_piece.get_or_insert(stored.sequence);
            note.pieces += 1;
        }
        let expected = earlier.map_or(0, |earlier| earlier.noted_at);
        let message = PublishMessage::build()
            .expected_last_subject_sequence(expected)
            .payload(note.encode());
        let notes = self.subjects.snapshots();
        let sent = self.context.send_publish(notes, message).await;
        let noted_at = match async { sent?.await }.await {
            Ok(stored) => stored.sequence,
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                let purge = self.numbered.stream.purge().filter(subject);
                purge.await.map_err(failed)?;
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        };
        self.remove_before(sequence + 1, self.subjects.lessons())
            .await?;
        let snapshots = self.subjects.snapshot_pieces();
        self.remove_before(first_piece.unwrap_or(noted_at), snapshots)
            .await?;
        self.remove_before(noted_at, self.subjects.snapshots())
            .await?;
        Ok(true)
    }

    async fn remove_before(&self, sequence: u64, subjects: String) -> Result<(), BackboneError> {
        let purge = self
            .numbered
            .stream
            .purge()
            .filter(subjects)
            .sequence(sequence);
        purge.await.map(drop).map_err(failed)
    }

    /// Reads the lessons after this sequence, in order, and the notes of snapshots among them.
    pub(super) async fn messages_after(
        &self,
        sequence: u64,
    ) -> Result<StreamReader, BackboneError> {
        let subjects = vec![self.subjects.lessons(), self.subjects.snapshots()];
        StreamReader::after(&self.numbered.stream, sequence, subjects, ACTION).await
    }

    /// Whether a message of this subject is a lesson.
    pub(super) fn is_lesson(&self, subject: &str) -> bool {
        subject == self.subjects.lessons()
    }

    /// The place of a sequence.
    pub(super) const fn position(&self, sequence: u64) -> LessonPosition {
        LessonPosition {
            stream: self.number(),
            sequence,
        }
    }
}

/// The note of a snapshot. A node that passed over it would not know what its cluster has learned.
pub(super) fn read_note(message: Bytes) -> Result<SnapshotNote, BackboneError> {
    let read = SnapshotNote::read(message);
    read.map_err(|error| BackboneError::unreadable("a snapshot of what was learned", error))
}

pub(super) fn failed(error: impl ToString) -> BackboneError {
    BackboneError::request(ACTION, error)
}
