//! Eviction: the publications and topics that were unused longest make space for newer ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatepost_message::MessageId;

use super::{RecentMessages, Ring, TopicKey, TopicRecord, weight};

impl RecentMessages {
    /// Forgets the tenth of the topics that was unused longest, so that the cost of the search is
    /// spread over many new topics.
    pub(super) fn forget_unused(&self, records: &mut HashMap<TopicKey, Arc<TopicRecord>>) {
        let mut ages: Vec<u64> = records
            .values()
            .map(|record| record.last.load(Ordering::Relaxed))
            .collect();
        let tenth = ages.len() / 10;
        let (_, &mut limit, _) = ages.select_nth_unstable(tenth);
        records.retain(|_, record| {
            let keep = record.last.load(Ordering::Relaxed) > limit;
            if !keep {
                let mut ring = record.ring.lock();
                ring.is_evicted = true;
                // Publishers keep records of topics that they do not use, for long.
                let freed = ring.forget_all();
                let newest = ring.forgotten.map_or(0, MessageId::number);
                let evicted = self.evicted_of(record.topic.as_str());
                evicted.fetch_max(newest, Ordering::Relaxed);
                self.bytes.fetch_sub(freed, Ordering::Relaxed);
            }
            keep
        });
    }

    /// Forgets publications, beginning with the topics that were unused longest, until the total is
    /// a tenth below the bound, so that the cost of the search is spread over many publications.
    pub(super) fn make_room(&self, newest: &TopicRecord) {
        let target = self.bytes_max / 10 * 9;
        let mut by_age: Vec<_> = self.records.read().values().cloned().collect();
        by_age.sort_by_cached_key(|record| record.last.load(Ordering::Relaxed));
        for record in by_age {
            let total = self.bytes.load(Ordering::Relaxed);
            let is_newest = std::ptr::eq(Arc::as_ptr(&record), newest);
            if total <= target || (is_newest && total <= self.bytes_max) {
                return;
            }
            let mut ring = record.ring.lock();
            if ring.is_evicted {
                continue;
            }
            let freed = ring.forget_all();
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }
}

impl Ring {
    /// Forgets all publications, which a later reader learns by a gap; returns the number of bytes
    /// that are free again.
    fn forget_all(&mut self) -> usize {
        let forgotten = std::mem::take(&mut self.publications);
        let newest = forgotten.back().map(|newest| newest.position);
        self.forgotten = self.forgotten.max(newest);
        forgotten.iter().map(|one| weight(one)).sum()
    }
}
