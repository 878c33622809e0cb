//! Requests of another process to the learner, as records of the database.
//!
//! A request that was processed is removed. In a cluster, one that the cluster did not take leaves
//! the reason in its place, until the other process has read it ([`outcome`]).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_learning::bayes::{BayesSample, BayesSettings, Class};
use gatepost_learning::reputation::{SenderChange, SenderLesson};
use gatepost_learning::{LearnFailure, Learning};
use gatepost_store::{Store, StoreChange, StoreError};

use super::{Learner, LearningError};

const SPACE: &str = "learn-queue";
/// The requests that were refused, with the reasons.
const REFUSED_SPACE: &str = "learn-refused";

/// The interval at which the learner reads the queue.
pub const PERIOD: Duration = Duration::from_secs(2);

/// The operation on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnRequest {
    /// Learn it as this class.
    Learn(Class),
    /// Forget the message.
    Forget,
}

impl LearnRequest {
    const fn letter(self) -> u8 {
        match self {
            Self::Learn(Class::Spam) => b's',
            Self::Learn(Class::Ham) => b'h',
            Self::Forget => b'f',
        }
    }

    const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b's' => Self::Learn(Class::Spam),
            b'h' => Self::Learn(Class::Ham),
            b'f' => Self::Forget,
            _ => return None,
        })
    }
}

/// The first byte of a request to change averages of senders.
const SENDERS: u8 = b'c';

/// The key of a request, and the change that adds it. Requests are processed in their order.
pub fn add(request: LearnRequest, sample: &BayesSample) -> (Bytes, StoreChange) {
    let mut value = vec![request.letter()];
    value.extend(sample.to_bytes());
    add_value(value)
}

/// The same of a request to change the average of a sender.
pub fn add_sender(change: SenderChange) -> (Bytes, StoreChange) {
    let lesson = SenderLesson {
        number: 0,
        time: 0,
        changes: vec![change],
    };
    let mut value = vec![SENDERS];
    value.extend(lesson.to_bytes());
    add_value(value)
}

fn add_value(value: Vec<u8>) -> (Bytes, StoreChange) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let mut key = time.to_be_bytes().to_vec();
    key.extend_from_slice(&count.to_be_bytes());
    key.extend_from_slice(&process.to_be_bytes());
    let key = Bytes::from(key);
    let change = StoreChange::PutRecord {
        space: SPACE,
        key: key.clone(),
        value: value.into(),
    };
    (key, change)
}

/// The outcome of a request: `None` while it waits, otherwise the reason why it was refused, if it
/// was.
pub fn outcome(store: &Store, key: &[u8]) -> Result<Option<Result<(), String>>, StoreError> {
    if store.record(SPACE, key)?.is_some() {
        return Ok(None);
    }
    let Some(reason) = store.record(REFUSED_SPACE, key)? else {
        return Ok(Some(Ok(())));
    };
    Ok(Some(Err(String::from_utf8_lossy(&reason).into_owned())))
}

/// The change that removes a request that another process no longer waits for, with its outcome.
pub fn withdraw(key: &Bytes) -> [StoreChange; 2] {
    let of = |space| StoreChange::DeleteRecord {
        space,
        key: key.clone(),
    };
    [of(SPACE), of(REFUSED_SPACE)]
}

impl Learner {
    /// Processes all queued requests and returns their number. `settings` is called only if there
    /// are any; without settings, they stay in the queue.
    pub fn process_requests(
        &self,
        settings: impl FnOnce() -> Option<BayesSettings>,
    ) -> Result<usize, LearningError> {
        let requests = self.store.records(SPACE, b"")?;
        let count = requests.len();
        if count == 0 {
            return Ok(0);
        }
        let Some(settings) = settings() else {
            return Ok(0);
        };
        let learning = self.learning()?;
        let mut refused = None;
        let mut changes = Vec::new();
        for (key, value) in requests {
            // Without its cluster, a server would wait for each of them.
            if refused.is_none() {
                refused = process_one(learning, &value, &settings).err();
            }
            changes.push(StoreChange::DeleteRecord {
                space: SPACE,
                key: key.clone(),
            });
            changes.extend(refused.as_ref().map(|reason| refusal(key, reason)));
        }
        if let Err(error) = self.keep() {
            // The requests stay in the queue; messages that are already learned are not learned
            // twice.
            tracing::warn!(target: "rules", "{error}");
            return Ok(0);
        }
        self.store.submit(changes)?;
        match refused {
            Some(reason) => Err(reason.into()),
            None => Ok(count),
        }
    }

    /// Removes the outcomes of an earlier run, for which no process waits any more.
    pub(super) fn forget_refusals(&self) -> Result<(), LearningError> {
        if self.store.records(REFUSED_SPACE, b"")?.is_empty() {
            return Ok(());
        }
        self.store.submit([StoreChange::DeleteRecords {
            space: REFUSED_SPACE,
            prefix: Bytes::new(),
        }])?;
        Ok(())
    }
}

fn process_one(
    learning: &Learning,
    value: &[u8],
    settings: &BayesSettings,
) -> Result<(), LearnFailure> {
    if let Some((&SENDERS, lesson)) = value.split_first()
        && let Ok(lesson) = SenderLesson::from_bytes(lesson)
    {
        return learning.change_senders(&lesson.changes);
    }
    let request = value.split_first().and_then(|(letter, sample)| {
        Some((
            LearnRequest::from_letter(*letter)?,
            BayesSample::from_bytes(sample)?,
        ))
    });
    match request {
        Some((LearnRequest::Learn(class), sample)) => {
            learning.learn_sample(&sample, class, settings)?;
        }
        Some((LearnRequest::Forget, sample)) => {
            learning.forget_sample(&sample, settings)?;
        }
        None => tracing::warn!(target: "rules", "a request to learn cannot be read"),
    }
    Ok(())
}

fn refusal(key: Bytes, reason: &LearnFailure) -> StoreChange {
    StoreChange::PutRecord {
        space: REFUSED_SPACE,
        key,
        value: reason.to_string().into(),
    }
}
