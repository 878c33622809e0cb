//! Connects the learned data of the rules with the database.
//!
//! The learned data is in the memory of one process, the *learner* of a data folder: the gateway
//! while it serves, otherwise the command. The learner holds a lock on the folder
//! ([`Learner::open`]); another process submits its requests through a [`queue`] in the database,
//! which the learner empties every few seconds.

mod cluster;
mod copy;
mod learner_thread;
mod lock;
pub mod queue;
mod record_writer;
mod reputation_store;
mod token_store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gatepost_learning::bayes::{Bayes, BayesLimits, TokenStoreError};
use gatepost_learning::lessons::LearningCluster;
use gatepost_learning::reputation::{ReputationStoreError, ReputationTable};
use gatepost_learning::{LearnFailure, Learning};
use gatepost_rules::RulesSettings;
use gatepost_store::{Store, StoreError};
use parking_lot::Mutex;

pub use cluster::{is_of_cluster, leave_cluster};
pub use copy::copy;
pub use learner_thread::LearnerThread;
use lock::Lock;
pub use record_writer::wait;
use reputation_store::StoredBook;
use token_store::StoredTokens;

/// The reason why learned data cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// The lock file of the data folder cannot be used.
    #[error("{0}: the lock cannot be taken: {1}")]
    Lock(String, std::io::Error),
    /// The Bayes tokens cannot be read or written.
    #[error(transparent)]
    Tokens(#[from] TokenStoreError),
    /// The reputation of senders cannot be read or written.
    #[error(transparent)]
    Senders(#[from] ReputationStoreError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The message could not be learned.
    #[error(transparent)]
    Lesson(#[from] LearnFailure),
}

/// The learner of a data folder. The data learned so far is read when it is first needed: it may
/// be large, and a server that judges no mail never needs it.
pub struct Learner {
    learning: OnceLock<Learning>,
    /// Held while the data is read.
    reading: Mutex<LearningLimits>,
    store: Store,
    folder: PathBuf,
    /// The cluster, if there is one.
    cluster: OnceLock<LearningCluster>,
    _lock: Lock,
}

/// The limits on the memory of learned data.
struct LearningLimits {
    bayes: BayesLimits,
    senders_max: usize,
}

impl Learner {
    /// Becomes the learner of `folder`, whose database is `store`; `None` if another process is.
    pub fn open(
        folder: &Path,
        store: &Store,
        settings: &RulesSettings,
    ) -> Result<Option<Self>, LearningError> {
        let Some(lock) = Lock::take(folder)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            learning: OnceLock::new(),
            reading: Mutex::new(LearningLimits {
                bayes: settings.bayes_limits(),
                senders_max: settings.senders_max,
            }),
            store: store.clone(),
            folder: folder.to_owned(),
            cluster: OnceLock::new(),
            _lock: lock,
        }))
    }

    /// The data learned so far. The first call reads it from the database.
    pub fn learning(&self) -> Result<&Learning, LearningError> {
        let limits = self.reading.lock();
        if let Some(learning) = self.learning.get() {
            return Ok(learning);
        }
        let tokens = Arc::new(StoredTokens::new(self.store.clone()));
        let senders = Arc::new(StoredBook::new(self.store.clone()));
        let learning = Learning {
            bayes: Arc::new(Bayes::open(tokens, limits.bayes)?),
            reputation: Arc::new(ReputationTable::open(senders, limits.senders_max)?),
            cluster: self.cluster.get().cloned(),
        };
        Ok(self.learning.get_or_init(|| learning))
    }

    /// The data learned so far, if it has been read.
    pub fn loaded(&self) -> Option<&Learning> {
        self.learning.get()
    }

    /// Submits the data learned since the last time to the database.
    pub fn keep(&self) -> Result<(), LearningError> {
        let Some(learning) = self.learning.get() else {
            return Ok(());
        };
        learning.bayes.keep()?;
        Ok(learning.reputation.keep()?)
    }

    /// Waits until everything that was passed to the database is on disk. Must not be called on an
    /// I/O runtime.
    pub fn settle(&self) -> Result<(), LearningError> {
        match self.learning.get() {
            Some(learning) => Ok(learning.bayes.settle()?),
            None => Ok(()),
        }
    }
}
