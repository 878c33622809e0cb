//! Carries out changes of averages.

use super::history::SenderHistory;
use super::key;
use super::lesson::{SenderChange, SenderLesson};
use super::store::ReputationStoreError;
use super::table::ReputationTable;
use crate::bayes::LessonPosition;

impl ReputationTable {
    /// Carries out changes of a time, in seconds since 1970.
    pub fn carry_out(&self, changes: &[SenderChange], time: u32) {
        for change in changes.iter().filter(|change| change.is_valid()) {
            self.carry_out_one(change, time);
        }
    }

    /// Carries out lessons of a cluster. What they change is passed to the store together with the
    /// position.
    pub fn apply(
        &self,
        lessons: &[SenderLesson],
        position: LessonPosition,
    ) -> Result<(), ReputationStoreError> {
        let mut progress = self.progress();
        for lesson in lessons {
            self.carry_out(&lesson.changes, lesson.time);
        }
        progress.move_to(position);
        self.write(&mut progress)
    }

    fn carry_out_one(&self, change: &SenderChange, time: u32) {
        match change {
            SenderChange::Add(key, count, total) => {
                let mut shard = self.shard(key);
                shard.update(key, |entry| entry.add(*count, *total, time));
            }
            SenderChange::TakeOver(key, from) => self.take_over(key, from),
            SenderChange::Set(prefix, points) => {
                let mut shard = self.shard(prefix);
                shard.remove_all(prefix);
                let entry = SenderHistory::of_one(*points, time);
                shard.set(key::of_all_networks(prefix), entry);
            }
            SenderChange::Forget(prefix) => self.shard(prefix).remove_all(prefix),
            SenderChange::Note(key, points) => {
                let entry = SenderHistory::of_one(*points, time);
                self.shard(key).set(key.clone(), entry);
            }
            SenderChange::Learn {
                keys,
                message,
                points,
            } => self.learn(keys, message.as_deref(), *points, time),
            SenderChange::Unlearn { keys, message } => self.unlearn(keys, message),
        }
    }

    fn take_over(&self, key: &[u8], from: &[u8]) {
        // Both keys have the same name, and so the same shard.
        let mut shard = self.shard(key);
        if shard.get(key).is_some_and(|entry| entry.count > 0) {
            return;
        }
        if let Some(known) = shard.get(from).filter(|known| known.count > 0) {
            shard.remove_all(key::prefix_of(from));
            shard.set(key.to_vec(), known);
        }
    }

    fn learn(&self, keys: &[Vec<u8>], message: Option<&[u8]>, points: f64, time: u32) {
        let keys = keys.iter().map(Vec::as_slice);
        for key in keys.chain(message) {
            self.shard(key).update(key, |entry| {
                let mean = entry.mean().unwrap_or(0.0);
                let score = points + points.signum() * mean.abs();
                entry.add(1, score, time);
                if Some(key) == message && entry.count == 1 {
                    entry.add(1, score, time);
                }
            });
        }
    }

    fn unlearn(&self, keys: &[Vec<u8>], message: &[u8]) {
        let Some(points) = self.history(message).and_then(SenderHistory::mean) else {
            return;
        };
        for key in keys {
            let mut shard = self.shard(key);
            if shard.get(key).is_some() {
                shard.update(key, |entry| {
                    entry.count = entry.count.saturating_sub(1).max(1);
                    entry.total -= points;
                });
            }
        }
        self.shard(message).remove(message);
    }
}
