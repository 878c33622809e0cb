//! The lessons as the learner of this node sees them: given by persons, which wait for the cluster,
//! and learned automatically, which do not.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_learning::LearnFailure;
use gatepost_learning::lessons::{ClusterLesson, LearnedData, SharedLessons};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::settings::BackboneSettings;
use crate::unreadable::UnreadableParts;

/// Lessons of persons that wait to be sent.
const TAUGHT_MAX: usize = 1_024;
/// Lessons that were learned automatically and wait for the cluster.
const SUGGESTED_MAX: usize = 20_000;
/// The bytes of these lessons.
const SUGGESTED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest time that a lesson that the stream has is waited for, until this node has carried it
/// out.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// A lesson to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EncodedLesson {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

impl EncodedLesson {
    pub(super) fn of<L: ClusterLesson>(lesson: &L) -> Self {
        Self {
            number: lesson.number(),
            bytes: lesson.to_bytes().into(),
        }
    }
}

/// The progress of a lesson.
enum LessonProgress<O> {
    Stored,
    Failed(String),
    Done(O),
}

#[derive(Default)]
struct SuggestedLessons {
    waiting: VecDeque<EncodedLesson>,
    bytes: usize,
}

/// State that the learner shares with the connection.
pub(crate) struct LessonsView<L: ClusterLesson> {
    wait_max: Duration,
    /// The learned data of this node; a node without any carries out no lessons.
    learned: OnceLock<Arc<dyn LearnedData<L>>>,
    /// To the present connection.
    taught: Mutex<Option<tokio::sync::mpsc::Sender<EncodedLesson>>>,
    awaited: Mutex<HashMap<u64, mpsc::Sender<LessonProgress<L::Outcome>>>>,
    suggested: Mutex<SuggestedLessons>,
    added: Notify,
    dropped: AtomicU64,
    unread: AtomicU64,
    pub(crate) unreadable: UnreadableParts,
}

impl<L: ClusterLesson> LessonsView<L> {
    pub(crate) fn new(settings: &BackboneSettings) -> Self {
        Self {
            wait_max: settings.append_wait_max.duration(),
            learned: OnceLock::new(),
            taught: Mutex::default(),
            awaited: Mutex::default(),
            suggested: Mutex::default(),
            added: Notify::new(),
            dropped: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            unreadable: UnreadableParts::default(),
        }
    }

    pub(crate) fn set_learned(&self, learned: Arc<dyn LearnedData<L>>) {
        // A second one would not be used; there is one.
        let _ = self.learned.set(learned);
    }

    pub(super) fn learned(&self) -> Option<Arc<dyn LearnedData<L>>> {
        self.learned.get().cloned()
    }

    /// There is a connection: returns the lessons to send over it.
    pub(super) fn begin(&self) -> tokio::sync::mpsc::Receiver<EncodedLesson> {
        let (sender, receiver) = tokio::sync::mpsc::channel(TAUGHT_MAX);
        *self.taught.lock() = Some(sender);
        receiver
    }

    /// There is none.
    pub(crate) fn leave(&self) {
        *self.taught.lock() = None;
    }

    /// Whether lessons can be given; they can be without a stream if this server learns nothing.
    pub(crate) fn is_followed(&self) -> bool {
        self.learned.get().is_none() || self.taught.lock().is_some()
    }

    /// The stream has a lesson, or the reason why it does not.
    pub(super) fn note_sent(&self, number: u64, stored: Result<(), String>) {
        self.report(
            number,
            match stored {
                Ok(()) => LessonProgress::Stored,
                Err(cause) => LessonProgress::Failed(cause),
            },
        );
    }

    /// This node has carried out a lesson.
    pub(super) fn note_done(&self, number: u64, outcome: L::Outcome) {
        self.report(number, LessonProgress::Done(outcome));
    }

    fn report(&self, number: u64, progress: LessonProgress<L::Outcome>) {
        if let Some(waiting) = self.awaited.lock().get(&number) {
            // Fails if it is no longer waited for.
            let _ = waiting.send(progress);
        }
    }

    /// Waits for lessons that were learned automatically; they stay in the queue.
    pub(super) async fn next_suggested(&self, count_max: usize) -> Vec<EncodedLesson> {
        loop {
            {
                let suggested = self.suggested.lock();
                if !suggested.waiting.is_empty() {
                    let next = suggested.waiting.iter().take(count_max);
                    return next.cloned().collect();
                }
            }
            self.added.notified().await;
        }
    }

    /// The stream has the first lessons of the queue.
    pub(super) fn remove_suggested(&self, count: usize) {
        let mut suggested = self.suggested.lock();
        let sent: usize = suggested
            .waiting
            .drain(..count)
            .map(|one| one.bytes.len())
            .sum();
        suggested.bytes -= sent;
    }

    pub(super) fn note_unread(&self, unread: u64) {
        self.unread.store(unread, Ordering::Relaxed);
    }

    /// The lessons that the stream does not have yet.
    pub(crate) fn unsent(&self) -> u64 {
        self.suggested.lock().waiting.len() as u64
    }

