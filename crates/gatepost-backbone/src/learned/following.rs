//! The lessons while there is a connection: the learned data joined with the stream, then followed,
//! and again after a failure. A failure concerns the lessons alone, and does not end the
//! connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use futures_util::{StreamExt as _, stream};
use gatepost_learning::lessons::{ClusterLesson, LearnedData};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior};

use super::reading::{LessonReader, blocking};
use super::stream::{LessonStream, failed};
use super::view::{EncodedLesson, LessonsView};
use crate::error::BackboneError;
use crate::settings::BackboneSettings;
use crate::subjects::LessonSubjects;
use crate::unreadable::READ_AGAIN_EVERY;

/// The interval at which the stream's number is read. The reader does not notice that the stream
/// was replaced.
const CHECKED_EVERY: Duration = Duration::from_secs(10);
/// The pause after a failure.
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// Lessons that are sent before their acknowledgements are waited for.
const SENT_AT_ONCE: usize = 64;
/// The share of `lessons_max` by which each node waits longer with a snapshot than the node before
/// it, so that one node writes it.
const SNAPSHOT_TURNS: u64 = 16;

/// The needs of one connection.
pub(crate) struct LessonFollower<L: ClusterLesson> {
    pub(crate) view: Arc<LessonsView<L>>,
    pub(crate) context: Context,
    pub(crate) subjects: LessonSubjects,
    pub(crate) settings: BackboneSettings,
    /// The number of this node.
    pub(crate) node: u8,
}

impl<L: ClusterLesson> LessonFollower<L> {
    /// Follows the stream for as long as the connection lasts.
    pub(crate) async fn run(self) -> BackboneError {
        let Some(learned) = self.view.learned() else {
            return std::future::pending().await;
        };
        loop {
            let Err(error) = self.follow(&learned).await;
            self.view.leave();
            if matches!(error, BackboneError::Later { .. }) {
                self.view.unreadable.note(self.subjects.content, &error);
                tokio::time::sleep(READ_AGAIN_EVERY).await;
                continue;
            }
            tracing::warn!(target: "backbone", %error,
                "{} cannot be used; they are tried again", self.subjects.content);
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    async fn follow(&self, learned: &Arc<dyn LearnedData<L>>) -> Result<Infallible, BackboneError> {
        let opened = LessonStream::open(self.context.clone(), &self.subjects, &self.settings);
        let stream = opened.await?;
        let reader = join(&self.view, learned, &stream).await?;
        let taught = self.view.begin();
        tokio::select! {
            error = send_taught(&self.view, &stream, taught) => Err(error),
            error = send_suggested(&self.view, &stream) => Err(error),
            followed = self.read(reader) => followed,
        }
    }

    async fn read(&self, mut reader: LessonReader<L>) -> Result<Infallible, BackboneError> {
        let mut checks = tokio::time::interval_at(Instant::now() + CHECKED_EVERY, CHECKED_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let lessons_max = u64::from(self.settings.lessons_max) * L::PER_SNAPSHOT;
        let turn = u64::from(self.node) * lessons_max / SNAPSHOT_TURNS;
        loop {
            tokio::select! {
                message = reader.next() => {
                    reader.carry_out_with(message?).await?;
                    self.view.unreadable.clear(self.subjects.content);
                    let since = reader.read.saturating_sub(reader.snapshot.noted_at);
                    if since > lessons_max + turn {
                        write_snapshot(&mut reader).await?;
                    }
                }
                _ = checks.tick() => {
                    reader.stream.last_sequence().await?;
                    // What cannot be read would have ended this.
                    self.view.unreadable.clear(self.subjects.content);
                }
            }
        }
    }
}

/// Makes the learned data that of the cluster.
async fn join<L: ClusterLesson>(
    view: &Arc<LessonsView<L>>,
    learned: &Arc<dyn LearnedData<L>>,
    stream: &LessonStream,
) -> Result<LessonReader<L>, BackboneError> {
    loop {
        let last = stream.last_sequence().await?;
        let known = blocking(learned, |learned| learned.position()).await?;
        // A stream that ends earlier was restored from a backup.
        let known = known.filter(|known| known.stream == stream.number() && known.sequence <= last);
        let Some(snapshot) = stream.snapshot().await? else {
            let (backup, _) = blocking(learned, |learned| learned.export()).await?;
            if stream.write_snapshot(backup.into(), last, None).await? {
                let position = stream.position(last);
                blocking(learned, move |learned| learned.apply(&[], position)).await?;
                tracing::info!(target: "backbone", stream = stream.name(),
                    "what this server has learned is that of its cluster now");
            }
            continue;
        };
        let position = match known {
            Some(known) if known.sequence >= snapshot.note.sequence => known.sequence,
            _ => {
                let backup = stream.read_snapshot(snapshot.note).await?;
                let position = stream.position(snapshot.note.sequence);
                let replaced = blocking(learned, move |learned| learned.replace(&backup, position));
                replaced.await?;
                position.sequence
            }
        };
        let (view, learned) = (view.clone(), learned.clone());
        return LessonReader::begin(view, learned, stream.clone(), position, snapshot).await;
    }
}

async fn write_snapshot<L: ClusterLesson>(
    reader: &mut LessonReader<L>,
) -> Result<(), BackboneError> {
    let (backup, position) = blocking(&reader.learned, |learned| learned.export()).await?;
    // Only this task carries out lessons, so the data has those up to the last one that was read.
    let sequence = position.map_or(reader.read, |position| position.sequence);
    let earlier = Some(reader.snapshot);
    let bytes = backup.len();
    let written = reader
        .stream
        .write_snapshot(backup.into(), sequence, earlier);
    let is_first = written.await?;
    tracing::debug!(target: "backbone", is_first, sequence, bytes,
        "a snapshot of what was learned");
    if let Some(snapshot) = reader.stream.snapshot().await? {
        reader.snapshot = snapshot;
    }
    Ok(())
}

async fn send_taught<L: ClusterLesson>(
    view: &LessonsView<L>,
    stream: &LessonStream,
    mut taught: Receiver<EncodedLesson>,
) -> BackboneError {
    let lessons = stream::poll_fn(|context| taught.poll_recv(context));
    let sent = lessons.for_each_concurrent(SENT_AT_ONCE, |lesson| async move {
        let number = lesson.number;
        let stored = store(stream, lesson).await;
        view.note_sent(number, stored);
    });
    sent.await;
    BackboneError::Lost("the learner ended".to_owned())
}

async fn store(stream: &LessonStream, lesson: EncodedLesson) -> Result<(), String> {
    let sent = stream.send(lesson).await;
    let stored = sent.map_err(|error| error.to_string())?.await;
    stored.map(drop).map_err(|error| error.to_string())
}

async fn send_suggested<L: ClusterLesson>(
    view: &LessonsView<L>,
    stream: &LessonStream,
) -> BackboneError {
    loop {
        let lessons = view.next_suggested(SENT_AT_ONCE).await;
        let count = lessons.len();
        let sent = stream::iter(lessons).then(|lesson| stream.send(lesson));
        let sent: Vec<_> = sent.collect().await;
        let mut failure = None;
        for acknowledgement in sent {
            let stored = match acknowledgement {
                Ok(acknowledgement) => acknowledgement.await.map(drop).map_err(failed),
                Err(error) => Err(error),
            };
            failure = failure.or(stored.err());
        }
        match failure {
            None => view.remove_suggested(count),
            Some(error) => {
                tracing::warn!(target: "backbone", %error,
                    "lessons are not stored for the other nodes yet; they are tried again");
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}
