//! All subscriptions, found by topic.
//!
//! Filters without wildcards, which are nearly all where there are many, lie in hash maps split
//! into shards; filters with wildcards lie in a tree of levels. Both are behind locks that a
//! change holds for one subscription only (well under a microsecond). Publishers keep what they
//! found (see `publisher.rs`) and come back only when a generation says that it may have
//! changed, so publishing normally takes no lock here at all.
//!
//! Why not immutable snapshots, copied at each batch of changes: a snapshot of a flat level with
//! 100,000 names costs milliseconds to copy, whoever asks; a short lock costs nanoseconds.
//!
//! Invariant: whoever changes the subscriptions of a topic bumps, *after* the change and before
//! the subscriber is told, a generation that every publisher of that topic compares. A publisher
//! reads generations *before* it looks, so what it keeps is never newer than it believes.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gatepost_message::TopicFilter;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

use crate::session::Session;
use crate::subscription::{Group, Member, Subscription};

const SHARDS: usize = 256;
/// Tables use the lowest and the highest bits of a hash; the shard takes some between.
const SHARD_SHIFT: u32 = 40;
const BRANCHES: usize = 64;

/// The subscriptions of one filter. One is by far the most frequent number.
#[derive(Default)]
enum Subscriptions {
    #[default]
    None,
    One(Subscription),
    Many(Vec<Subscription>),
}

impl Subscriptions {
    fn as_slice(&self) -> &[Subscription] {
        match self {
            Self::None => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    fn push(&mut self, subscription: Subscription) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(subscription),
            Self::One(one) => Self::Many(vec![one, subscription]),
            Self::Many(mut many) => {
                many.push(subscription);
                Self::Many(many)
            }
        };
    }

    /// Removes the first that `is_it` names.
    fn remove(&mut self, is_it: &dyn Fn(&Subscription) -> bool) -> Option<Subscription> {
        match self {
            Self::One(one) if is_it(one) => match std::mem::take(self) {
                Self::One(one) => Some(one),
                _ => None,
            },
            Self::Many(many) => {
                let at = many.iter().position(is_it)?;
                let removed = many.swap_remove(at);
                if many.is_empty() {
                    *self = Self::None;
                } else if many.capacity() > 16 && many.len() < many.capacity() / 4 {
                    many.shrink_to(many.len() * 2);
                }
                Some(removed)
            }
            _ => None,
        }
    }

    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// One filter without wildcards, and who subscribes to it.
struct Entry {
    filter: TopicFilter,
    subscriptions: Subscriptions,
}

#[derive(Default)]
struct Shard {
    generation: AtomicU64,
    /// By the hash of the text, which is worked out once for each change.
    table: RwLock<HashTable<Entry>>,
}

impl Shard {
    fn find<'t>(table: &'t HashTable<Entry>, hash: u64, text: &str) -> Option<&'t Entry> {
        table.find(hash, |entry| entry.filter.as_str() == text)
    }
}

/// A level of the tree of wildcard filters.
#[derive(Default)]
struct Node {
    children: HashMap<Box<str>, Node>,
    plus: Option<Box<Node>>,
    /// Filters that end at this level.
    here: Subscriptions,
    /// Filters that end in `#` below this level.
    below: Subscriptions,
}

