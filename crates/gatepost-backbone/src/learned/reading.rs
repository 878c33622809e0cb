//! Reading of the stream into the learned data of this node.

use std::sync::Arc;

use gatepost_learning::LearnFailure;
use gatepost_learning::bayes::{Lesson, LessonError};
use gatepost_learning::lessons::LearnedData;

use super::stream::{LessonStream, StoredSnapshot, failed, read_note};
use super::view::LessonsView;
use crate::encoding::EncodingError;
use crate::error::BackboneError;
use crate::stream_reading::{ReceivedMessage, StreamReader};

/// Lessons that are stored in one commit.
const STORED_AT_ONCE: usize = 256;

/// Reads the stream from a position on.
pub(super) struct LessonReader {
    pub(super) view: Arc<LessonsView>,
    pub(super) learned: Arc<dyn LearnedData>,
    pub(super) stream: LessonStream,
    messages: StreamReader,
    /// The last message that was read.
    pub(super) read: u64,
    /// The last snapshot.
    pub(super) snapshot: StoredSnapshot,
}

impl LessonReader {
    pub(super) async fn begin(
        view: Arc<LessonsView>,
        learned: Arc<dyn LearnedData>,
        stream: LessonStream,
        position: u64,
        snapshot: StoredSnapshot,
    ) -> Result<Self, BackboneError> {
        Ok(Self {
            view,
            learned,
            messages: stream.messages_after(position).await?,
            stream,
            read: position,
            snapshot,
        })
    }

    /// Waits for a message. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<ReceivedMessage, BackboneError> {
        self.messages.next().await
    }

    /// Carries out a lesson, and those that have arrived after it.
    pub(super) async fn carry_out_with(
        &mut self,
        first: ReceivedMessage,
    ) -> Result<(), BackboneError> {
        let mut lessons = Vec::new();
        let mut unread = self.take(&first, &mut lessons);
        while lessons.len() < STORED_AT_ONCE
            && unread.is_ok()
            && let Some(message) = self.messages.try_next()
        {
            unread = message.and_then(|message| self.take(&message, &mut lessons));
        }
        // Those before a message that cannot be read are carried out.
        self.store(lessons).await?;
        self.view.note_unread(unread?);
        Ok(())
    }

    /// Takes a message; returns the number of those after it.
    fn take(
        &mut self,
        next: &ReceivedMessage,
        lessons: &mut Vec<Lesson>,
    ) -> Result<u64, BackboneError> {
        let (message, sequence, pending) = (&next.message, next.sequence, next.pending);
        // A reader that was interrupted may begin again.
        if sequence <= self.read {
            return Ok(pending);
        }
        if self.stream.is_lesson(&message.subject) {
            match Lesson::from_bytes(&message.payload) {
                Ok(lesson) => lessons.push(lesson),
                // A node that passed over it would learn something else than the others.
                Err(LessonError::Version(version)) => {
                    let error = EncodingError::Version(version.into());
                    let part = format!("lesson {sequence} of the cluster");
                    return Err(BackboneError::unreadable(&part, error));
                }
                Err(error) => tracing::warn!(target: "backbone", sequence, %error,
                    "a lesson of the cluster cannot be read, by any node"),
            }
        } else {
            self.snapshot = StoredSnapshot {
                note: read_note(message.payload.clone())?,
                noted_at: sequence,
            };
        }
        self.read = sequence;
        Ok(pending)
    }

    async fn store(&mut self, lessons: Vec<Lesson>) -> Result<(), BackboneError> {
        let position = self.stream.position(self.read);
        let numbers: Vec<u64> = lessons.iter().map(|lesson| lesson.number).collect();
        let applied = blocking(&self.learned, move |learned| {
            learned.apply(&lessons, position)
        });
        for (number, outcome) in numbers.into_iter().zip(applied.await?) {
            self.view.note_done(number, outcome);
        }
        Ok(())
    }
}

/// Uses the learned data on a thread of the blocking pool: it may be large, and the thread of the
/// backbone forwards messages.
pub(super) async fn blocking<T: Send + 'static>(
    learned: &Arc<dyn LearnedData>,
    work: impl FnOnce(&dyn LearnedData) -> Result<T, LearnFailure> + Send + 'static,
) -> Result<T, BackboneError> {
    let learned = learned.clone();
    let done = tokio::task::spawn_blocking(move || work(learned.as_ref())).await;
    done.map_err(failed)?.map_err(failed)
}
