//! Takes batches of changes from the queue and commits them: on the writer's thread, or in a
//! simulation, which determines the times of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::copying::{CommitDecision, CopiedCommit, SharedCopy};
use crate::folder::DataFolder;
use crate::group::{CommitOutcome, failure_in};
use crate::queue::{CommitBatch, CommitQueue, FailGroupOnDrop, FailWaitingOnDrop};
use crate::writer::StoreWriter;

/// The pause between two steps of removing rows, in which the processor and the disk serve others.
const STEP_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Committer {
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) writer: StoreWriter,
    pub(crate) commits: Arc<AtomicU64>,
    pub(crate) copy: SharedCopy,
    /// The folder of the database; `None` for one in memory.
    pub(crate) folder: Option<DataFolder>,
}

impl Committer {
    /// Commits batch after batch, until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        // Also when the writer panics: no caller may wait for a commit that cannot happen.
        let _closing = FailWaitingOnDrop(self.queue.clone());
        while let Some(batch) = self.queue.take(self.next_step()) {
            if batch.changes.is_empty() {
                self.writer.trim_if_due();
                continue;
            }
            let deciding = FailGroupOnDrop::new(batch.group.clone());
            let outcome = self.writer.commit(&batch);
            deciding.release();
            self.decide(batch, outcome);
            self.committed();
        }
        self.writer.finish();
    }

    /// Publishes the outcome, or leaves that to the copy of what was stored.
    fn decide(&self, batch: CommitBatch, outcome: CommitOutcome) {
        let (Some(copy), Ok(left_out)) = (self.copy.get(), &outcome) else {
            self.queue.decide(&batch.group, outcome);
            return;
        };
        let (queue, group) = (self.queue.clone(), batch.group.clone());
        let changes = batch.into_changes_without(left_out);
        copy.copy(CopiedCommit {
            changes,
            decision: CommitDecision::new(queue, group, outcome),
            folder: self.folder.as_ref(),
        });
    }

    /// Makes one commit of batches that have one submission each.
    pub(crate) fn commit_together(&mut self, batches: Vec<CommitBatch>) {
        let mut together = CommitBatch::default();
        let mut groups = Vec::new();
        for mut batch in batches {
            together.add(&mut batch.changes, None);
            groups.push(batch.group);
        }
        let outcome = self.writer.commit(&together);
        for (number, group) in groups.iter().enumerate() {
            let own = outcome.as_ref().map(|left_out| {
                let failure = failure_in(left_out, number as u32);
                failure
                    .map(|error| (0, error.clone()))
                    .into_iter()
                    .collect()
            });
            self.queue.decide(group, own.map_err(Clone::clone));
        }
        self.committed();
    }

    /// When to remove more rows if nothing is to be committed before; `None` if there are none.
    fn next_step(&self) -> Option<Instant> {
        self.writer
            .has_rows_to_remove()
            .then(|| Instant::now() + STEP_PAUSE)
    }

    fn committed(&mut self) {
        self.writer.trim_if_due();
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}
