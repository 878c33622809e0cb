//! A copy of the learned data for a trial: read from the database, changed in memory only.

use std::sync::Arc;

use gatepost_learning::Learning;
use gatepost_learning::bayes::{Bayes, LearnedRecord, LessonPosition, TokenStore, TokenStoreError};
use gatepost_learning::reputation::{
    ReputationChanges, ReputationStore, ReputationStoreError, ReputationTable, SenderHistory,
};
use gatepost_rules::RulesSettings;
use gatepost_store::Store;

use super::LearningError;
use super::reputation_store::StoredBook;
use super::token_store::StoredTokens;

/// Reads the data learned so far. Needs no lock, since the copy is never written.
pub fn copy(store: &Store, settings: &RulesSettings) -> Result<Learning, LearningError> {
    let tokens = Arc::new(ReadOnlyStore(StoredTokens::new(store.clone())));
    let senders = Arc::new(ReadOnlyStore(StoredBook::new(store.clone())));
    Ok(Learning {
        bayes: Arc::new(Bayes::open(tokens, settings.bayes_limits())?),
        reputation: Arc::new(ReputationTable::open(senders, settings.senders_max)?),
        cluster: None,
    })
}

/// A store that can be read and discards every write.
struct ReadOnlyStore<S>(S);

impl TokenStore for ReadOnlyStore<StoredTokens> {
    fn load(&self, visit: &mut dyn FnMut(LearnedRecord)) -> Result<(), TokenStoreError> {
        self.0.load(visit)
    }

    fn write(&self, _records: Vec<LearnedRecord>) -> Result<(), TokenStoreError> {
        Ok(())
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        Ok(())
    }
}

impl ReputationStore for ReadOnlyStore<StoredBook> {
    fn load(
        &self,
        visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<Option<LessonPosition>, ReputationStoreError> {
        self.0.load(visit)
    }

    fn write(&self, _changes: ReputationChanges) -> Result<(), ReputationStoreError> {
        Ok(())
    }
}
