//! Removal of retained messages that have expired.

use std::time::SystemTime;

use gatepost_message::Topic;
use gatepost_store::StoreChange;

use super::{RetainedMessages, RetainedTopic};

/// Messages that are removed together, since other commits wait for theirs.
pub(super) const EXPIRED_MAX: usize = 10_000;

impl RetainedMessages {
    /// Removes messages that have expired at `now`, a bounded number; `submit` submits the removals
    /// from the disk. Returns whether more messages may have expired. For the housekeeper.
    pub(crate) fn remove_expired(
        &self,
        now: SystemTime,
        submit: impl FnOnce(Vec<StoreChange>),
    ) -> bool {
        let messages = self.messages.read();
        let expired = messages.iter().filter(|(_, entry)| is_over(entry, now));
        let expired: Vec<Topic> = expired
            .take(EXPIRED_MAX)
            .map(|(topic, _)| topic.clone())
            .collect();
        drop(messages);
        if expired.is_empty() {
            return false;
        }
        let has_more = expired.len() == EXPIRED_MAX;
        // A publisher may retain a message of such a topic at any time. Its change must follow the
        // removal, which would otherwise take the new message from the disk.
        let _in_order = self.begin_submitting();
        let is_removed = |topic: &Topic| {
            // One at a time: publishers wait for this lock.
            let mut messages = self.messages.write();
            let is_over = messages.get(topic).is_some_and(|entry| is_over(entry, now));
            if is_over {
                self.add(&mut messages, topic, None, None);
            }
            is_over
        };
        let removed = expired.into_iter().filter(is_removed);
        submit(removed.map(StoreChange::Unretain).collect());
        has_more
    }
}

/// Whether a topic's message has expired, and no change of it is uncommitted.
fn is_over(entry: &RetainedTopic, now: SystemTime) -> bool {
    let stored = entry.stored.as_ref();
    entry.pending.is_none()
        && stored.is_some_and(|stored| stored.expiry_seconds_left(now) == Some(0))
}
