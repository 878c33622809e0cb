//! The latest publications of each topic, in memory: for `latest()`, `history()` and resumption.
//!
//! Each topic has a ring, bounded in number; all together are bounded in bytes. A publisher
//! keeps the record of its topic, so remembering costs one uncontended lock and no search.
//!
//! Every publication gets a [position](Remembered::position) when it is published. The position is
//! the message id if that is higher than all earlier positions, which is the case unless messages
//! overtook each other while they were judged, or one message was published under several topics.
//! Otherwise it is a number that is not an id. Readers receive positions in rising order, so the
//! last one that a reader received determines which it has missed. Positions are stored with the
//! history, and are the same after a restart.
//!
//! Invariants:
//! - Positions rise within each ring, and in the order in which readers are given publications:
//!   publications with readers are remembered and queued under [`RecentMessages::order`], and
//!   readers begin under it.
//! - A publication without a reader is remembered under its ring's lock while its route is still
//!   current. A reader that begins meanwhile changes the route first and reads the ring second, so
//!   the publication is either in the ring or routed to the reader, never both.
//! - A reader that resumes before a forgotten publication receives a gap: publications are
//!   forgotten by a ring, with their topic, or by a restart, which only restores stored ones.

mod eviction;
mod kept;

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gatepost_message::{MessageId, Publication, Topic, TopicFilter};
use gatepost_topics::MessageAllowance;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::rules_in_force::RulesInForce;
use crate::since::Since;
use kept::KeptHistory;

/// Bytes counted for each remembered publication besides its contents.
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

/// A publication and its place in the order of all publications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The position, unique and higher than that of all earlier publications.
    pub position: MessageId,
    /// The publication.
    pub publication: Arc<Publication>,
}

impl Deref for Remembered {
    type Target = Publication;

    fn deref(&self) -> &Publication {
        &self.publication
    }
}

#[derive(Default)]
struct Ring {
    publications: VecDeque<Remembered>,
    /// The position of the newest forgotten publication.
    forgotten: Option<MessageId>,
    /// Whether the record was removed from [`RecentMessages`]; a publication pushed to it would be
    /// lost.
    is_evicted: bool,
    kept: KeptHistory,
}

/// One topic's memory and counters.
pub(crate) struct TopicRecord {
    pub(crate) topic: Topic,
    ring: Mutex<Ring>,
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// The value of `messages` a second ago, and the rate since then; the housekeeper updates both.
    pub(crate) messages_before: AtomicU64,
    pub(crate) per_second: AtomicU64,
    /// The last publication's position; the topic that was unused longest is forgotten first.
    last: AtomicU64,
    /// The last position when the record was made: the record knows no earlier publications.
    since: MessageId,
    /// The messages that its rule still permits.
    pub(crate) allowance: MessageAllowance,
}

/// The reason why a publication was not kept; its publisher looks up its topic again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleTopic {
    /// The topic's record was evicted.
    Record,
    /// The topic has other subscribers than the publisher knows.
    Route,
}

/// The records of all topics.
pub(crate) struct RecentMessages {
    records: RwLock<HashMap<TopicKey, Arc<TopicRecord>>>,
    /// The last position that was assigned.
    last_position: AtomicU64,
    /// Held while a publication with readers is remembered and queued, and while a reader begins.
    order: Mutex<()>,
    /// The newest position of a topic that was evicted; 0 for none.
    evicted: AtomicU64,
    /// The same for topics that begin with `$`, which filters with a leading wildcard do not match.
    evicted_system: AtomicU64,
    /// Publications with an older position were published before the start.
    started: MessageId,
    bytes: AtomicUsize,
    per_topic: usize,
    bytes_max: usize,
    topics_max: usize,
    rules: Arc<RulesInForce>,
}

fn weight(publication: &Publication) -> usize {
    crate::weight::content_bytes(publication) + PUBLICATION_OVERHEAD_BYTES
}

impl RecentMessages {
    pub(crate) fn new(
        per_topic: usize,
        bytes_max: usize,
        topics_max: usize,
        rules: Arc<RulesInForce>,
    ) -> Self {
        Self {
            records: RwLock::default(),
            last_position: AtomicU64::new(0),
            order: Mutex::default(),
            evicted: AtomicU64::new(0),
            evicted_system: AtomicU64::new(0),
            started: MessageId::next(),
            bytes: AtomicUsize::new(0),
            per_topic: per_topic.max(1),
            bytes_max,
            topics_max: topics_max.max(1),
            rules,
        }
    }

