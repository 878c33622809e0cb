//! The message that each topic keeps (MQTT 5 § 3.3.1.3).
//!
//! Sorted by topic, so that a filter with a literal beginning looks only at what begins so.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use gatepost_message::{Publication, Topic, TopicFilter};
use parking_lot::RwLock;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The topic keeps the new message.
    Stored,
    /// The topic keeps nothing any more.
    Cleared,
    /// There is no room, or nothing to clear.
    Nothing,
}

/// All retained messages.
pub(crate) struct Retained {
    messages: RwLock<BTreeMap<Topic, Arc<Publication>>>,
    count: AtomicUsize,
    bytes: AtomicUsize,
    messages_max: usize,
    bytes_max: usize,
}

impl Retained {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            messages: RwLock::default(),
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

    /// Keeps `publication`, or clears its topic if the payload is empty \[MQTT-3.3.1-6\].
    pub(crate) fn keep(&self, publication: &Arc<Publication>) -> Kept {
        let mut messages = self.messages.write();
        let earlier_bytes = messages
            .get(&publication.topic)
            .map(|earlier| earlier.payload.len());
        let bytes = publication.payload.len();
        let is_counted = is_counted(&publication.topic);
        if bytes == 0 {
            let Some(earlier) = messages.remove(&publication.topic) else {
                return Kept::Nothing;
            };
            self.uncount(&earlier);
            return Kept::Cleared;
        }
        if is_counted {
            let others = self.bytes() - earlier_bytes.unwrap_or(0);
            let is_full = earlier_bytes.is_none() && self.len() >= self.messages_max;
            if is_full || others + bytes > self.bytes_max {
                return Kept::Nothing;
            }
        }
        if let Some(earlier) = messages.insert(publication.topic.clone(), publication.clone()) {
            self.uncount(&earlier);
        }
        if is_counted {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Kept::Stored
    }

    fn uncount(&self, gone: &Publication) {
        if is_counted(&gone.topic) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.bytes.fetch_sub(gone.payload.len(), Ordering::Relaxed);
        }
    }

    /// What is kept under `filter` and has not expired.
    pub(crate) fn matching(&self, filter: &TopicFilter) -> Vec<Arc<Publication>> {
        let messages = self.messages.read();
        if messages.is_empty() {
            return Vec::new();
        }
        let now = SystemTime::now();
        let is_alive =
            |publication: &Arc<Publication>| publication.expiry_seconds_left(now) != Some(0);
        let text = filter.as_str();
        let Some(wildcard) = text.find(['+', '#']) else {
            let exact = Topic::new(text).ok();
            let found = exact.and_then(|topic| messages.get(&topic).cloned());
            return found.into_iter().filter(is_alive).collect();
        };
        // "sport/#" matches "sport": the literal part ends before the separator.
        let prefix = text[..wildcard].trim_end_matches('/');
        let start = Topic::new(prefix).ok();
        let from = start.as_ref().map_or(Bound::Unbounded, Bound::Included);
        messages
            .range::<Topic, _>((from, Bound::Unbounded))
            .take_while(|(topic, _)| topic.as_str().starts_with(prefix))
            .filter(|(topic, _)| filter.matches(topic.as_str()))
            .map(|(_, publication)| publication.clone())
            .filter(is_alive)
            .collect()
    }

    /// Takes out what has expired; for the housekeeper.
    pub(crate) fn remove_expired(&self) -> Vec<Topic> {
        let now = SystemTime::now();
        let mut messages = self.messages.write();
        let expired: Vec<Topic> = messages
            .values()
            .filter(|publication| publication.expiry_seconds_left(now) == Some(0))
            .map(|publication| publication.topic.clone())
            .collect();
        for topic in &expired {
            if let Some(gone) = messages.remove(topic) {
                self.uncount(&gone);
            }
        }
        expired
    }
}

/// The broker's own figures take no room from anybody: their number is fixed.
fn is_counted(topic: &Topic) -> bool {
    !topic.as_str().starts_with("$SYS/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(retained: &Retained, topic: &str, payload: &str) -> Kept {
        let topic = Topic::new(topic).expect("a topic");
        retained.keep(&Arc::new(Publication::new(topic, payload.to_owned())))
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
            assert_eq!(keep(&retained, topic, "x"), Kept::Stored);
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
        assert_eq!(keep(&retained, "sport", ""), Kept::Cleared);
        assert_eq!(found(&retained, "sport"), [""; 0]);
    }

    #[test]
    fn our_own_figures_take_no_room() {
        let retained = Retained::new(1, 100);
        assert_eq!(
            keep(&retained, "$SYS/broker/uptime", "1 second"),
            Kept::Stored
        );
        assert_eq!(keep(&retained, "a", "x"), Kept::Stored);
        assert_eq!(keep(&retained, "$SYS/broker/version", "1"), Kept::Stored);
        assert_eq!(keep(&retained, "b", "x"), Kept::Nothing);
        assert_eq!((retained.len(), retained.bytes()), (1, 1));
        assert_eq!(keep(&retained, "$SYS/broker/uptime", ""), Kept::Cleared);
        assert_eq!(keep(&retained, "a", ""), Kept::Cleared);
        assert_eq!((retained.len(), retained.bytes()), (0, 0));
    }

    #[test]
    fn room_is_bounded() {
        let retained = Retained::new(2, 10);
        assert_eq!(keep(&retained, "a", "12345"), Kept::Stored);
        assert_eq!(keep(&retained, "b", "123456"), Kept::Nothing);
        assert_eq!(keep(&retained, "a", "1234567890"), Kept::Stored);
        assert_eq!(keep(&retained, "a", "1"), Kept::Stored);
        assert_eq!(keep(&retained, "b", "1"), Kept::Stored);
        assert_eq!(keep(&retained, "c", "1"), Kept::Nothing);
        assert_eq!((retained.len(), retained.bytes()), (2, 2));
    }
}