impl Node {
    /// The list of the filter whose levels these are; made where it is missing.
    fn list_mut<'t>(&mut self, mut levels: impl Iterator<Item = &'t str>) -> &mut Subscriptions {
        match levels.next() {
            None => &mut self.here,
            Some("#") => &mut self.below,
            Some("+") => self.plus.get_or_insert_default().list_mut(levels),
            Some(name) => self
                .children
                .entry(name.into())
                .or_default()
                .list_mut(levels),
        }
    }

    /// Removes the nodes of these levels that nothing needs any more.
    fn prune<'t>(&mut self, mut levels: impl Iterator<Item = &'t str>) {
        match levels.next() {
            None | Some("#") => {}
            Some("+") => {
                if let Some(plus) = &mut self.plus {
                    plus.prune(levels);
                    if plus.is_empty() {
                        self.plus = None;
                    }
                }
            }
            Some(name) => {
                if let Some(child) = self.children.get_mut(name) {
                    child.prune(levels);
                    if child.is_empty() {
                        self.children.remove(name);
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.plus.is_none()
            && self.here.is_none()
            && self.below.is_none()
    }

    /// Visits every subscription whose filter matches the topic of which `rest` is left.
    fn visit(&self, rest: Option<&str>, visit: &mut dyn FnMut(&Subscription)) {
        // "sport/#" matches "sport" too (§ 4.7.1.2).
        self.below.as_slice().iter().for_each(&mut *visit);
        let Some(rest) = rest else {
            self.here.as_slice().iter().for_each(visit);
            return;
        };
        let (level, rest) = split_level(rest);
        if let Some(child) = self.children.get(level) {
            child.visit(rest, visit);
        }
        if let Some(plus) = &self.plus {
            plus.visit(rest, visit);
        }
    }

    /// As `visit`, for a topic of the server's own: leading wildcards do not match
    /// \[MQTT-4.7.2-1\].
    fn visit_internal(&self, topic: &str, visit: &mut dyn FnMut(&Subscription)) {
        let (level, rest) = split_level(topic);
        if let Some(child) = self.children.get(level) {
            child.visit(rest, visit);
        }
    }
}

fn split_level(text: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'/', text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// The state of everything that could change the match of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generations {
    exact: u64,
    branch: u64,
    everywhere: u64,
}

/// Where the generations of one topic are; worked out once for each topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    hash: u64,
    branch: usize,
}

/// All subscriptions of the broker.
pub(crate) struct Index {
    hasher: DefaultHashBuilder,
    shards: Box<[Shard]>,
    wildcards: RwLock<Node>,
    wildcard_count: AtomicUsize,
    branches: Box<[AtomicU64]>,
    /// For filters that begin with a wildcard, and for sessions whose way of delivery changes.
    everywhere: AtomicU64,
    count: AtomicUsize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            wildcards: RwLock::default(),
            wildcard_count: AtomicUsize::new(0),
            branches: (0..BRANCHES).map(|_| AtomicU64::new(0)).collect(),
            everywhere: AtomicU64::new(0),
            count: AtomicUsize::new(0),
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

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> SHARD_SHIFT) as usize % SHARDS]
    }

    pub(crate) fn place(&self, topic: &str) -> Place {
        Place {
            hash: self.hash(topic),
            branch: self.branch(topic),
        }
    }

    #[inline]
    pub(crate) fn generations(&self, place: Place) -> Generations {
        Generations {
            exact: self.shard(place.hash).generation.load(Ordering::Acquire),
            branch: self.branches[place.branch].load(Ordering::Acquire),
            everywhere: self.everywhere.load(Ordering::Acquire),
        }
    }

    /// Tells all publishers to look again: a session is reached in another way than before.
    pub(crate) fn touch_everything(&self) {
        self.everywhere.fetch_add(1, Ordering::Release);
    }

    /// Bumps the generation of a filter with wildcards.
    fn touch_wildcard(&self, text: &str) {
        let generation = if text.starts_with(['+', '#']) {
            &self.everywhere
        } else {
            &self.branches[self.branch(text)]
        };
        generation.fetch_add(1, Ordering::Release);
    }

    /// Runs `change` on the list of `filter`, and tells the publishers whom it may concern. A
    /// list that is left empty goes.
    fn change<T>(&self, filter: &TopicFilter, change: impl FnOnce(&mut Subscriptions) -> T) -> T {
        let text = filter.as_str();
        if filter.has_wildcard() {
            let mut root = self.wildcards.write();
            let list = root.list_mut(text.split('/'));
            let was_empty = list.is_none();
            let result = change(list);
            let is_empty = list.is_none();
            if is_empty {
                root.prune(text.split('/'));
            }
            match (was_empty, is_empty) {
                (true, false) => self.wildcard_count.fetch_add(1, Ordering::Release),
                (false, true) => self.wildcard_count.fetch_sub(1, Ordering::Release),
                _ => 0,
            };
            drop(root);
            self.touch_wildcard(text);
            return result;
        }
        let hash = self.hash(text);
        let shard = self.shard(hash);
        let mut table = shard.table.write();
        let mut entry = table
            .entry(
                hash,
                |entry| entry.filter == *filter,
                |entry| self.hash(entry.filter.as_str()),
            )
            .or_insert_with(|| Entry {
                filter: filter.clone(),
                subscriptions: Subscriptions::None,
            });
        let result = change(&mut entry.get_mut().subscriptions);
        if entry.get().subscriptions.is_none() {
            entry.remove();
        }
        drop(table);
        shard.generation.fetch_add(1, Ordering::Release);
        result
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

    /// Makes `member` one of the group `name` that shares `filter`, in place of its earlier self;
    /// tells whether it was there.
    pub(crate) fn join(&self, filter: &TopicFilter, name: &str, member: Member) -> bool {
        let existed = self.change(filter, |list| {
            let group = list
                .as_slice()
                .iter()
                .find_map(|subscription| match subscription {
                    Subscription::Group(group) if &*group.name == name => Some(group.clone()),
                    _ => None,
                });
            let group = group.unwrap_or_else(|| {
                let group = Arc::new(Group::new(name));
                list.push(Subscription::Group(group.clone()));
                group
            });
            let mut members = group.members.write();
            let earlier = members.iter().position(|other| other.is(&member.session));
            if let Some(at) = earlier {
                members.swap_remove(at);
            }
            members.push(member);
            earlier.is_some()
        });
        if !existed {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        existed
    }

    /// Takes `session` out of the group; the last one out closes it.
    pub(crate) fn leave(&self, filter: &TopicFilter, name: &str, session: &Arc<Session>) -> bool {
        let existed = self.change(filter, |list| {
            let is_group = |subscription: &Subscription| {
                matches!(subscription, Subscription::Group(group) if &*group.name == name)
            };
            let Some(Subscription::Group(group)) =
                list.as_slice().iter().find(|&subscription| is_group(subscription))
            else {
                return false;
            };
            let mut members = group.members.write();
            let before = members.len();
            members.retain(|member| !member.is(session));
            let (existed, is_gone) = (members.len() < before, members.is_empty());
            drop(members);
            if is_gone {
                list.remove(&is_group);
            }
            existed
        });
        if existed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        existed
    }

    /// Removes the subscription of `filter` that `is_it` names; tells whether there was one.
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

    /// Visits every subscription that matches `topic`.
    pub(crate) fn visit(&self, topic: &str, place: Place, visit: &mut dyn FnMut(&Subscription)) {
        let table = self.shard(place.hash).table.read();
        if let Some(entry) = Shard::find(&table, place.hash, topic) {
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
mod tests {
    use super::*;
    use crate::filter::SubscribeOptions;
    use gatepost_message::Qos;
    use proptest::prelude::*;

    fn session(number: usize) -> Arc<Session> {
        Arc::new(Session::new(Arc::from(number.to_string()), "test".into()))
    }

    fn member(session: &Arc<Session>) -> Subscription {
        Subscription::Session(Member::new(
            session.clone(),
            SubscribeOptions::at(Qos::AtMostOnce),
        ))
    }

    fn matching(index: &Index, topic: &str) -> Vec<String> {
        let mut found = Vec::new();
        index.visit(topic, index.place(topic), &mut |subscription| {
            if let Subscription::Session(member) = subscription {
                found.push(member.session.client_id().to_owned());
            }
        });
        found.sort();
        found
    }

    fn a_filter() -> impl Strategy<Value = String> {
        let level = prop_oneof![
            Just("+".to_owned()),
            Just(String::new()),
            Just("$SYS".to_owned()),
            "[ab]"
        ];
        (prop::collection::vec(level, 1..5), any::<bool>()).prop_map(|(mut levels, hash)| {
            if hash {
                levels.push("#".to_owned());
            }
            levels.join("/")
        })
    }

    fn a_topic() -> impl Strategy<Value = String> {
        let level = prop_oneof![Just(String::new()), Just("$SYS".to_owned()), "[ab]"];
        prop::collection::vec(level, 1..5).prop_map(|levels| levels.join("/"))
    }

    proptest! {
        #[test]
        fn the_index_finds_what_filters_match(
            filters in prop::collection::vec(a_filter(), 1..30),
            topics in prop::collection::vec(a_topic(), 1..10),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let index = Index::new();
            let mut present: Vec<_> = filters
                .iter()
                .filter_map(|text| TopicFilter::new(text).ok())
                .enumerate()
                .map(|(number, filter)| (session(number), filter))
                .collect();
            for (session, filter) in &present {
                index.insert(filter, member(session));
            }
            for removed in removed {
                if present.is_empty() {
                    break;
                }
                let (gone, filter) = present.swap_remove(removed.index(present.len()));
                prop_assert!(index.remove(&filter, &|subscription| matches!(
                    subscription, Subscription::Session(member) if member.is(&gone))));
            }
            prop_assert_eq!(index.len(), present.len());
            for topic in topics.iter().filter(|topic| !topic.is_empty()) {
                let mut expected: Vec<_> = present
                    .iter()
                    .filter(|(_, filter)| filter.matches(topic))
                    .map(|(session, _)| session.client_id().to_owned())
                    .collect();
                expected.sort();
                prop_assert_eq!(matching(&index, topic), expected, "{}", topic);
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_was_removed() {
        let index = Index::new();
        let session = session(1);
        for text in ["a/b", "a/+", "a/#", "+/b/#"] {
            let filter = TopicFilter::new(text).expect("a filter");
            let place = index.place("a/b");
            let before = index.generations(place);
            index.insert(&filter, member(&session));
            assert_ne!(
                index.generations(place),
                before,
                "{text}: publishers look again"
            );
            assert!(index.remove(&filter, &|_| true));
        }
        assert!(index.wildcards.read().is_empty());
        assert!(
            index
                .shards
                .iter()
                .all(|shard| shard.table.read().is_empty())
        );
        assert_eq!(
            (index.len(), index.wildcard_count.load(Ordering::Relaxed)),
            (0, 0)
        );
    }
}
