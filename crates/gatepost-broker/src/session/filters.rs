//! The filters that a session subscribes to, bounded in number and in bytes.

use std::collections::{BTreeSet, btree_set};
use std::ops::Bound;

use gatepost_message::TopicFilter;

/// The beginning of a shared subscription.
const SHARED_PREFIX: &str = "$share/";

/// A set of filters that knows its size. A tree, since a growing hash table frees blocks of memory
/// that nothing else can reuse.
#[derive(Default)]
pub(crate) struct SessionFilters {
    filters: BTreeSet<TopicFilter>,
    bytes: usize,
}

impl SessionFilters {
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    pub(crate) fn contains(&self, filter: &TopicFilter) -> bool {
        self.filters.contains(filter)
    }

    /// Adds a filter if both limits permit it: `Some(true)` if it is new, `None` if a limit is
    /// reached.
    pub(crate) fn insert(
        &mut self,
        filter: &TopicFilter,
        count_max: usize,
        bytes_max: usize,
    ) -> Option<bool> {
        let bytes = self.bytes + filter.as_str().len();
        let is_full = self.filters.len() >= count_max || bytes > bytes_max;
        if is_full && !self.filters.contains(filter) {
            return None;
        }
        let is_new = self.filters.insert(filter.clone());
        if is_new {
            self.bytes = bytes;
        }
        Some(is_new)
    }

    /// Removes a filter; returns whether the session had it.
    pub(crate) fn remove(&mut self, filter: &TopicFilter) -> bool {
        let existed = self.filters.remove(filter);
        if existed {
            self.bytes -= filter.as_str().len();
        }
        existed
    }

    /// The shared subscriptions among them.
    pub(crate) fn shared(&self) -> impl Iterator<Item = &TopicFilter> {
        // Filters are ordered as their texts are.
        let from = (Bound::Included(SHARED_PREFIX), Bound::Unbounded);
        let from = self.filters.range::<str, _>(from);
        from.take_while(|filter| filter.as_str().starts_with(SHARED_PREFIX))
    }

    pub(crate) fn iter(&self) -> btree_set::Iter<'_, TopicFilter> {
        self.filters.iter()
    }
}

impl IntoIterator for SessionFilters {
    type Item = TopicFilter;
    type IntoIter = btree_set::IntoIter<TopicFilter>;

    fn into_iter(self) -> Self::IntoIter {
        self.filters.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_bytes_are_bounded() {
        let filter = |text: &str| TopicFilter::new(text).expect("a filter");
        let mut filters = SessionFilters::default();
        assert_eq!(filters.insert(&filter("a/b"), 2, 8), Some(true));
        assert_eq!(filters.insert(&filter("a/b"), 2, 8), Some(false));
        assert_eq!(filters.insert(&filter("a/long"), 2, 8), None, "9 bytes");
        assert_eq!(filters.insert(&filter("a/c"), 2, 8), Some(true));
        assert_eq!(filters.insert(&filter("x"), 2, 8), None, "a third one");
        assert_eq!(filters.insert(&filter("a/b"), 2, 8), Some(false), "known");
        assert!(filters.remove(&filter("a/b")));
        assert!(!filters.remove(&filter("a/b")));
        assert_eq!(filters.insert(&filter("x"), 2, 8), Some(true));
        assert_eq!(filters.into_iter().count(), 2);
    }

    #[test]
    fn shared_subscriptions_are_found_among_all() {
        let mut filters = SessionFilters::default();
        for text in ["#", "$SYS/x", "$share/a/b", "$share/c/#", "$shared/x", "a"] {
            let filter = TopicFilter::new(text).expect("a filter");
            filters.insert(&filter, 10, 1_000);
        }
        let shared: Vec<&str> = filters.shared().map(TopicFilter::as_str).collect();
        assert_eq!(shared, ["$share/a/b", "$share/c/#"]);
    }
}
