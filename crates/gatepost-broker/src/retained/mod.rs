//! The message that each topic retains (MQTT 5 section 3.3.1.3).
//!
//! Sorted by topic, so that a filter with a literal prefix searches only topics with that prefix.
//!
//! Invariant: a message that could not be stored is not retained. Until the commit of a change is
//! known, its topic has both the previous and the new message; after a failure the previous one is
//! the topic's message again, as on disk.

mod expiry;
mod on_disk;
mod search;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use gatepost_message::{MessageId, Publication, Topic, TopicFilter};
use gatepost_store::{StoreChange, StoreError};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::persistence::{BatchCommit, CommitStatus};
use crate::weight::content_bytes;
pub(crate) use on_disk::InsufficientMemory;
use on_disk::{RetainedOnDisk, decides};
use search::{TopicSearch, literal_beginning};

/// Topics that a search examines before publishers of retained messages have their turn.
const STEP_TOPICS: usize = 4_096;

/// The outcome of retaining a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainOutcome {
    /// The topic retains the new message.
    Stored,
    /// The topic retains no message any more.
    Cleared,
    /// A limit is reached, or there is nothing to clear.
    Nothing,
}

/// A message of a topic, or `None` if it was cleared.
type RetainedVersion = Option<Arc<Publication>>;

/// Versions with the commits that decide whether they are valid, oldest first.
type PendingVersions = Vec<(RetainedVersion, Arc<BatchCommit>)>;

/// The retained message of one topic.
#[derive(Default)]
struct RetainedTopic {
    /// The stored version, as far as is known.
    stored: RetainedVersion,
    /// Later changes whose commit was not known, oldest first. Boxed: nearly always absent.
    #[allow(clippy::box_collection)] // entries are many, and this is 8 bytes instead of 24
    pending: Option<Box<PendingVersions>>,
}

impl RetainedTopic {
    /// The topic's message now.
    fn current(&self) -> RetainedVersion {
        let pending = self.pending.iter().flat_map(|pending| pending.iter());
        let last = pending
            .rev()
            .find(|(_, commit)| !matches!(commit.status(), CommitStatus::Failed));
        last.map_or(&self.stored, |(version, _)| version).clone()
    }

    /// Applies the known commits, and passes every removed version to `gone`.
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
                        .filter_map(|(version, _): (RetainedVersion, _)| version)
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

