//! Retained messages that do not fit into memory.
//!
//! They are loaded in the order of their topics, so that one topic marks the boundary: messages up
//! to it are in memory. The others stay on disk. A subscription reads them there; a publication to
//! such a topic does not need them, since the topic's previous message is either replaced by the
//! commit or still on disk. The housekeeper loads more as soon as there is room.
//!
//! Invariant: the message of a topic after the last loaded one is on disk, if the topic has no
//! entry in memory, or only one whose commits have failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use gatepost_message::{Publication, Topic, TopicFilter};
use gatepost_store::{Store, StoreError};
use parking_lot::Mutex;

use super::{RetainedMessages, RetainedSearch, RetainedTopic};
use crate::persistence::CommitStatus;
use crate::weight::content_bytes;

/// Topics that are loaded in one step, while publishers wait.
const STEP_TOPICS: usize = 256;
/// Bytes that are loaded in one step, unless a single message has more.
const STEP_BYTES: u64 = 4 << 20;
/// The memory that an entry takes besides the topic and the payload.
const ENTRY_BYTES: usize = 500;
/// Messages on disk of up to this size are read for a subscription even if memory is short.
const READ_BYTES_MIN: u64 = 1 << 20;

/// The messages on disk, of topics after the last one that was loaded.
#[derive(Default)]
pub(super) struct RetainedOnDisk(Mutex<Option<UnloadedMessages>>);

struct UnloadedMessages {
    store: Store,
    /// The last loaded topic; empty before the first.
    last_loaded: String,
    /// Bytes of memory that the last step took.
    step_bytes: u64,
}

/// The messages on disk for a subscription need more memory than is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InsufficientMemory;

impl RetainedMessages {
    /// Begins to load the messages of `store`, which are all on disk so far.
    pub(crate) fn leave_in(&self, store: &Store) {
        *self.on_disk.0.lock() = Some(UnloadedMessages {
            store: store.clone(),
            last_loaded: String::new(),
            step_bytes: 0,
        });
    }

    /// Whether not all messages are in memory.
    pub(crate) fn is_any_on_disk(&self) -> bool {
        self.on_disk.0.lock().is_some()
    }

    /// The number of topics whose messages are on disk.
    pub(crate) fn on_disk_count(&self) -> Result<u64, StoreError> {
        match &*self.on_disk.0.lock() {
            Some(unloaded) => unloaded.store.retained_count_after(&unloaded.last_loaded),
            None => Ok(0),
        }
    }

    /// Loads the next messages if `room` bytes of memory are enough for as much as the last step
    /// used; returns whether there may be more to load.
    pub(crate) fn load_next(&self, room: u64) -> Result<bool, StoreError> {
        // Publishers must not change a topic between its reading and its entry.
        let mut messages = self.messages.write();
        let mut on_disk = self.on_disk.0.lock();
        let Some(unloaded) = &mut *on_disk else {
            return Ok(false);
        };
        if room <= unloaded.step_bytes {
            return Ok(false);
        }
        let (store, last_loaded) = (&unloaded.store, &unloaded.last_loaded);
        let step = store.retained_after(last_loaded, STEP_TOPICS, STEP_BYTES)?;
        let Some((step, last)) = step else {
            *on_disk = None;
            return Ok(false);
        };
        let bytes = |publication: &Publication| (content_bytes(publication) + ENTRY_BYTES) as u64;
        unloaded.step_bytes = step.iter().map(bytes).sum();
        unloaded.last_loaded = last;
        for publication in step {
            self.put_loaded(&mut messages, Arc::new(publication));
        }
        Ok(true)
    }

    /// Limits that have been lowered do not apply: acknowledged messages are kept.
    fn put_loaded(
        &self,
        messages: &mut BTreeMap<Topic, RetainedTopic>,
        publication: Arc<Publication>,
    ) {
        let entry = messages.get_mut(&publication.topic);
        if let Some(entry) = entry.filter(|entry| entry.pending.is_some()) {
            // Its changes are not committed yet, so the topic may finally retain this message.
            if entry.stored.is_none() {
                self.count_bytes(&publication);
                entry.stored = Some(publication);
            }
        } else if !messages.contains_key(&publication.topic) {
            let topic = publication.topic.clone();
            self.add(messages, &topic, Some(publication), None);
        }
    }

    /// Adds the messages on disk that the filter matches; at most `room` bytes. To be called while
    /// `messages` is locked.
    pub(super) fn add_from_disk(
        &self,
        messages: &BTreeMap<Topic, RetainedTopic>,
        filter: &TopicFilter,
        prefix: &str,
        room: u64,
        search: &mut RetainedSearch,
    ) -> Result<Result<(), InsufficientMemory>, StoreError> {
        let on_disk = self.on_disk.0.lock();
        let Some(unloaded) = &*on_disk else {
            return Ok(Ok(()));
        };
        let room = room.max(READ_BYTES_MIN);
        let mut bytes = 0;
        let visit = |publication: Publication| {
            search.topics += 1;
            let is_decided = messages.get(&publication.topic).is_some_and(decides);
            if is_decided || !filter.matches(publication.topic.as_str()) {
                return;
            }
            bytes += (content_bytes(&publication) + ENTRY_BYTES) as u64;
            if bytes <= room {
                search.found.push(Arc::new(publication));
            }
        };
        let last_loaded = &unloaded.last_loaded;
        unloaded
            .store
            .each_retained_below(prefix, last_loaded, visit)?;
        Ok(if bytes <= room {
            Ok(())
        } else {
            Err(InsufficientMemory)
        })
    }

    /// Whether a topic without an entry may have a message on disk.
    pub(super) fn may_be_on_disk(&self, topic: &Topic) -> bool {
        let on_disk = self.on_disk.0.lock();
        on_disk
            .as_ref()
            .is_some_and(|unloaded| topic.as_str() > unloaded.last_loaded.as_str())
    }
}

/// Whether an entry determines its topic's retained message, so that the disk need not be read.
pub(super) fn decides(entry: &RetainedTopic) -> bool {
    let mut pending = entry.pending.iter().flat_map(|pending| pending.iter());
    let is_alive = |status| !matches!(status, CommitStatus::Failed);
    entry.stored.is_some() || pending.any(|(_, commit)| is_alive(commit.status()))
}
