//! Requests of another process to the learner, as records of the database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_learning::Learning;
use gatepost_learning::bayes::{BayesSample, BayesSettings, Class, Relearn};
use gatepost_store::StoreChange;

use super::{Learner, LearningError};

const SPACE: &str = "learn-queue";

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

/// The change that adds a request. Requests are processed in their order.
pub fn add(request: LearnRequest, sample: &BayesSample) -> StoreChange {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let mut key = time.to_be_bytes().to_vec();
    key.extend_from_slice(&count.to_be_bytes());
    key.extend_from_slice(&process.to_be_bytes());
    let mut value = vec![request.letter()];
    value.extend(sample.to_bytes());
    StoreChange::PutRecord {
        space: SPACE,
        key: key.into(),
        value: value.into(),
    }
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
        for (_, value) in &requests {
            process_one(learning, value, &settings);
        }
        if let Err(error) = self.keep() {
            // The requests stay in the queue; messages that are already learned are not learned
            // twice.
            tracing::warn!(target: "rules", "{error}");
            return Ok(0);
        }
        self.store
            .submit(requests.into_iter().map(|(key, _)| done(key)))?;
        Ok(count)
    }
}

fn process_one(learning: &Learning, value: &[u8], settings: &BayesSettings) {
    let request = value.split_first().and_then(|(letter, sample)| {
        Some((
            LearnRequest::from_letter(*letter)?,
            BayesSample::from_bytes(sample)?,
        ))
    });
    let bayes = &learning.bayes;
    match request {
        Some((LearnRequest::Learn(class), sample)) => {
            bayes.learn(&sample, class, Relearn::Change, settings);
        }
        Some((LearnRequest::Forget, sample)) => {
            bayes.forget(&sample, settings);
        }
        None => tracing::warn!(target: "rules", "a request to learn cannot be read"),
    }
}

fn done(key: Bytes) -> StoreChange {
    StoreChange::DeleteRecord { space: SPACE, key }
}
