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

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gatepost_message::TopicFilter;
use parking_lot::RwLock;

use crate::session::Session;
use crate::subscription::{Group, Member, Subscription};

const SHARDS: usize = 256;
const BRANCHES: usize = 64;

/// A filter as a key that can be looked up by a topic's text.
#[derive(Clone, PartialEq, Eq)]
struct Key(TopicFilter);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

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

#[derive(Default)]
struct Shard {
    generation: AtomicU64,
    map: RwLock<HashMap<Key, Subscriptions>>,
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

    /// Removes from the list of these levels, and the nodes that this leaves empty.
    fn remove<'t>(
        &mut self,
        mut levels: impl Iterator<Item = &'t str>,
        is_it: &dyn Fn(&Subscription) -> bool,
    ) -> Option<Subscription> {
        match levels.next() {
            None => self.here.remove(is_it),
            Some("#") => self.below.remove(is_it),
            Some("+") => {
                let plus = self.plus.as_mut()?;
                let removed = plus.remove(levels, is_it);
                if plus.is_empty() {
                    self.plus = None;
                }
                removed
            }
            Some(name) => {
                let child = self.children.get_mut(name)?;
                let removed = child.remove(levels, is_it);
                if child.is_empty() {
                    self.children.remove(name);
                }
                removed
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
    shard: usize,
    branch: usize,
}

/// All subscriptions of the broker.
pub(crate) struct Index {
    hasher: RandomState,
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
            hasher: RandomState::new(),
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

    fn shard(&self, text: &str) -> usize {
        self.hasher.hash_one(text) as usize % SHARDS
    }

    fn branch(&self, text: &str) -> usize {
        self.hasher.hash_one(split_level(text).0) as usize % BRANCHES
    }

    pub(crate) fn place(&self, topic: &str) -> Place {
        Place {
            shard: self.shard(topic),
            branch: self.branch(topic),
        }
    }

    #[inline]
    pub(crate) fn generations(&self, place: Place) -> Generations {
        Generations {
            exact: self.shards[place.shard].generation.load(Ordering::Acquire),
            branch: self.branches[place.branch].load(Ordering::Acquire),
            everywhere: self.everywhere.load(Ordering::Acquire),
        }
    }

    /// Tells all publishers to look again: a session is reached in another way than before.
    pub(crate) fn touch_everything(&self) {
        self.everywhere.fetch_add(1, Ordering::Release);
    }

    fn touch(&self, filter: &TopicFilter) {
        let text = filter.as_str();
        let generation = if !filter.has_wildcard() {
            &self.shards[self.shard(text)].generation
        } else if text.starts_with(['+', '#']) {
            &self.everywhere
        } else {
            &self.branches[self.branch(text)]
        };
        generation.fetch_add(1, Ordering::Release);
    }

    /// Runs `change` on the list of `filter`.
    fn with_list<T>(
        &self,
        filter: &TopicFilter,
        change: impl FnOnce(&mut Subscriptions) -> T,
    ) -> T {
        if filter.has_wildcard() {
            let mut root = self.wildcards.write();
            return change(root.list_mut(filter.as_str().split('/')));
        }
        let shard = &self.shards[self.shard(filter.as_str())];
        change(shard.map.write().entry(Key(filter.clone())).or_default())
    }

    /// Adds a subscription that is known not to be there yet.
    pub(crate) fn insert(&self, filter: &TopicFilter, subscription: Subscription) {
        if filter.has_wildcard() {
            self.wildcard_count.fetch_add(1, Ordering::Release);
        }
        self.with_list(filter, |list| list.push(subscription));
        self.count.fetch_add(1, Ordering::Relaxed);
        self.touch(filter);
    }

    /// Replaces the subscription that `is_it` names, or adds one; tells whether it was there.
    pub(crate) fn replace(
        &self,
        filter: &TopicFilter,
        subscription: Subscription,
        is_it: &dyn Fn(&Subscription) -> bool,
    ) -> bool {
        let existed = self.with_list(filter, |list| {
            let existed = list.remove(is_it).is_some();
            list.push(subscription);
            existed
        });
        if !existed {
            self.count.fetch_add(1, Ordering::Relaxed);
            if filter.has_wildcard() {
                self.wildcard_count.fetch_add(1, Ordering::Release);
            }
        }
        self.touch(filter);
        existed
    }

    /// Makes `member` one of the group `name` that shares `filter`, in place of its earlier self;
    /// tells whether it was there.
    pub(crate) fn join(&self, filter: &TopicFilter, name: &str, member: Member) -> bool {
        let (existed, group_is_new) = self.with_list(filter, |list| {
            let group = list
                .as_slice()
                .iter()
                .find_map(|subscription| match subscription {
                    Subscription::Group(group) if &*group.name == name => Some(group.clone()),
                    _ => None,
                });
            let group_is_new = group.is_none();
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
            (earlier.is_some(), group_is_new)
        });
        if group_is_new && filter.has_wildcard() {
            self.wildcard_count.fetch_add(1, Ordering::Release);
        }
        if !existed {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.touch(filter);
        existed
    }

    /// Takes `session` out of the group; the last one out closes it.
    pub(crate) fn leave(&self, filter: &TopicFilter, name: &str, session: &Arc<Session>) -> bool {
        let (existed, group_is_gone) = self.with_list(filter, |list| {
            let is_group = |subscription: &Subscription| {
                matches!(subscription, Subscription::Group(group) if &*group.name == name)
            };
            let Some(Subscription::Group(group)) =
                list.as_slice().iter().find(|&subscription| is_group(subscription))
            else {
                return (false, false);
            };
            let mut members = group.members.write();
            let before = members.len();
            members.retain(|member| !member.is(session));
            let (existed, is_gone) = (members.len() < before, members.is_empty());
            drop(members);
            if is_gone {
                list.remove(&is_group);
            }
            (existed, is_gone)
        });
        if group_is_gone && filter.has_wildcard() {
            self.wildcard_count.fetch_sub(1, Ordering::Release);
        }
        if existed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        self.touch(filter);
        existed
    }

    /// Removes the subscription of `filter` that `is_it` names.
    pub(crate) fn remove(
        &self,
        filter: &TopicFilter,
        is_it: &dyn Fn(&Subscription) -> bool,
    ) -> Option<Subscription> {
        let text = filter.as_str();
        let removed = if filter.has_wildcard() {
            self.wildcards.write().remove(text.split('/'), is_it)
        } else {
            let mut map = self.shards[self.shard(text)].map.write();
            let list = map.get_mut(text)?;
            let removed = list.remove(is_it);
            if list.is_none() {
                map.remove(text);
            }
            removed
        };
        if removed.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            if filter.has_wildcard() {
                self.wildcard_count.fetch_sub(1, Ordering::Release);
            }
            self.touch(filter);
        }
        removed
    }

    /// Visits every subscription that matches `topic`.
    pub(crate) fn visit(&self, topic: &str, place: Place, visit: &mut dyn FnMut(&Subscription)) {
        if let Some(list) = self.shards[place.shard].map.read().get(topic) {
            list.as_slice().iter().for_each(&mut *visit);
        }
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