    /// The lessons that were dropped since too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The lessons of the stream that this node has not carried out yet.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    fn send(&self, lesson: EncodedLesson) -> Result<(), LearnFailure> {
        let taught = self.taught.lock();
        let Some(taught) = taught.as_ref() else {
            return Err(not_shared("the NATS servers cannot be reached"));
        };
        let sent = taught.try_send(lesson);
        sent.map_err(|_| not_shared("too many lessons wait for the NATS servers"))
    }

    fn await_outcome(
        &self,
        progress: &mpsc::Receiver<LessonProgress<L::Outcome>>,
        otherwise: L::Outcome,
    ) -> Result<L::Outcome, LearnFailure> {
        let mut until = Instant::now() + self.wait_max;
        let mut is_stored = false;
        loop {
            match progress.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(LessonProgress::Done(outcome)) => return Ok(outcome),
                Ok(LessonProgress::Failed(cause)) => return Err(not_shared(cause)),
                Ok(LessonProgress::Stored) => {
                    is_stored = true;
                    until = Instant::now() + READ_WITHIN;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) if is_stored => {
                    return Ok(otherwise);
                }
                Err(_) => return Err(not_shared("the NATS servers did not store it in time")),
            }
        }
    }
}

/// The view as the learner sees it.
pub(crate) struct SharedLessonsView<L: ClusterLesson>(pub(crate) Arc<LessonsView<L>>);

impl<L: ClusterLesson> SharedLessons<L> for SharedLessonsView<L> {
    fn teach(&self, lesson: L) -> Result<L::Outcome, LearnFailure> {
        let view = &self.0;
        let (number, otherwise) = (lesson.number(), lesson.usual_outcome());
        let (sender, progress) = mpsc::channel();
        view.awaited.lock().insert(number, sender);
        let sent = view.send(EncodedLesson::of(&lesson));
        let outcome = sent.and_then(|()| view.await_outcome(&progress, otherwise));
        view.awaited.lock().remove(&number);
        outcome
    }

    fn suggest(&self, lesson: L) -> bool {
        let lesson = EncodedLesson::of(&lesson);
        let mut suggested = self.0.suggested.lock();
        let is_full = suggested.waiting.len() >= SUGGESTED_MAX
            || suggested.bytes + lesson.bytes.len() > SUGGESTED_BYTES_MAX;
        if is_full {
            drop(suggested);
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        suggested.bytes += lesson.bytes.len();
        suggested.waiting.push_back(lesson);
        drop(suggested);
        self.0.added.notify_one();
        true
    }
}

fn not_shared(cause: impl ToString) -> LearnFailure {
    LearnFailure::NotShared(cause.to_string())
}

#[cfg(test)]
mod tests {
    use gatepost_learning::LearnInstruction;
    use gatepost_learning::bayes::{BayesSample, Class, Learned, Lesson, LessonOutcome, Relearn};

    use super::*;

    fn lesson(number: u64) -> Lesson {
        Lesson {
            number,
            instruction: LearnInstruction::Learn(Class::Spam),
            relearn: Relearn::Keep,
            time: 1,
            sample: BayesSample {
                tokens: Vec::new(),
                generated_id: b"id".to_vec(),
                own_id: None,
                time: None,
            },
        }
    }

    fn view() -> SharedLessonsView<Lesson> {
        let settings = BackboneSettings {
            append_wait_max: gatepost_settings::Period::seconds(1),
            ..BackboneSettings::default()
        };
        SharedLessonsView(Arc::new(LessonsView::new(&settings)))
    }

    #[tokio::test]
    async fn lessons_that_the_stream_does_not_have_are_bounded() {
        let view = view();
        for number in 0..SUGGESTED_MAX as u64 {
            assert!(view.suggest(lesson(number)));
        }
        assert!(!view.suggest(lesson(0)));
        assert_eq!((view.0.unsent(), view.0.dropped()), (20_000, 1));
        let next = view.0.next_suggested(2).await;
        let expected = [0, 1].map(|number| EncodedLesson::of(&lesson(number)));
        assert_eq!(next, expected);
        view.0.remove_suggested(2);
        assert_eq!(view.0.unsent(), 19_998);
        assert!(view.suggest(lesson(0)));
    }

    #[test]
    fn a_lesson_of_a_person_is_refused_without_the_stream() {
        let view = view();
        let refused = view
            .teach(lesson(1))
            .expect_err("no connection")
            .to_string();
        assert!(refused.contains("cannot be reached"), "{refused}");
        let _lessons = view.0.begin();
        let refused = view.teach(lesson(1)).expect_err("no answer").to_string();
        assert!(refused.contains("in time"), "{refused}");
        assert!(view.0.awaited.lock().is_empty());
    }

    #[test]
    fn a_lesson_of_a_person_has_the_outcome_of_this_node() {
        let view = view();
        let mut lessons = view.0.begin();
        let stream = view.0.clone();
        let sending = std::thread::spawn(move || {
            let first = lessons.blocking_recv().expect("a lesson");
            stream.note_sent(first.number, Ok(()));
            stream.note_done(first.number, LessonOutcome::Learned(Learned::Before));
            let second = lessons.blocking_recv().expect("a lesson");
            stream.note_sent(second.number, Err("no quorum".to_owned()));
        });
        let outcome = view.teach(lesson(1)).expect("stored");
        assert_eq!(outcome, LessonOutcome::Learned(Learned::Before));
        let refused = view.teach(lesson(2)).expect_err("refused").to_string();
        assert!(refused.contains("no quorum"), "{refused}");
        sending.join().expect("no panic");
    }
}