    /// The version that the batch of this commit must write when it is submitted: its own, or a
    /// later one that was submitted before it.
    fn to_submit(&self, commit: &Arc<BatchCommit>) -> &RetainedVersion {
        let pending = self.pending.as_deref().map_or(&[][..], Vec::as_slice);
        let own = pending
            .iter()
            .rposition(|(_, other)| Arc::ptr_eq(other, commit));
        let Some(own) = own else {
            return &self.stored; // a later one is stored already
        };
        let is_submitted = |commit: &BatchCommit| {
            matches!(
                commit.status(),
                CommitStatus::Submitted(_) | CommitStatus::Committed
            )
        };
        let later = pending[own + 1..].iter().rev();
        let mut submitted = later.filter(|(_, commit)| is_submitted(commit));
        submitted
            .next()
            .map_or(&pending[own].0, |(version, _)| version)
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

/// The result of a search for the retained messages of a filter.
#[derive(Default)]
pub(crate) struct RetainedSearch {
    pub(crate) found: Vec<Arc<Publication>>,
    /// The topics that were compared with the filter.
    pub(crate) topics: usize,
}

impl RetainedSearch {
    /// The message of the one topic that a filter without wildcards matches.
    fn of_topic(messages: &BTreeMap<Topic, RetainedTopic>, topic: &str) -> Self {
        let found = messages.get(topic);
        Self {
            found: found.and_then(RetainedTopic::current).into_iter().collect(),
            topics: 1,
        }
    }

    /// Adds messages of the next topics of a search.
    fn add(
        &mut self,
        messages: &BTreeMap<Topic, RetainedTopic>,
        search: &mut TopicSearch<'_>,
        topics_max: usize,
    ) {
        let found = &mut self.found;
        let take = |entry: &RetainedTopic| found.extend(entry.current());
        self.topics += search.step(messages, topics_max, take);
    }

    fn remove_dead(&mut self, now: impl Fn() -> SystemTime) {
        self.found.retain(|publication| {
            let expires = publication.expires();
            expires.is_none_or(|expires| expires > now())
        });
    }
}

/// All retained messages.
pub(crate) struct RetainedMessages {
    messages: RwLock<BTreeMap<Topic, RetainedTopic>>,
    /// Topics with changes whose commit was not known.
    uncommitted: Mutex<Vec<Topic>>,
    /// The retained messages that are not in memory.
    on_disk: RetainedOnDisk,
    /// Held while a batch with changes of retained messages is submitted.
    submitting: Mutex<()>,
    /// Counted topics.
    count: AtomicUsize,
    /// Bytes of topics, payloads and properties, including versions that a failed commit may
    /// restore.
    bytes: AtomicUsize,
    messages_max: usize,
    bytes_max: usize,
}

impl RetainedMessages {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            messages: RwLock::default(),
            uncommitted: Mutex::default(),
            on_disk: RetainedOnDisk::default(),
            submitting: Mutex::default(),
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

    /// Retains `publication`, or clears its topic if the payload is empty \[MQTT-3.3.1-6\]. If its
    /// commit fails, the topic retains its previous message; without a commit the change is final.
    pub(crate) fn retain(
        &self,
        publication: &Arc<Publication>,
        commit: Option<Arc<BatchCommit>>,
    ) -> RetainOutcome {
        let mut messages = self.messages.write();
        let topic = &publication.topic;
        self.settle(&mut messages, topic);
        let is_clearing = publication.payload.is_empty();
        let earlier = messages.get(topic).and_then(RetainedTopic::current);
        if is_clearing && earlier.is_none() && !self.may_be_on_disk(topic) {
            return RetainOutcome::Nothing;
        }
        if !is_clearing && is_counted(topic) && !self.has_room(&messages, publication) {
            // Obsolete versions may free enough space.
            let topics = std::mem::take(&mut *self.uncommitted.lock());
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

    /// The lock that is held while a batch is submitted that [`RetainedMessages::put_in_order`] has
    /// checked.
    pub(crate) fn begin_submitting(&self) -> MutexGuard<'_, ()> {
        self.submitting.lock()
    }

    /// A batch may retain a message that is older than one that another batch has submitted before.
    /// It then writes the later message again, so that the disk finally has it, and its own
    /// acknowledgements wait for it.
    pub(crate) fn put_in_order(&self, changes: &mut [StoreChange], commit: &Arc<BatchCommit>) {
        let messages = self.messages.read();
        for change in changes {
            let topic = match change {
                StoreChange::Retain(publication) => &publication.topic,
                StoreChange::Unretain(topic) => &*topic,
                _ => continue,
            };
            let entry = messages.get(topic);
            *change = match entry.and_then(|entry| entry.to_submit(commit).clone()) {
                Some(publication) => StoreChange::Retain(publication),
                None => StoreChange::Unretain(topic.clone()),
            };
        }
    }

    /// Whether the limits permit `publication` in place of the topic's present message.
    fn has_room(
        &self,
        messages: &BTreeMap<Topic, RetainedTopic>,
        publication: &Publication,
    ) -> bool {
        let entry = messages.get(&publication.topic);
        let others = self.bytes() - entry.map_or(0, RetainedTopic::bytes);
        let is_full = entry.is_none() && self.len() >= self.messages_max;
        !is_full && others + content_bytes(publication) <= self.bytes_max
    }

    fn add(
        &self,
        messages: &mut BTreeMap<Topic, RetainedTopic>,
        topic: &Topic,
        version: RetainedVersion,
        commit: Option<Arc<BatchCommit>>,
    ) {
        let is_counted = is_counted(topic);
        if let Some(new) = &version {
            self.count_bytes(new);
        }
        let entry = messages.entry(topic.clone()).or_insert_with(|| {
            self.count
                .fetch_add(usize::from(is_counted), Ordering::Relaxed);
            RetainedTopic::default()
        });
        let Some(commit) = commit else {
            if let Some(gone) = std::mem::replace(&mut entry.stored, version) {
                self.uncount(&gone);
            }
            self.remove_if_empty(messages, topic);
            return;
        };
        if entry.pending.is_none() {
            self.uncommitted.lock().push(topic.clone());
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

    /// Applies the known commits of a topic's changes.
    fn settle(&self, messages: &mut BTreeMap<Topic, RetainedTopic>, topic: &Topic) {
        if let Some(entry) = messages.get_mut(topic)
            && entry.pending.is_some()
        {
            entry.settle(|gone| self.uncount(&gone));
            self.remove_if_empty(messages, topic);
        }
    }

    fn remove_if_empty(&self, messages: &mut BTreeMap<Topic, RetainedTopic>, topic: &Topic) {
        if messages.get(topic).is_some_and(RetainedTopic::is_empty) {
            messages.remove(topic);
            self.count
                .fetch_sub(usize::from(is_counted(topic)), Ordering::Relaxed);
        }
    }

    /// Applies all known commits, so that obsolete versions use no memory; for the housekeeper.
    pub(crate) fn settle_all(&self) {
        let topics = std::mem::take(&mut *self.uncommitted.lock());
        for topic in topics {
            // One at a time: publishers wait for this lock.
            self.settle_listed(&mut self.messages.write(), topic);
        }
    }

    /// Applies the commits of a topic of the list, on which it remains if some are unknown.
    fn settle_listed(&self, messages: &mut BTreeMap<Topic, RetainedTopic>, topic: Topic) {
        self.settle(messages, &topic);
        let is_pending = |entry: &RetainedTopic| entry.pending.is_some();
        if messages.get(&topic).is_some_and(is_pending) {
            self.uncommitted.lock().push(topic);
        }
    }

    fn count_bytes(&self, new: &Publication) {
        if is_counted(&new.topic) {
            self.bytes.fetch_add(content_bytes(new), Ordering::Relaxed);
        }
    }

    fn uncount(&self, gone: &Publication) {
        if is_counted(&gone.topic) {
            self.bytes.fetch_sub(content_bytes(gone), Ordering::Relaxed);
        }
    }

    /// The retained messages that match `filter` and have not expired, as far as they are in
    /// memory. The clock is read only for messages that expire.
    pub(crate) fn matching(
        &self,
        filter: &TopicFilter,
        now: impl Fn() -> SystemTime,
    ) -> RetainedSearch {
        let mut found = if filter.has_wildcard() {
            let mut search = TopicSearch::new(filter);
            let mut found = RetainedSearch::default();
            while search.is_unfinished() {
                found.add(&self.messages.read(), &mut search, STEP_TOPICS);
            }
            found
        } else {
            RetainedSearch::of_topic(&self.messages.read(), filter.as_str())
        };
        found.remove_dead(now);
        found
    }

    /// The same, including messages on disk, which may use at most `room` bytes of memory.
    pub(crate) fn matching_with_disk(
        &self,
        filter: &TopicFilter,
        room: u64,
        now: impl Fn() -> SystemTime,
    ) -> Result<Result<RetainedSearch, InsufficientMemory>, StoreError> {
        let messages = self.messages.read();
        let mut found = if filter.has_wildcard() {
            let mut found = RetainedSearch::default();
            found.add(&messages, &mut TopicSearch::new(filter), usize::MAX);
            found
        } else {
            RetainedSearch::of_topic(&messages, filter.as_str())
        };
        let prefix = literal_beginning(filter);
        let added = self.add_from_disk(&messages, filter, prefix, room, &mut found)?;
        drop(messages);
        found.remove_dead(now);
        Ok(added.map(|()| found))
    }

    /// The message that a topic retains now, for a session whose search found the one of this id,
    /// on disk if it is given. `None` if the topic retains a later one by now, or none. Must be
    /// called under the session's lock: a publisher retains before it delivers, so the session
    /// receives a later one after this.
    pub(crate) fn present(
        &self,
        topic: &Topic,
        id: MessageId,
        on_disk: Option<&Arc<Publication>>,
    ) -> Option<Arc<Publication>> {
        let messages = self.messages.read();
        match messages.get(topic).filter(|entry| decides(entry)) {
            // Earlier ones return if a change could not be stored, or if other nodes order the
            // messages otherwise: they were delivered before.
            Some(entry) => entry.current().filter(|current| current.id <= id),
            None => on_disk.filter(|_| self.may_be_on_disk(topic)).cloned(),
        }
    }
}

/// The broker's own figures do not count against the limits: their number is fixed.
fn is_counted(topic: &Topic) -> bool {
    !topic.as_str().starts_with("$SYS/")
}

#[cfg(test)]
mod tests;
