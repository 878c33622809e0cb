//! The search for the topics that a filter matches, among all that retain a message.
//!
//! Topics are sorted, so one that does not match shows from where on the next one may: after
//! `a/b/temperature` under the filter `a/+/load`, no topic before `a/b0` can match, since `0`
//! follows the separator. The search passes over a few such topics one by one, which costs less
//! than a look-up, and seeks if there are more.

use std::collections::BTreeMap;
use std::ops::Bound;

use gatepost_message::{Topic, TopicFilter};

/// Topics that are passed over before the search seeks.
const PASSED_MAX: usize = 16;
/// The character after the separator of levels.
const AFTER_SEPARATOR: char = '0';
/// The character after that of the server's own topics.
const AFTER_INTERNAL: char = '%';

/// A search that has visited the topics before one of them.
pub(super) struct TopicSearch<'f> {
    filter: &'f TopicFilter,
    /// The common beginning of all topics that the filter matches.
    prefix: &'f str,
    /// The beginning of the topics that are left; `None` at the end.
    next: Option<String>,
}

impl<'f> TopicSearch<'f> {
    pub(super) fn new(filter: &'f TopicFilter) -> Self {
        let prefix = literal_beginning(filter);
        Self {
            filter,
            prefix,
            next: Some(prefix.to_owned()),
        }
    }

    /// Whether there may be more topics.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.next.is_some()
    }

    /// Visits the entries of the next matching topics; examines at most `topics_max` topics, and
    /// returns how many.
    pub(super) fn step<E>(
        &mut self,
        entries: &BTreeMap<Topic, E>,
        topics_max: usize,
        mut visit: impl FnMut(&E),
    ) -> usize {
        let mut examined = 0;
        let mut target = String::new();
        'seek: while let Some(from) = self.next.take() {
            let from = (Bound::Included(from.as_str()), Bound::Unbounded);
            let mut passed = 0;
            for (topic, entry) in entries.range::<str, _>(from) {
                let topic = topic.as_str();
                if !topic.starts_with(self.prefix) {
                    return examined;
                }
                if examined == topics_max {
                    self.next = Some(topic.to_owned());
                    return examined;
                }
                examined += 1;
                if topic < target.as_str() {
                    passed += 1;
                    if passed > PASSED_MAX {
                        self.next = Some(target.clone());
                        continue 'seek;
                    }
                } else {
                    passed = 0;
                    if matches_or_seeks(self.filter.as_str(), topic, &mut target) {
                        visit(entry);
                    }
                }
            }
        }
        examined
    }
}

/// The common prefix of all topics that the filter matches; "sport/#" matches "sport", so it ends
/// before the separator.
pub(super) fn literal_beginning(filter: &TopicFilter) -> &str {
    let text = filter.as_str();
    match text.find(['+', '#']) {
        Some(wildcard) => text[..wildcard].trim_end_matches('/'),
        None => text,
    }
}

/// Whether the filter matches the topic. If it does not, no topic between this one and `target`
/// matches either; `target` is empty if nothing is known of those that follow.
fn matches_or_seeks(filter: &str, topic: &str, target: &mut String) -> bool {
    target.clear();
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        target.push(AFTER_INTERNAL);
        return false; // [MQTT-4.7.2-1]
    }
    let mut begins = 0;
    for level in filter.split('/') {
        if level == "#" {
            return true;
        }
        let Some(rest) = topic.get(begins..) else {
            // The topic has too few levels. One with more of them does not follow immediately:
            // "a-" is between "a" and "a/".
            return false;
        };
        let name = rest.split('/').next().unwrap_or_default();
        if level != "+" && level != name {
            seek_level(&topic[..begins], rest, level, target);
            return false;
        }
        begins += name.len() + 1;
    }
    if begins <= topic.len() {
        // It has more levels than the filter, as all topics below the same one have.
        target.push_str(&topic[..begins - 1]);
        target.push(AFTER_SEPARATOR);
        return false;
    }
    true
}

/// Sets the target to the next topic below `parent`, which ends with a separator or is empty, whose
/// next level is `level`: after `parent` and `rest`.
fn seek_level(parent: &str, rest: &str, level: &str, target: &mut String) {
    let is_before_those_below = rest.strip_prefix(level).is_some_and(|after| after < "/");
    target.push_str(parent);
    if rest < level {
        target.push_str(level);
    } else if is_before_those_below {
        target.push_str(level);
        target.push('/');
    } else if target.pop().is_some() {
        target.push(AFTER_SEPARATOR);
    } else {
        target.push(char::MAX); // after all topics, except malicious ones
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(topics: &BTreeMap<Topic, String>, filter: &str, step: usize) -> (Vec<String>, usize) {
        let filter = TopicFilter::new(filter).expect("a filter");
        let mut search = TopicSearch::new(&filter);
        let (mut found, mut examined) = (Vec::new(), 0);
        while search.is_unfinished() {
            examined += search.step(topics, step, |topic| found.push(topic.clone()));
        }
        (found, examined)
    }

    fn sorted(names: impl IntoIterator<Item = String>) -> BTreeMap<Topic, String> {
        let named = |name: String| (Topic::new(&name).expect("a topic"), name);
        names.into_iter().map(named).collect()
    }

    #[test]
    fn groups_of_other_topics_are_passed_over() {
        let mut names = Vec::new();
        for device in 0..100 {
            names.push(format!("site/{device:02}/load"));
            names.extend((0..1_000).map(|sensor| format!("site/{device:02}/t/{sensor:03}")));
        }
        let topics = sorted(names);
        let (found, examined) = found(&topics, "site/+/load", usize::MAX);
        assert_eq!(found.len(), 100);
        assert!(examined < 3_000, "{examined} of {}", topics.len());
    }

    #[test]
    fn a_search_in_steps_examines_each_topic_once() {
        let topics = sorted((0..100).map(|number| format!("{number}/a")));
        let whole = found(&topics, "+/b", usize::MAX);
        assert_eq!(found(&topics, "+/b", 7), whole);
        assert_eq!(whole, (Vec::new(), 100));
    }

    proptest! {
        #[test]
        fn a_search_finds_what_comparing_all_topics_finds(
            names in proptest::collection::vec("[ab0/$!\u{10ffff}-]{1,7}", 0..60),
            filter in proptest::collection::vec("[ab0$-]{0,2}|\\+", 1..5),
            has_hash: bool,
            step in 1_usize..30,
        ) {
            let mut filter = filter.join("/");
            if has_hash {
                filter.push_str("/#");
            }
            prop_assume!(!filter.is_empty());
            let topics = sorted(names);
            let parsed = TopicFilter::new(&filter).expect("a filter");
            let expected: Vec<String> = topics
                .values()
                .filter(|name| parsed.matches(name))
                .cloned()
                .collect();
            let (found, examined) = found(&topics, &filter, step);
            prop_assert_eq!(found, expected);
            prop_assert!(examined <= topics.len());
        }
    }
}
