//! Reading of the stream into the learned data of this node.

use std::sync::Arc;

use gatepost_learning::LearnFailure;
use gatepost_learning::bayes::LessonError;
use gatepost_learning::lessons::{ClusterLesson, LearnedData};

use super::stream::{LessonStream, StoredSnapshot, failed, read_note};
use super::view::LessonsView;
use crate::encoding::EncodingError;
use crate::error::BackboneError;
use crate::stream_reading::{ReceivedMessage, StreamReader};

/// Lessons that are stored in one commit.
const STORED_AT_ONCE: usize = 256;

/// Reads the stream from a position on.
pub(super) struct LessonReader<L: ClusterLesson> {
    pub(super) view: Arc<LessonsView<L>>,
    pub(super) learned: Arc<dyn LearnedData<L>>,
    pub(super) stream: LessonStream,
    messages: StreamReader,
    /// The last message that was read.
    pub(super) read: u64,
    /// The last snapshot.
    pub(super) snapshot: StoredSnapshot,
}

impl<L: ClusterLesson> LessonReader<L> {
    pub(super) async fn begin(
        view: Arc<LessonsView<L>>,
        learned: Arc<dyn LearnedData<L>>,
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
        let mut unread = self.take(&first, &mut lessons).await;
        while lessons.len() < STORED_AT_ONCE
            && unread.is_ok()
            && let Some(message) = self.messages.try_next()
        {
            unread = match message {
                Ok(message) => self.take(&message, &mut lessons).await,
                Err(error) => Err(error),
            };
        }
        // Those before a message that cannot be read are carried out.
        self.store(lessons).await?;
        self.view.note_unread(unread?);
        Ok(())
    }

