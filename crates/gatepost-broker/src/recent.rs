//! What topics said lately, in memory: for `latest()`, `history()` and readers that resume.
//!
//! Each topic has a ring, bounded in number; all together are bounded in bytes. A publisher
//! keeps the record of its topic, so remembering costs one uncontended lock and no search.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gatepost_message::{MessageId, Publication, Topic, TopicFilter};
use parking_lot::{Mutex, RwLock};

use crate::reader::Since;

/// Bytes counted for each remembered publication besides its payload.
const PUBLICATION_OVERHEAD_BYTES: usize = 160;

/// A topic as a key that can be looked up by text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TopicKey(pub(crate) Topic);

impl Hash for TopicKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Borrow<str> for TopicKey {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

#[derive(Default)]
struct Ring {
    publications: VecDeque<Arc<Publication>>,
    /// The newest that was forgotten.
    forgotten: Option<MessageId>,
}

/// One topic's memory and counters.
pub(crate) struct Record {
    pub(crate) topic: Topic,
    ring: Mutex<Ring>,
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// `messages` a second ago, and the rate since, both kept by the housekeeper.
    pub(crate) messages_before: AtomicU64,
    pub(crate) per_second: AtomicU64,
    /// The last publication's id; what was unused longest is forgotten first.
    last: AtomicU64,
}

/// The records of all topics.
pub(crate) struct Recent {
    records: RwLock<HashMap<TopicKey, Arc<Record>>>,
    bytes: AtomicUsize,
    per_topic: usize,
    bytes_max: usize,
    topics_max: usize,
}

fn weight(publication: &Publication) -> usize {
    publication.payload.len() + PUBLICATION_OVERHEAD_BYTES
}

impl Recent {
    pub(crate) fn new(per_topic: usize, bytes_max: usize, topics_max: usize) -> Self {
        Self {
            records: RwLock::default(),
            bytes: AtomicUsize::new(0),
            per_topic: per_topic.max(1),
            bytes_max,
            topics_max: topics_max.max(1),
        }
    }

    /// The record of `topic`; made where it is missing.
    pub(crate) fn record(&self, topic: &Topic) -> Arc<Record> {
        if let Some(record) = self.records.read().get(topic.as_str()) {
            return record.clone();
        }
        let mut records = self.records.write();
        if records.len() >= self.topics_max {
            self.forget_unused(&mut records);
        }
        let record = || {
            Arc::new(Record {
                topic: topic.clone(),
                ring: Mutex::default(),
                messages: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                messages_before: AtomicU64::new(0),
                per_second: AtomicU64::new(0),
                last: AtomicU64::new(MessageId::next().number()),
            })
        };
        records
            .entry(TopicKey(topic.clone()))
            .or_insert_with(record)
            .clone()
    }

    /// Forgets the tenth of the topics that was unused longest, so that the search for them is
    /// paid for by many new ones.
    fn forget_unused(&self, records: &mut HashMap<TopicKey, Arc<Record>>) {
        let mut ages: Vec<u64> = records
            .values()
            .map(|record| record.last.load(Ordering::Relaxed))
            .collect();
        let tenth = ages.len() / 10;
        let (_, &mut limit, _) = ages.select_nth_unstable(tenth);
        records.retain(|_, record| {
            let keep = record.last.load(Ordering::Relaxed) > limit;
            if !keep {
                let freed: usize = record
                    .ring
                    .lock()
                    .publications
                    .iter()
                    .map(|p| weight(p))
                    .sum();
                self.bytes.fetch_sub(freed, Ordering::Relaxed);
            }
            keep
        });
    }