    /// The record of `topic`; created if it is missing.
    pub(crate) fn record(&self, topic: &Topic) -> Arc<TopicRecord> {
        if let Some(record) = self.records.read().get(topic.as_str()) {
            return record.clone();
        }
        let mut records = self.records.write();
        if records.len() >= self.topics_max {
            self.forget_unused(&mut records);
        }
        let record = || {
            Arc::new(TopicRecord {
                topic: topic.clone(),
                ring: Mutex::new(Ring {
                    kept: self.kept_of(topic.as_str()),
                    ..Ring::default()
                }),
                messages: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                messages_before: AtomicU64::new(0),
                per_second: AtomicU64::new(0),
                last: AtomicU64::new(MessageId::next().number()),
                since: MessageId::from_number(self.last_position.load(Ordering::Relaxed)),
                allowance: MessageAllowance::default(),
            })
        };
        records
            .entry(TopicKey(topic.clone()))
            .or_insert_with(record)
            .clone()
    }

    /// The lock that is held from the look-up of a topic's readers until a publication is
    /// remembered and queued for them, and while a reader begins.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// Returns `wanted`, or the position after all others.
    fn next_position(&self, wanted: MessageId) -> MessageId {
        let next = |last: u64| {
            if wanted.number() > last {
                wanted.number()
            } else {
                MessageId::from_number(last).place_after().number()
            }
        };
        let last = self
            .last_position
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(next(last))
            })
            .unwrap_or_else(|last| last);
        MessageId::from_number(next(last))
    }

    /// Remembers a publication and returns its position, if `is_current` under the lock of its
    /// ring.
    pub(crate) fn push(
        &self,
        record: &TopicRecord,
        publication: &Arc<Publication>,
        is_current: impl FnOnce() -> bool,
    ) -> Result<MessageId, StaleTopic> {
        self.push_at(record, publication.id, publication, is_current)
    }

    /// Restores a publication from before the start, at its former position. Must be called in the
    /// order of positions, before anything is published.
    pub(crate) fn restore(&self, position: MessageId, publication: Publication) {
        let record = self.record(&publication.topic);
        // The record was just made, and nothing else is running yet.
        let _ = self.push_at(&record, position, &Arc::new(publication), || true);
    }

    /// The position of a publication that was published by an earlier run, or is remembered. If it
    /// is later than all others of its topic that are remembered, it is remembered too.
    pub(crate) fn place_again(&self, publication: &Arc<Publication>) -> MessageId {
        let record = self.record(&publication.topic);
        let ring = record.ring.lock();
        let of_ring = &ring.publications;
        let mut latest = of_ring.iter().rev();
        if let Some(found) = latest.find(|one| one.publication.id == publication.id) {
            return found.position;
        }
        let newest = of_ring.back().map(|newest| newest.publication.id);
        drop(ring);
        let id = publication.id;
        let pushed = (newest < Some(id)).then(|| self.push(&record, publication, || true));
        pushed
            .and_then(Result::ok)
            .unwrap_or_else(|| self.next_position(id))
    }

    fn push_at(
        &self,
        record: &TopicRecord,
        wanted: MessageId,
        publication: &Arc<Publication>,
        is_current: impl FnOnce() -> bool,
    ) -> Result<MessageId, StaleTopic> {
        let added = weight(publication);
        let mut ring = record.ring.lock();
        if ring.is_evicted {
            return Err(StaleTopic::Record);
        }
        if !is_current() {
            return Err(StaleTopic::Route);
        }
        let position = self.next_position(wanted);
        record.last.store(position.number(), Ordering::Relaxed);
        // Not a gap either: a reader that begins later was not meant to receive it.
        if !publication.is_remembered() {
            return Ok(position);
        }
        let total = self.bytes.fetch_add(added, Ordering::Relaxed) + added;
        ring.publications.push_back(Remembered {
            position,
            publication: publication.clone(),
        });
        let mut freed = 0;
        // If the sum of all topics is too large, a topic keeps only its latest, as long as that
        // fits.
        while ring.publications.len() > ring.kept.messages_max
            || (total - freed > self.bytes_max && ring.publications.len() > 1)
        {
            let Some(oldest) = ring.publications.pop_front() else {
                break;
            };
            freed += weight(&oldest);
            ring.forgotten = ring.forgotten.max(Some(oldest.position));
        }
        drop(ring);
        if freed > 0 {
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
        if total - freed > self.bytes_max {
            self.make_room(record);
        }
        Ok(position)
    }

    /// The topic's last publication.
    pub(crate) fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        let record = self.records.read().get(topic)?.clone();
        let ring = record.ring.lock();
        let latest = ring.publications.back();
        latest.map(|latest| latest.publication.clone())
    }

    /// The records under `filter`.
    fn matching(&self, filter: &TopicFilter) -> Vec<Arc<TopicRecord>> {
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

    /// The last `count` publications under any of `filters`, oldest first.
    pub(crate) fn history(&self, filters: &[TopicFilter], count: usize) -> Vec<Arc<Publication>> {
        let mut found = Vec::new();
        for record in filters.iter().flat_map(|filter| self.matching(filter)) {
            let ring = record.ring.lock();
            found.extend(ring.publications.iter().rev().take(count).cloned());
        }
        in_order(&mut found);
        found.drain(..found.len().saturating_sub(count));
        found.into_iter().map(|one| one.publication).collect()
    }

    /// The events before the live part, oldest first, and whether some may be missing.
    pub(crate) fn since(&self, filters: &[TopicFilter], since: Since) -> (Vec<Remembered>, bool) {
        if since == Since::Now {
            return (Vec::new(), false);
        }
        let records: Vec<_> = filters.iter().flat_map(|one| self.matching(one)).collect();
        let all = || {
            records.iter().flat_map(|record| {
                let ring = record.ring.lock();
                ring.publications.iter().cloned().collect::<Vec<_>>()
            })
        };
        let mut has_gap = false;
        let mut found: Vec<_> = match since {
            Since::Now => Vec::new(),
            Since::Everything => all().collect(),
            Since::Latest => {
                let latest = |one: &Arc<TopicRecord>| one.ring.lock().publications.back().cloned();
                records.iter().filter_map(latest).collect()
            }
            Since::From(time) => {
                let floor = MessageId::floor_at(time);
                has_gap = self.may_miss(filters, &records, floor);
                all().filter(|one| one.id >= floor).collect()
            }
            Since::After(id) => {
                let everything: Vec<_> = all().collect();
                let after = position_of(id, &everything);
                has_gap = self.may_miss(filters, &records, after);
                let is_later = |one: &Remembered| one.position > after;
                everything.into_iter().filter(is_later).collect()
            }
        };
        in_order(&mut found);
        (found, has_gap)
    }

    /// Whether a publication under `filters` after `position` may have been forgotten.
    fn may_miss(
        &self,
        filters: &[TopicFilter],
        records: &[Arc<TopicRecord>],
        position: MessageId,
    ) -> bool {
        let forgot = |record: &Arc<TopicRecord>| {
            let forgotten = record.ring.lock().forgotten;
            forgotten.is_some_and(|forgotten| forgotten > position)
        };
        if position < self.started || records.iter().any(forgot) {
            return true;
        }
        let was_evicted = |filter: &&TopicFilter| {
            let evicted = self.evicted_of(filter.as_str());
            evicted.load(Ordering::Relaxed) > position.number()
        };
        // A topic whose record is older was not evicted meanwhile.
        let is_whole = |filter: &TopicFilter| {
            let of_filter = |record: &&Arc<TopicRecord>| record.topic.as_str() == filter.as_str();
            let record = records.iter().find(of_filter);
            record.is_some_and(|record| record.since <= position)
        };
        !filters.iter().filter(was_evicted).all(is_whole)
    }

    /// The newest evicted position for the class of this topic or filter: with a leading `$`, or
    /// without.
    fn evicted_of(&self, text: &str) -> &AtomicU64 {
        if text.starts_with('$') {
            &self.evicted_system
        } else {
            &self.evicted
        }
    }

    /// All records, for the housekeeper and for the list of topics.
    pub(crate) fn all(&self) -> Vec<Arc<TopicRecord>> {
        self.records.read().values().cloned().collect()
    }
}

/// The position of `id`: the id itself, or the position of the first publication of this message.
/// An unknown id is treated as a position.
fn position_of(id: MessageId, remembered: &[Remembered]) -> MessageId {
    let is_position = remembered.iter().any(|one| one.position == id);
    let of_message = || {
        let of_message = remembered.iter().filter(|one| one.publication.id == id);
        of_message.map(|one| one.position).min()
    };
    if is_position {
        id
    } else {
        of_message().unwrap_or(id)
    }
}

fn in_order(found: &mut Vec<Remembered>) {
    found.sort_unstable_by_key(|one| one.position);
    // Several filters may match a topic.
    found.dedup_by_key(|one| one.position);
}

#[cfg(test)]
mod tests;