    /// Takes a message; returns the number of those after it.
    async fn take(
        &mut self,
        next: &ReceivedMessage,
        lessons: &mut Vec<L>,
    ) -> Result<u64, BackboneError> {
        let (message, sequence, pending) = (&next.message, next.sequence, next.pending);
        // A reader that was interrupted may begin again.
        if sequence <= self.read {
            return Ok(pending);
        }
        if sequence > self.read + 1 {
            // Boxed, since its future is large.
            Box::pin(check_gap(&self.stream, self.read)).await?;
        }
        if self.stream.is_lesson(&message.subject) {
            match L::from_bytes(&message.payload) {
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

    async fn store(&mut self, lessons: Vec<L>) -> Result<(), BackboneError> {
        let position = self.stream.position(self.read);
        let numbers: Vec<u64> = lessons.iter().map(ClusterLesson::number).collect();
        let applied = blocking(&self.learned, move |learned| {
            learned.apply(&lessons, position)
        });
        for (number, outcome) in numbers.into_iter().zip(applied.await?) {
            self.view.note_done(number, outcome);
        }
        Ok(())
    }
}

/// Messages are missing after the last one that was read: those of snapshots, or lessons that a
/// snapshot has replaced before this node read them. Then this node needs the snapshot.
async fn check_gap(stream: &LessonStream, read: u64) -> Result<(), BackboneError> {
    // Lessons are removed after the note that says which. It may come much later in the stream.
    let snapshot = stream.snapshot().await?;
    let replaced = snapshot.map_or(0, |snapshot| snapshot.note.sequence);
    if replaced <= read {
        return Ok(());
    }
    Err(failed(format!(
        "lessons up to {replaced} were replaced by a snapshot, and this node has read them up to \
         {read}"
    )))
}

/// Uses the learned data on a thread of the blocking pool: it may be large, and the thread of the
/// backbone forwards messages.
pub(super) async fn blocking<L: ClusterLesson, T: Send + 'static>(
    learned: &Arc<dyn LearnedData<L>>,
    work: impl FnOnce(&dyn LearnedData<L>) -> Result<T, LearnFailure> + Send + 'static,
) -> Result<T, BackboneError> {
    let learned = learned.clone();
    let done = tokio::task::spawn_blocking(move || work(learned.as_ref())).await;
    done.map_err(failed)?.map_err(failed)
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream;
    use bytes::Bytes;
    use gatepost_learning::bayes::{Lesson, LessonOutcome, LessonPosition};
    use parking_lot::Mutex;

    use super::*;
    use crate::learned::view::EncodedLesson;
    use crate::settings::BackboneSettings;
    use crate::subjects::Subjects;
    use crate::test_server::TestServer;

    /// Learned data of which only the position counts.
    #[derive(Default)]
    struct PositionOnly(Mutex<Option<LessonPosition>>);

    impl LearnedData<Lesson> for PositionOnly {
        fn position(&self) -> Result<Option<LessonPosition>, LearnFailure> {
            Ok(*self.0.lock())
        }

        fn apply(
            &self,
            _: &[Lesson],
            position: LessonPosition,
        ) -> Result<Vec<LessonOutcome>, LearnFailure> {
            *self.0.lock() = Some(position);
            Ok(Vec::new())
        }

        fn export(&self) -> Result<(Vec<u8>, Option<LessonPosition>), LearnFailure> {
            Ok((b"learned".to_vec(), self.position()?))
        }

        fn replace(&self, _: &[u8], position: LessonPosition) -> Result<(), LearnFailure> {
            *self.0.lock() = Some(position);
            Ok(())
        }
    }

    /// Stores lessons that no node can read, which are passed over; returns the last sequence.
    async fn teach(stream: &LessonStream, count: usize) -> u64 {
        let last = stream.last_sequence().await.expect("read");
        for number in last..last + count as u64 {
            let bytes = Bytes::from_static(&[1]);
            let sent = stream.send(EncodedLesson { number, bytes }).await;
            sent.expect("sent").await.expect("stored");
        }
        stream.last_sequence().await.expect("read")
    }

    async fn last_snapshot(stream: &LessonStream) -> StoredSnapshot {
        let snapshot = stream.snapshot().await.expect("read");
        snapshot.expect("a snapshot")
    }

    #[tokio::test]
    async fn a_reader_notices_that_lessons_were_replaced_before_it_read_them() {
        let Some(server) = TestServer::start() else {
            return;
        };
        let settings = BackboneSettings {
            replicas: 1,
            ..BackboneSettings::default()
        };
        let context = jetstream::new(server.connect().await);
        let subjects = Subjects::new("gp").learned();
        let stream = LessonStream::open(context, &subjects, &settings).await;
        let stream = stream.expect("opened");
        let backup = || Bytes::from_static(b"learned");
        let first = stream.write_snapshot(backup(), 0, None).await;
        assert!(first.expect("written"));
        let earlier = last_snapshot(&stream).await;
        let view = Arc::new(LessonsView::new(&settings));
        let learned: Arc<dyn LearnedData<Lesson>> = Arc::new(PositionOnly::default());
        let begin = async |position, snapshot| {
            let (view, learned, stream) = (view.clone(), learned.clone(), stream.clone());
            let reader = LessonReader::begin(view, learned, stream, position, snapshot);
            reader.await.expect("begun")
        };
        let read = teach(&stream, 3).await;
        let replaced = teach(&stream, 5).await;
        // Lessons that the snapshot does not have precede its note.
        let rest = teach(&stream, 2).await;
        let second = stream.write_snapshot(backup(), replaced, Some(earlier));
        assert!(second.await.expect("written"));
        let mut late = begin(read, earlier).await;
        let next = late.next().await.expect("a lesson");
        assert_eq!(next.sequence, replaced + 1);
        let carried_out = late.carry_out_with(next).await;
        let error = carried_out.expect_err("lessons are missing").to_string();
        assert!(error.contains("were replaced by a snapshot"), "{error}");
        assert_eq!(late.read, read);
        // From the snapshot on, nothing is missing.
        let mut reader = begin(replaced, last_snapshot(&stream).await).await;
        while reader.read < stream.last_sequence().await.expect("read") {
            let next = reader.next().await.expect("a message");
            reader
                .carry_out_with(next)
                .await
                .expect("nothing is missing");
        }
        assert!(reader.read > rest);
    }
}
