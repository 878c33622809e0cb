//! The message that each topic keeps (MQTT 5 section 3.3.1.3).
//!
//! Sorted by topic, so that a filter with a literal beginning looks only at what begins so.
//!
//! Invariant: a message that could not be stored is not kept. Until the commit of a change is
//! known its topic has both, the message before it and the new one; after a failure the former is
//! the topic's message again, as it is on disk.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use gatepost_message::{Publication, Topic, TopicFilter};
use parking_lot::{Mutex, RwLock};

use crate::persistence::{BatchCommit, CommitStatus};
use crate::weight::content_bytes;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainOutcome {
    /// The topic keeps the new message.
    Stored,
    /// The topic keeps no message any more.
    Cleared,
    /// There is no room, or nothing to clear.
    Nothing,
}

/// A message of a topic, or `None` where it was cleared.
type Version = Option<Arc<Publication>>;

/// Versions with the commits that decide over them, oldest first.
type PendingVersions = Vec<(Version, Arc<BatchCommit>)>;

/// What one topic keeps.
#[derive(Default)]
struct Entry {
    /// What the disk has, as far as is known.
    stored: Version,
    /// Later changes whose commit was not known, oldest first. Boxed: nearly always absent.
    #[allow(clippy::box_collection)] // entries are many, and this is 8 bytes instead of 24
    pending: Option<Box<PendingVersions>>,
}

impl Entry {
    /// The topic's message now.
    fn current(&self) -> Version {
        let pending = self.pending.iter().flat_map(|pending| pending.iter());
        let last = pending
            .rev()
            .find(|(_, commit)| !matches!(commit.status(), CommitStatus::Failed));
        last.map_or(&self.stored, |(version, _)| version).clone()
    }

    /// Takes in the commits that are known, and hands every version that goes to `gone`.
    fn settle(&mut self, mut gone: impl FnMut(Arc<Publication>)) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        let mut left = Vec::new();
        for (version, commit) in pending.drain(..) {
            match commit.status() {
                CommitStatus::Committed => {
                    let replaced = std::mem::replace(&mut self.stored, version);
                    left.drain(..)
                        .filter_map(|(version, _): (Version, _)| version)
                        .chain(replaced)
                        .for_each(&mut gone);
                }
                CommitStatus::Failed => version.into_iter().for_each(&mut gone),
                CommitStatus::Collected | CommitStatus::Submitted(_) => {
                    left.push((version, commit));
                }
            }
        }
        if !left.is_empty() {
            self.pending = Some(Box::new(left));
        }
    }

    fn is_empty(&self) -> bool {
        self.stored.is_none() && self.pending.is_none()
    }

    /// The bytes of all versions.
    fn bytes(&self) -> usize {
        let pending = self.pending.iter().flat_map(|pending| pending.iter());
        let pending = pending.filter_map(|(version, _)| version.as_ref());
        let versions = self.stored.iter().chain(pending);
        versions.map(|version| content_bytes(version)).sum()
    }
}

/// All retained messages.
pub(crate) struct Retained {
    messages: RwLock<BTreeMap<Topic, Entry>>,
    /// Topics with changes whose commit was not known.
    unsettled: Mutex<Vec<Topic>>,
    /// Counted topics.
    count: AtomicUsize,
    /// Of these, topics, payloads and properties, those of versions that a commit may still bring
    /// back included.
    bytes: AtomicUsize,
    messages_max: usize,
    bytes_max: usize,
}

