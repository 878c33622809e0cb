//! The learned data of a server of a cluster.
//!
//! The cluster decides what Bayes learns, and what the averages of senders are. A server that joins
//! a cluster takes the data of the cluster. What Bayes had learned before is written to a file,
//! since nothing else has it then; averages that were no cluster's are added to those of the
//! cluster.

use std::fs::File;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_learning::LearnFailure;
use gatepost_learning::bayes::{LearnedRecord, Lesson, LessonOutcome, LessonPosition};
use gatepost_learning::lessons::{LearnedData, LearningCluster};
use gatepost_learning::reputation::SenderLesson;
use gatepost_store::{Store, StoreChange, StoreError};

use super::{Learner, reputation_store, token_store};

/// The beginning of the name of the file with what a server had learned before it joined a cluster.
/// The time follows, so that no earlier file is replaced.
const EARLIER_FILE: &str = "learned-before-cluster-";

/// Whether the server belongs to a cluster, which decides what it learns.
pub fn is_of_cluster(store: &Store) -> Result<bool, StoreError> {
    let position = store.record(token_store::SPACE, LearnedRecord::POSITION_KEY)?;
    Ok(position.is_some())
}

/// The server is part of no cluster: what it learns from now on is its own.
pub async fn leave_cluster(store: &Store) -> Result<(), StoreError> {
    let removal = is_of_cluster(store)?.then(|| StoreChange::DeleteRecord {
        space: token_store::SPACE,
        key: Bytes::from_static(LearnedRecord::POSITION_KEY),
    });
    let changes: Vec<StoreChange> = removal
        .into_iter()
        .chain(reputation_store::leaving(store)?)
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    store.submit(changes)?.committed().await
}

impl Learner {
    /// From now on, the cluster decides what is learned. Called before the data is read.
    pub fn share(&self, cluster: LearningCluster) {
        // A second cluster would not be used; there is one.
        let _ = self.cluster.set(cluster);
    }

    /// Writes the data to a file, if there is any that did not come from a cluster.
    fn save_earlier(&self) -> Result<(), LearnFailure> {
        let (backup, position) = LearnedData::<Lesson>::export(self)?;
        let totals = self.learning().map_err(failed)?.bayes.totals();
        if position.is_some() || (totals.spam == 0 && totals.ham == 0) {
            return Ok(());
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = time.unwrap_or_default().as_secs();
        let path = self.folder.join(format!("{EARLIER_FILE}{seconds}.txt"));
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(&backup)?;
            file.sync_all()
        };
        write().map_err(failed)?;
        tracing::warn!(target: "backbone", spam = totals.spam, ham = totals.ham,
            file = %path.display(),
            "this server learns what its cluster has learned; what it had learned before is in \
             a file");
        Ok(())
    }
}

impl LearnedData<Lesson> for Learner {
    fn position(&self) -> Result<Option<LessonPosition>, LearnFailure> {
        Ok(self.learning().map_err(failed)?.bayes.position())
    }

    fn apply(
        &self,
        lessons: &[Lesson],
        position: LessonPosition,
    ) -> Result<Vec<LessonOutcome>, LearnFailure> {
        let bayes = &self.learning().map_err(failed)?.bayes;
        Ok(bayes.apply(lessons, position)?)
    }

    fn export(&self) -> Result<(Vec<u8>, Option<LessonPosition>), LearnFailure> {
        let mut backup = Vec::new();
        let bayes = &self.learning().map_err(failed)?.bayes;
        let position = bayes.export(&mut backup)?;
        Ok((backup, position))
    }

    fn replace(&self, backup: &[u8], position: LessonPosition) -> Result<(), LearnFailure> {
        self.save_earlier()?;
        let bayes = &self.learning().map_err(failed)?.bayes;
        bayes.import_at(backup, Some(position))?;
        Ok(())
    }
}

impl LearnedData<SenderLesson> for Learner {
    fn position(&self) -> Result<Option<LessonPosition>, LearnFailure> {
        Ok(self.learning().map_err(failed)?.reputation.position())
    }

    fn apply(
        &self,
        lessons: &[SenderLesson],
        position: LessonPosition,
    ) -> Result<Vec<()>, LearnFailure> {
        let table = &self.learning().map_err(failed)?.reputation;
        table.apply(lessons, position)?;
        Ok(vec![(); lessons.len()])
    }

    fn export(&self) -> Result<(Vec<u8>, Option<LessonPosition>), LearnFailure> {
        Ok(self.learning().map_err(failed)?.reputation.export())
    }

    fn replace(&self, backup: &[u8], position: LessonPosition) -> Result<(), LearnFailure> {
        let learning = self.learning().map_err(failed)?;
        let earlier = learning.reputation.replace(backup, position)?;
        if !earlier.is_empty() {
            tracing::info!(target: "backbone", averages = earlier.len(),
                "the averages of senders of this server are added to those of its cluster");
            learning.count_senders(&earlier);
        }
        Ok(())
    }
}

fn failed(error: impl ToString) -> LearnFailure {
    LearnFailure::NotKept(error.to_string())
}