    /// Remembers a publication.
    pub(crate) fn push(&self, record: &Record, publication: &Arc<Publication>) {
        record
            .last
            .store(publication.id.number(), Ordering::Relaxed);
        let added = weight(publication);
        let total = self.bytes.fetch_add(added, Ordering::Relaxed) + added;
        let mut ring = record.ring.lock();
        ring.publications.push_back(publication.clone());
        let mut freed = 0;
        // Where all together are too many, a topic keeps only its latest.
        while ring.publications.len() > self.per_topic
            || (total - freed > self.bytes_max && ring.publications.len() > 1)
        {
            let Some(oldest) = ring.publications.pop_front() else {
                break;
            };
            freed += weight(&oldest);
            ring.forgotten = ring.forgotten.max(Some(oldest.id));
        }
        drop(ring);
        if freed > 0 {
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    /// The topic's last publication.
    pub(crate) fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        let record = self.records.read().get(topic)?.clone();
        let ring = record.ring.lock();
        ring.publications.back().cloned()
    }

    /// The records under `filter`.
    fn matching(&self, filter: &TopicFilter) -> Vec<Arc<Record>> {
        let records = self.records.read();
        if !filter.has_wildcard() {
            return records.get(filter.as_str()).cloned().into_iter().collect();
        }
        records
            .values()
            .filter(|record| filter.matches(record.topic.as_str()))
            .cloned()
            .collect()
    }

    /// The last `count` publications under `filter`, oldest first.
    pub(crate) fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        let mut found = Vec::new();
        for record in self.matching(filter) {
            found.extend(
                record
                    .ring
                    .lock()
                    .publications
                    .iter()
                    .rev()
                    .take(count)
                    .cloned(),
            );
        }
        found.sort_unstable_by_key(|publication| publication.id);
        found.drain(..found.len().saturating_sub(count));
        found
    }

    /// What a reader gets before the live part, oldest first, and whether some is missing.
    pub(crate) fn since(
        &self,
        filters: &[TopicFilter],
        since: Since,
    ) -> (Vec<Arc<Publication>>, bool) {
        if since == Since::Now {
            return (Vec::new(), false);
        }
        let mut found = Vec::new();
        let mut has_gap = false;
        for record in filters.iter().flat_map(|filter| self.matching(filter)) {
            let ring = record.ring.lock();
            match since {
                Since::Latest => found.extend(ring.publications.back().cloned()),
                Since::After(id) => {
                    has_gap |= ring.forgotten.is_some_and(|forgotten| forgotten > id);
                    found.extend(ring.publications.iter().filter(|p| p.id > id).cloned());
                }
                _ => found.extend(ring.publications.iter().cloned()),
            }
        }
        found.sort_unstable_by_key(|publication| publication.id);
        found.dedup_by_key(|publication| publication.id);
        (found, has_gap)
    }

    /// All records, for the housekeeper and for the list of topics.
    pub(crate) fn all(&self) -> Vec<Arc<Record>> {
        self.records.read().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(recent: &Recent, topic: &str, payload: &str) -> MessageId {
        let topic = Topic::new(topic).expect("a topic");
        let publication = Arc::new(Publication::new(topic.clone(), payload.to_owned()));
        recent.push(&recent.record(&topic), &publication);
        publication.id
    }

    fn filter(text: &str) -> TopicFilter {
        TopicFilter::new(text).expect("a filter")
    }

    #[test]
    fn the_last_ones_are_remembered_over_all_topics() {
        let recent = Recent::new(3, 1 << 20, 10);
        let ids: Vec<_> = (0..8)
            .map(|number| publish(&recent, ["a/x", "a/y"][number % 2], "payload"))
            .collect();
        let history = recent.history(&filter("a/+"), 4);
        let found: Vec<_> = history.iter().map(|publication| publication.id).collect();
        assert_eq!(found, ids[4..]);
        assert_eq!(recent.latest("a/y").expect("one").id, ids[7]);
    }

    #[test]
    fn a_gap_is_told_when_something_was_forgotten() {
        let recent = Recent::new(2, 1 << 20, 10);
        let ids: Vec<_> = (0..4).map(|_| publish(&recent, "a", "payload")).collect();
        let (found, has_gap) = recent.since(&[filter("a")], Since::After(ids[2]));
        assert_eq!((found.len(), has_gap), (1, false));
        let (found, has_gap) = recent.since(&[filter("a")], Since::After(ids[0]));
        assert_eq!((found.len(), has_gap), (2, true));
    }

    #[test]
    fn bytes_and_topics_are_bounded() {
        let recent = Recent::new(100, 10_000, 50);
        for number in 0..500 {
            publish(&recent, &format!("topic/{number}"), &"x".repeat(100));
            assert!(recent.records.read().len() <= 50);
        }
        for _ in 0..500 {
            publish(&recent, "one", &"x".repeat(1000));
        }
        let one = recent.record(&Topic::new("one").expect("a topic"));
        assert!(one.ring.lock().publications.len() < 10);
    }
}