impl Retained {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            messages: RwLock::default(),
            unsettled: Mutex::default(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            messages_max,
            bytes_max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps `publication`, or clears its topic if the payload is empty \[MQTT-3.3.1-6\]. Where
    /// the commit of that fails, the topic keeps what it kept before; without a commit the change
    /// is final.
    pub(crate) fn keep(
        &self,
        publication: &Arc<Publication>,
        commit: Option<Arc<BatchCommit>>,
    ) -> RetainOutcome {
        let mut messages = self.messages.write();
        let topic = &publication.topic;
        self.settle(&mut messages, topic);
        let is_clearing = publication.payload.is_empty();
        let earlier = messages.get(topic).and_then(Entry::current);
        if is_clearing && earlier.is_none() {
            return RetainOutcome::Nothing;
        }
        if !is_clearing && is_counted(topic) && !self.has_room(&messages, publication) {
            // Versions that are over may make room.
            let topics = std::mem::take(&mut *self.unsettled.lock());
            for topic in topics {
                self.settle_listed(&mut messages, topic);
            }
            if !self.has_room(&messages, publication) {
                return RetainOutcome::Nothing;
            }
        }
        let version = (!is_clearing).then(|| publication.clone());
        self.add(&mut messages, topic, version, commit);
        if is_clearing {
            RetainOutcome::Cleared
        } else {
            RetainOutcome::Stored
        }
    }

    /// Whether the limits permit `publication` in place of what its topic has.
    fn has_room(&self, messages: &BTreeMap<Topic, Entry>, publication: &Publication) -> bool {
        let entry = messages.get(&publication.topic);
        let others = self.bytes() - entry.map_or(0, Entry::bytes);
        let is_full = entry.is_none() && self.len() >= self.messages_max;
        !is_full && others + content_bytes(publication) <= self.bytes_max
    }

    fn add(
        &self,
        messages: &mut BTreeMap<Topic, Entry>,
        topic: &Topic,
        version: Version,
        commit: Option<Arc<BatchCommit>>,
    ) {
        let is_counted = is_counted(topic);
        if let Some(new) = version.as_ref().filter(|_| is_counted) {
            self.bytes.fetch_add(content_bytes(new), Ordering::Relaxed);
        }
        let entry = messages.entry(topic.clone()).or_insert_with(|| {
            self.count
                .fetch_add(usize::from(is_counted), Ordering::Relaxed);
            Entry::default()
        });
        let Some(commit) = commit else {
            if let Some(gone) = std::mem::replace(&mut entry.stored, version) {
                self.uncount(&gone);
            }
            self.remove_if_empty(messages, topic);
            return;
        };
        if entry.pending.is_none() {
            self.unsettled.lock().push(topic.clone());
        }
        let pending = entry.pending.get_or_insert_default();
        match pending.last_mut() {
            // Changes of one batch are stored together or not at all.
            Some((last, same)) if Arc::ptr_eq(same, &commit) => {
                if let Some(gone) = std::mem::replace(last, version) {
                    self.uncount(&gone);
                }
            }
            _ => pending.push((version, commit)),
        }
    }

    /// Takes in the commits of a topic's changes that are known.
    fn settle(&self, messages: &mut BTreeMap<Topic, Entry>, topic: &Topic) {
        if let Some(entry) = messages.get_mut(topic)
            && entry.pending.is_some()
        {
            entry.settle(|gone| self.uncount(&gone));
            self.remove_if_empty(messages, topic);
        }
    }

    fn remove_if_empty(&self, messages: &mut BTreeMap<Topic, Entry>, topic: &Topic) {
        if messages.get(topic).is_some_and(Entry::is_empty) {
            messages.remove(topic);
            self.count
                .fetch_sub(usize::from(is_counted(topic)), Ordering::Relaxed);
        }
    }

    /// Takes in all commits that are known, so that versions that are over take no memory; for the
    /// housekeeper.
    pub(crate) fn settle_all(&self) {
        let topics = std::mem::take(&mut *self.unsettled.lock());
        for topic in topics {
            // One at a time: publishers wait for this lock.
            self.settle_listed(&mut self.messages.write(), topic);
        }
    }

    /// Takes in the commits of a topic from the list, which it stays on where some are not known.
    fn settle_listed(&self, messages: &mut BTreeMap<Topic, Entry>, topic: Topic) {
        self.settle(messages, &topic);
        let is_pending = |entry: &Entry| entry.pending.is_some();
        if messages.get(&topic).is_some_and(is_pending) {
            self.unsettled.lock().push(topic);
        }
    }

    fn uncount(&self, gone: &Publication) {
        if is_counted(&gone.topic) {
            self.bytes.fetch_sub(content_bytes(gone), Ordering::Relaxed);
        }
    }

    /// What is kept under `filter` and has not expired.
    pub(crate) fn matching(&self, filter: &TopicFilter) -> Vec<Arc<Publication>> {
        let messages = self.messages.read();
        if messages.is_empty() {
            return Vec::new();
        }
        let text = filter.as_str();
        let Some(wildcard) = text.find(['+', '#']) else {
            let found = messages.get(text).and_then(Entry::current);
            return found.into_iter().filter(is_alive).collect();
        };
        // "sport/#" matches "sport": the literal part ends before the separator.
        let prefix = text[..wildcard].trim_end_matches('/');
        messages
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(topic, _)| topic.as_str().starts_with(prefix))
            .filter(|(topic, _)| filter.matches(topic.as_str()))
            .filter_map(|(_, entry)| entry.current())
            .filter(is_alive)
            .collect()
    }

    /// Removes what has expired, and returns its topics; for the housekeeper.
    pub(crate) fn remove_expired(&self) -> Vec<Topic> {
        let now = SystemTime::now();
        let is_over = |stored: &Arc<Publication>| stored.expiry_seconds_left(now) == Some(0);
        let mut messages = self.messages.write();
        let expired: Vec<Topic> = messages
            .iter()
            .filter(|(_, entry)| {
                entry.pending.is_none() && entry.stored.as_ref().is_some_and(is_over)
            })
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in &expired {
            self.add(&mut messages, topic, None, None);
        }
        expired
    }
}

/// The clock is read for messages that expire only.
fn is_alive(publication: &Arc<Publication>) -> bool {
    let expires = publication.expires();
    expires.is_none_or(|expires| expires > SystemTime::now())
}

