//! The topics and filters of all schedules.

use gatepost_message::{Topic, TopicFilter};

pub(crate) const TOPICS: [&str; 5] = ["a/1", "a/2", "b", "shared", "will"];
/// The topic of publications that a group of subscribers shares.
pub(crate) const SHARED: usize = 3;
pub(crate) const WILL: usize = 4;

/// Filters, with the topics that they match.
pub(crate) const FILTERS: [(&str, &[usize]); 5] = [
    ("a/#", &[0, 1]),
    ("a/1", &[0]),
    ("b", &[2]),
    ("$share/group/shared", &[SHARED]),
    ("will", &[WILL]),
];
pub(crate) const SHARED_FILTER: usize = 3;
pub(crate) const WILL_FILTER: usize = 4;

pub(crate) fn topic(index: usize) -> Topic {
    Topic::new(TOPICS[index]).expect("a topic")
}

pub(crate) fn index_of(topic: &str) -> usize {
    let found = TOPICS.iter().position(|known| *known == topic);
    found.expect("a topic of the simulation")
}

pub(crate) fn index_of_filter(filter: &TopicFilter) -> usize {
    let mut known = FILTERS.iter();
    let found = known.position(|(text, _)| *text == filter.as_str());
    found.expect("a filter of the simulation")
}

/// Whether a filter is of its session alone, and matches the topic.
pub(crate) fn matches(filter: usize, topic: usize) -> bool {
    FILTERS[filter].1.contains(&topic)
}
