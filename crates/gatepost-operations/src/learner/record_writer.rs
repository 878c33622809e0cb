//! Writes the records of one space, and keeps what it has submitted until that is on disk.
//!
//! The learned data in memory does not follow the commits: a message counts as learned from the
//! moment at which it was learned. So records whose commit failed are submitted again with the next
//! write, and before [`RecordWriter::settle`] reports that all is stored.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use gatepost_store::{Store, StoreChange, StoreError, Ticket};
use parking_lot::Mutex;

pub(super) struct RecordWriter {
    store: Store,
    space: &'static str,
    progress: Mutex<WriterProgress>,
}

/// The writes that are not known to be on disk.
#[derive(Default)]
struct WriterProgress {
    /// The records whose commit is not known. Each is stored only after the earlier ones, so that
    /// those that fail are the last ones.
    submitted: VecDeque<(Ticket, Vec<StoreChange>)>,
    failed: FailedRecords,
}

/// Records whose commit failed, each with its last value.
#[derive(Default)]
struct FailedRecords {
    /// Whether all earlier records of the space are removed first.
    is_cleared: bool,
    by_key: BTreeMap<Bytes, Option<Bytes>>,
}

impl RecordWriter {
    pub(super) fn new(store: Store, space: &'static str) -> Self {
        Self {
            store,
            space,
            progress: Mutex::default(),
        }
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    /// Submits changes of this space, after those whose commit failed. If they are refused, the
    /// caller keeps them.
    pub(super) fn write(&self, changes: Vec<StoreChange>) -> Result<(), StoreError> {
        self.submit(changes).map(drop)
    }

    /// Waits until everything that was written is on disk, on a thread that may wait.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        match self.submit(Vec::new())? {
            Some(newest) => wait(&newest),
            None => Ok(()),
        }
    }

    /// The commit of everything that is not known to be on disk.
    fn submit(&self, changes: Vec<StoreChange>) -> Result<Option<Ticket>, StoreError> {
        let mut progress = self.progress.lock();
        progress.settle();
        let mut all = progress.failed.changes(self.space);
        all.extend(changes);
        let newest = progress.submitted.back().map(|(ticket, _)| ticket.clone());
        if all.is_empty() {
            return Ok(newest);
        }
        let ticket = self.store.submit_after(&mut all.clone(), newest.as_ref())?;
        progress.failed = FailedRecords::default();
        progress.submitted.push_back((ticket.clone(), all));
        Ok(Some(ticket))
    }
}

impl WriterProgress {
    /// Forgets the writes that are on disk, and takes back those that failed.
    fn settle(&mut self) {
        while let Some(outcome) = self
            .submitted
            .front()
            .and_then(|(first, _)| first.outcome())
        {
            if outcome.is_ok() {
                self.submitted.pop_front();
                continue;
            }
            // Those that follow fail with it.
            for (_, changes) in self.submitted.drain(..) {
                self.failed.add(changes);
            }
        }
    }
}

impl FailedRecords {
    fn add(&mut self, changes: Vec<StoreChange>) {
        for change in changes {
            match change {
                StoreChange::PutRecord { key, value, .. } => {
                    self.by_key.insert(key, Some(value));
                }
                StoreChange::DeleteRecord { key, .. } => {
                    self.by_key.insert(key, None);
                }
                // Of the whole space; no other changes are written.
                _ => {
                    self.by_key.clear();
                    self.is_cleared = true;
                }
            }
        }
    }

    fn changes(&self, space: &'static str) -> Vec<StoreChange> {
        let cleared = self.is_cleared.then(|| StoreChange::DeleteRecords {
            space,
            prefix: Bytes::new(),
        });
        let records = self.by_key.iter().map(|(key, value)| match value {
            Some(value) => StoreChange::PutRecord {
                space,
                key: key.clone(),
                value: value.clone(),
            },
            None => StoreChange::DeleteRecord {
                space,
                key: key.clone(),
            },
        });
        cleared.into_iter().chain(records).collect()
    }
}

/// Waits for a commit on a thread that may wait.
pub fn wait(ticket: &Ticket) -> Result<(), StoreError> {
    match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime.block_on(ticket.committed()),
        Err(_) => ticket.outcome().unwrap_or(Err(StoreError::Closed)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use gatepost_store::{ManualClock, ManualWriter, SimulatedDatabase, StoreSettings};

    use super::*;

    const SPACE: &str = "test";

    fn put(key: &'static str, value: &'static str) -> StoreChange {
        StoreChange::PutRecord {
            space: SPACE,
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        }
    }

    fn delete(key: &'static str) -> StoreChange {
        StoreChange::DeleteRecord {
            space: SPACE,
            key: Bytes::from_static(key.as_bytes()),
        }
    }

    fn clear() -> StoreChange {
        StoreChange::DeleteRecords {
            space: SPACE,
            prefix: Bytes::new(),
        }
    }

    fn open() -> (RecordWriter, ManualWriter) {
        let database = SimulatedDatabase::in_memory().expect("a database");
        let clock = ManualClock::at(SystemTime::now());
        let opened = database.open(&StoreSettings::default(), clock);
        let (store, commits) = opened.expect("a store");
        (RecordWriter::new(store, SPACE), commits)
    }

    /// Settles on this thread, while another one makes the commits.
    fn settle(writer: &RecordWriter, commits: &mut ManualWriter) {
        std::thread::scope(|threads| {
            let settled = threads.spawn(|| writer.settle().expect("stored"));
            while !settled.is_finished() {
                commits.commit(usize::MAX);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn stored(writer: &RecordWriter) -> Vec<(String, String)> {
        let records = writer.store().records(SPACE, b"").expect("read");
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        let pairs = records.into_iter();
        pairs.map(|(key, value)| (text(key), text(value))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |text: &str| text.to_owned();
        let pairs = expected.iter();
        pairs
            .map(|(key, value)| (owned(key), owned(value)))
            .collect()
    }

    #[test]
    fn what_a_commit_has_failed_to_store_is_stored_later() {
        let (writer, mut commits) = open();
        writer
            .write(vec![put("a", "1"), put("b", "1")])
            .expect("accepted");
        writer
            .write(vec![put("a", "2"), delete("b")])
            .expect("accepted");
        commits.fail(&StoreError::Closed);
        // Nothing is new, as for a message that counts as learned.
        settle(&writer, &mut commits);
        assert_eq!(stored(&writer), pairs(&[("a", "2")]));
        assert_eq!(commits.waiting(), 0);
        settle(&writer, &mut commits);

        writer
            .write(vec![clear(), put("c", "1")])
            .expect("accepted");
        commits.fail(&StoreError::Closed);
        writer.write(vec![put("c", "2")]).expect("accepted");
        commits.fail(&StoreError::Closed);
        writer.write(vec![put("d", "1")]).expect("accepted");
        settle(&writer, &mut commits);
        assert_eq!(stored(&writer), pairs(&[("c", "2"), ("d", "1")]));
    }
}