/// The broker's own figures take no room from other topics: their number is fixed.
fn is_counted(topic: &Topic) -> bool {
    !topic.as_str().starts_with("$SYS/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(retained: &Retained, topic: &str, payload: &str) -> RetainOutcome {
        let topic = Topic::new(topic).expect("a topic");
        retained.keep(&Arc::new(Publication::new(topic, payload.to_owned())), None)
    }

    fn found(retained: &Retained, filter: &str) -> Vec<String> {
        let filter = TopicFilter::new(filter).expect("a filter");
        let topic = |publication: Arc<Publication>| publication.topic.to_string();
        retained.matching(&filter).into_iter().map(topic).collect()
    }

    #[test]
    fn filters_find_what_topics_keep() {
        let retained = Retained::new(100, 1000);
        for topic in [
            "sport",
            "sport/a",
            "sport/a/b",
            "sports",
            "$SYS/x",
            "/sport",
        ] {
            assert_eq!(keep(&retained, topic, "x"), RetainOutcome::Stored);
        }
        assert_eq!(
            found(&retained, "sport/#"),
            ["sport", "sport/a", "sport/a/b"]
        );
        assert_eq!(found(&retained, "sport/+"), ["sport/a"]);
        assert_eq!(found(&retained, "+"), ["sport", "sports"]);
        assert_eq!(found(&retained, "#").len(), 5);
        assert_eq!(found(&retained, "/+"), ["/sport"]);
        assert_eq!(found(&retained, "$SYS/#"), ["$SYS/x"]);
        assert_eq!(keep(&retained, "sport", ""), RetainOutcome::Cleared);
        assert_eq!(found(&retained, "sport"), [""; 0]);
    }

    #[test]
    fn our_own_figures_take_no_room() {
        let retained = Retained::new(1, 100);
        assert_eq!(
            keep(&retained, "$SYS/broker/uptime", "1 second"),
            RetainOutcome::Stored
        );
        assert_eq!(keep(&retained, "a", "x"), RetainOutcome::Stored);
        assert_eq!(
            keep(&retained, "$SYS/broker/version", "1"),
            RetainOutcome::Stored
        );
        assert_eq!(keep(&retained, "b", "x"), RetainOutcome::Nothing);
        assert_eq!((retained.len(), retained.bytes()), (1, 2));
        assert_eq!(
            keep(&retained, "$SYS/broker/uptime", ""),
            RetainOutcome::Cleared
        );
        assert_eq!(keep(&retained, "a", ""), RetainOutcome::Cleared);
        assert_eq!((retained.len(), retained.bytes()), (0, 0));
    }

    #[test]
    fn room_is_bounded() {
        let retained = Retained::new(2, 10);
        assert_eq!(keep(&retained, "a", "12345"), RetainOutcome::Stored);
        assert_eq!(keep(&retained, "b", "1234"), RetainOutcome::Nothing);
        assert_eq!(keep(&retained, "a", "123456789"), RetainOutcome::Stored);
        assert_eq!(keep(&retained, "a", "1"), RetainOutcome::Stored);
        assert_eq!(keep(&retained, "b", "1"), RetainOutcome::Stored);
        assert_eq!(keep(&retained, "c", "1"), RetainOutcome::Nothing);
        assert_eq!((retained.len(), retained.bytes()), (2, 4));
    }

    #[test]
    fn what_could_not_be_stored_is_not_kept() {
        let store = gatepost_store::Store::in_memory().expect("a store");
        let submitted = |works: bool| {
            let mut batch = crate::persistence::ChangeBatch::default();
            let commit = batch.commit();
            let ticket = store.submit([]);
            let ticket = if works {
                ticket
            } else {
                Err(gatepost_store::StoreError::Closed)
            };
            batch.was_submitted(Some(&ticket));
            commit
        };
        let retained = Retained::new(10, 1_000);
        let publish = |payload: &str, commit| {
            let topic = Topic::new("a").expect("a topic");
            retained.keep(
                &Arc::new(Publication::new(topic, payload.to_owned())),
                Some(commit),
            )
        };
        let kept = || {
            let filter = TopicFilter::new("a").expect("a filter");
            let found = retained.matching(&filter);
            found.first().map(|publication| publication.payload.clone())
        };
        publish("lost", submitted(false));
        assert_eq!(kept(), None);
        publish("one", submitted(true));
        publish("lost", submitted(false));
        assert_eq!(kept().as_deref(), Some(&b"one"[..]));
        publish("", submitted(false));
        assert_eq!(kept().as_deref(), Some(&b"one"[..]), "the clearing failed");
        publish("", submitted(true));
        assert_eq!(kept(), None);
        retained.settle_all();
        assert_eq!((retained.len(), retained.bytes()), (0, 0));
        assert!(retained.messages.read().is_empty());
    }
}
