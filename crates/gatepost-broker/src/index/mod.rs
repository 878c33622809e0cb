//! All subscriptions, found by topic.
//!
//! Filters without wildcards, which are nearly all if there are many, are in hash maps split into
//! shards; filters with wildcards are in a tree of levels. Both are guarded by locks, which a
//! change holds for one subscription only (well under a microsecond). Publishers keep the result of
//! a search (see `publisher.rs`) and search again only if a generation shows that it may have
//! changed, so publishing normally takes no lock here at all.
//!
//! Immutable snapshots, copied at each batch of changes, were rejected: a snapshot of a flat level
//! with 100,000 names costs milliseconds to copy; a short lock costs nanoseconds.
//!
//! Invariant: a change of a topic's subscriptions increments, *after* the change and before the
//! subscriber is answered, a generation that every publisher of that topic compares. A publisher
//! reads generations *before* it searches, so its result is never older than the generation that it
//! keeps.

mod groups;
mod list;
mod tree;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gatepost_message::TopicFilter;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

use crate::filter::RequestedFilter;
use crate::nodes::OtherNodes;
use crate::session::Session;
use crate::subscription::{GroupMember, Subscription};
use list::Subscriptions;
use tree::{FilterNode, split_level};

const SHARDS: usize = 256;
/// Tables use the lowest and the highest bits of a hash; the shard takes some between.
const SHARD_SHIFT: u32 = 40;
const BRANCHES: usize = 64;

/// One filter without wildcards, and its subscriptions.
///
/// It is stored outside the table, which contains only its address: a growing table frees its
/// former allocation, which is not returned to the system for long. That allocation has 9 bytes
/// per slot instead of 41.
struct ExactFilter {
    /// The hash is kept, so that a growing table need not read the text.
    hash: u64,
    filter: TopicFilter,
    subscriptions: Subscriptions,
}

#[derive(Default)]
struct IndexShard {
    generation: AtomicU64,
    /// Filters by the hash of their text, which is computed once for each change.
    table: RwLock<HashTable<Box<ExactFilter>>>,
}

impl IndexShard {
    fn find<'t>(
        table: &'t HashTable<Box<ExactFilter>>,
        hash: u64,
        text: &str,
    ) -> Option<&'t ExactFilter> {
        let is_it = |entry: &ExactFilter| entry.hash == hash && entry.filter.as_str() == text;
        table.find(hash, |entry| is_it(entry)).map(|entry| &**entry)
    }
}

/// The state of everything that could change the match of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generations {
    exact: u64,
    branch: u64,
    everywhere: u64,
}

/// The place of the generations of one topic, computed once for each topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopicHash {
    hash: u64,
    branch: usize,
}

/// All subscriptions of the broker.
pub(crate) struct Index {
    hasher: DefaultHashBuilder,
    shards: Box<[IndexShard]>,
    wildcards: RwLock<FilterNode>,
    wildcard_count: AtomicUsize,
    branches: Box<[AtomicU64]>,
    /// The generation for filters that begin with a wildcard, and for sessions whose delivery mode
    /// changes.
    everywhere: AtomicU64,
    count: AtomicUsize,
    /// Informed of each filter that gets its first subscription or loses its last one.
    nodes: Option<Arc<dyn OtherNodes>>,
    /// Filters that the other nodes know as long as the server runs, with and without subscribers.
    lasting: &'static [&'static str],
}

