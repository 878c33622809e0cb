//! `--learned`: scans with the learned data of the data folder, and stores their additions.

use gatepost_learning::Learning;
use gatepost_operations::learner::{self, Learner, LearningError};
use gatepost_store::{Store, StoreError};

use crate::cli::database::{self, NoDatabase};
use crate::config::Config;

/// The reason why learned data cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LearnedError {
    #[error("the gateway is running with this data folder: send it the message instead (spamc)")]
    Serving,
    #[error("a server of a cluster learns while it runs: send it the message instead (spamc)")]
    OfCluster,
    #[error(transparent)]
    Database(#[from] NoDatabase),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Learning(#[from] LearningError),
}

/// The learned state, as long as this process is the one that adds to it.
pub(super) struct LearnedState {
    store: Store,
    learner: Learner,
}

impl LearnedState {
    pub(super) fn open(config: &Config) -> Result<Self, LearnedError> {
        database::announce(config, false)?;
        let store = Store::open_secondary(&config.data, &config.store)?;
        if config.backbone.is_set() || learner::is_of_cluster(&store)? {
            return Err(LearnedError::OfCluster);
        }
        match Learner::open(&config.data, &store, &config.rules)? {
            Some(learner) => Ok(Self { store, learner }),
            None => Err(LearnedError::Serving),
        }
    }

    pub(super) fn learning(&self) -> Result<Learning, LearnedError> {
        Ok(self.learner.learning()?.clone())
    }

    /// Waits until the learned data is on disk.
    pub(super) fn close(self) -> Result<(), LearnedError> {
        self.learner.keep()?;
        self.learner.settle()?;
        self.store.close();
        Ok(())
    }
}