impl Index {
    /// An index whose server receives the publications of other nodes under the filters `lasting`,
    /// even if these have no subscriber.
    pub(crate) fn new(
        nodes: Option<Arc<dyn OtherNodes>>,
        lasting: &'static [&'static str],
    ) -> Self {
        for filter in lasting {
            if let (Some(nodes), Ok(filter)) = (&nodes, TopicFilter::new(filter)) {
                nodes.set_interest(&filter, true);
            }
        }
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| IndexShard::default()).collect(),
            wildcards: RwLock::default(),
            wildcard_count: AtomicUsize::new(0),
            branches: (0..BRANCHES).map(|_| AtomicU64::new(0)).collect(),
            everywhere: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            nodes,
            lasting,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    fn branch(&self, text: &str) -> usize {
        self.hash(split_level(text).0) as usize % BRANCHES
    }

    fn shard(&self, hash: u64) -> &IndexShard {
        &self.shards[(hash >> SHARD_SHIFT) as usize % SHARDS]
    }

    pub(crate) fn topic_hash(&self, topic: &str) -> TopicHash {
        TopicHash {
            hash: self.hash(topic),
            branch: self.branch(topic),
        }
    }

    #[inline]
    pub(crate) fn generations(&self, hash: TopicHash) -> Generations {
        Generations {
            exact: self.shard(hash.hash).generation.load(Ordering::Acquire),
            branch: self.branches[hash.branch].load(Ordering::Acquire),
            everywhere: self.everywhere.load(Ordering::Acquire),
        }
    }

    /// Invalidates all routes, because a session's delivery mode has changed.
    pub(crate) fn invalidate_all(&self) {
        self.everywhere.fetch_add(1, Ordering::Release);
    }

    /// Bumps the generation of a filter with wildcards.
    fn invalidate_wildcard(&self, text: &str) {
        let generation = if text.starts_with(['+', '#']) {
            &self.everywhere
        } else {
            &self.branches[self.branch(text)]
        };
        generation.fetch_add(1, Ordering::Release);
    }

    /// Runs `change` on the list of `filter`, and invalidates the routes that it may concern. An
    /// empty list is removed.
    fn change<T>(&self, filter: &TopicFilter, change: impl FnOnce(&mut Subscriptions) -> T) -> T {
        let text = filter.as_str();
        if filter.has_wildcard() {
            let mut root = self.wildcards.write();
            let list = root.list_mut(Some(text));
            let was_empty = list.is_none();
            let result = change(list);
            let is_empty = list.is_none();
            if is_empty {
                root.prune(Some(text));
            }
            match (was_empty, is_empty) {
                (true, false) => self.wildcard_count.fetch_add(1, Ordering::Release),
                (false, true) => self.wildcard_count.fetch_sub(1, Ordering::Release),
                _ => 0,
            };
            self.note_edge(filter, was_empty, is_empty);
            drop(root);
            self.invalidate_wildcard(text);
            return result;
        }
        let hash = self.hash(text);
        let shard = self.shard(hash);
        let mut table = shard.table.write();
        let mut was_empty = false;
        let mut entry = table
            .entry(
                hash,
                |entry| entry.hash == hash && entry.filter == *filter,
                |entry| entry.hash,
            )
            .or_insert_with(|| {
                was_empty = true;
                Box::new(ExactFilter {
                    hash,
                    filter: filter.clone(),
                    subscriptions: Subscriptions::None,
                })
            });
        let result = change(&mut entry.get_mut().subscriptions);
        let is_empty = entry.get().subscriptions.is_none();
        if is_empty {
            entry.remove();
        }
        self.note_edge(filter, was_empty, is_empty);
        drop(table);
        shard.generation.fetch_add(1, Ordering::Release);
        result
    }

    /// Informs the other nodes where the filter began or ceased to have subscriptions. Called under
    /// the lock of the filter's list, so that they learn of its changes in their order.
    fn note_edge(&self, filter: &TopicFilter, was_empty: bool, is_empty: bool) {
        if let Some(nodes) = &self.nodes
            && was_empty != is_empty
            && !filter.as_str().starts_with('$')
            && !self.lasting.contains(&filter.as_str())
        {
            nodes.set_interest(filter, !is_empty);
        }
    }

    /// The result of `find` in the subscriptions of this filter; `None` if there are none.
    fn find_in<T>(
        &self,
        filter: &TopicFilter,
        find: impl FnOnce(&Subscriptions) -> Option<T>,
    ) -> Option<T> {
        if filter.has_wildcard() {
            let root = self.wildcards.read();
            return find(root.list(Some(filter.as_str()))?);
        }
        let hash = self.hash(filter.as_str());
        let table = self.shard(hash).table.read();
        find(&IndexShard::find(&table, hash, filter.as_str())?.subscriptions)
    }

    /// Adds a subscription that is known not to be there yet.
    pub(crate) fn insert(&self, filter: &TopicFilter, subscription: Subscription) {
        self.change(filter, |list| list.push(subscription));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the subscription that `is_it` names, or adds one.
    pub(crate) fn replace(
        &self,
        filter: &TopicFilter,
        subscription: Subscription,
        is_it: &dyn Fn(&Subscription) -> bool,
    ) {
        let existed = self.change(filter, |list| {
            let existed = list.remove(is_it).is_some();
            list.push(subscription);
            existed
        });
        if !existed {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes the subscription of `filter` that `is_it` names; returns whether there was one.
    pub(crate) fn remove(
        &self,
        filter: &TopicFilter,
        is_it: &dyn Fn(&Subscription) -> bool,
    ) -> bool {
        let existed = self.change(filter, |list| list.remove(is_it).is_some());
        if existed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        existed
    }

    /// Removes the subscription of `session` to `text`, which may be a shared one; returns whether
    /// there was one.
    pub(crate) fn remove_session(&self, session: &Arc<Session>, text: &TopicFilter) -> bool {
        let Ok(requested) = RequestedFilter::new(text.as_str()) else {
            return false;
        };
        match &requested.share {
            Some(share) => self.leave(&share.filter, &share.name, session),
            None => self.remove(text, &|subscription| {
                matches!(subscription, Subscription::Session(member) if member.is(session))
            }),
        }
    }

    /// The subscription of `session` to `text`, which may be a shared one, with its options.
    pub(crate) fn subscription_of(
        &self,
        session: &Arc<Session>,
        text: &TopicFilter,
    ) -> Option<GroupMember> {
        let requested = RequestedFilter::new(text.as_str()).ok()?;
        let filter = requested.share.as_ref().map_or(text, |share| &share.filter);
        let of_session = |list: &Subscriptions| {
            list.as_slice()
                .iter()
                .find_map(|one| match (one, &requested.share) {
                    (Subscription::Session(member), None) => {
                        member.is(session).then(|| member.clone())
                    }
                    (Subscription::Group(group), Some(share)) if *group.name == *share.name => {
                        let members = group.members.read();
                        members.iter().find(|member| member.is(session)).cloned()
                    }
                    _ => None,
                })
        };
        self.find_in(filter, of_session)
    }

    /// Visits every subscription that matches `topic`.
    pub(crate) fn visit(&self, topic: &str, hash: TopicHash, visit: &mut dyn FnMut(&Subscription)) {
        let table = self.shard(hash.hash).table.read();
        if let Some(entry) = IndexShard::find(&table, hash.hash, topic) {
            entry.subscriptions.as_slice().iter().for_each(&mut *visit);
        }
        drop(table);
        if self.wildcard_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let root = self.wildcards.read();
        if topic.starts_with('$') {
            root.visit_internal(topic, visit);
        } else {
            root.visit(Some(topic), visit);
        }
    }
}

#[cfg(test)]
mod tests;
