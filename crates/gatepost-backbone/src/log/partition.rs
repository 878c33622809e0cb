//! The partition of a topic.

use gatepost_message::TopicFilter;

/// The offset basis and the prime of the hash FNV-1a with 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The number of the partition, from 1 to `count`, that the topic's first `levels` levels choose.
/// All nodes of a cluster compute the same.
pub(super) fn of(topic: &str, levels: usize, count: u16) -> u16 {
    let end = memchr::memchr_iter(b'/', topic.as_bytes()).nth(levels - 1);
    let first = &topic.as_bytes()[..end.unwrap_or(topic.len())];
    let hash = first.iter().fold(BASIS, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    // The high bits depend on every byte; the low ones on few bits of each.
    let folded = hash ^ (hash >> 32);
    (folded % u64::from(count.max(1))) as u16 + 1
}

/// The partition of all topics that a filter matches; `None` if they may be in several.
pub(super) fn of_filter(filter: &TopicFilter, levels: usize, count: u16) -> Option<u16> {
    let text = filter.as_str();
    let chosen: Vec<&str> = text.split('/').take(levels).collect();
    let has_wildcard = chosen.iter().any(|level| matches!(*level, "+" | "#"));
    // `a/#` matches `a` as well, whose levels are fewer.
    let has_all = chosen.len() == levels && !has_wildcard;
    (has_all || !filter.has_wildcard()).then(|| of(text, levels, count))
}

#[cfg(test)]
mod tests {
    use gatepost_message::Topic;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn topics_of_a_filter_are_in_its_partition(
            filter in "([ab]|\\+)(/([ab]|\\+)){0,3}(/#)?", topic in "[ab](/[ab]){0,3}",
            levels in 1_usize..4,
        ) {
            let filter = TopicFilter::new(&filter).expect("a filter");
            let topic = Topic::new(&topic).expect("a topic");
            if filter.matches(topic.as_str()) {
                let found = of_filter(&filter, levels, 7);
                prop_assert!(found.is_none_or(|found| found == of(topic.as_str(), levels, 7)));
            }
        }
    }

    #[test]
    fn a_filter_that_begins_without_wildcards_has_one_partition() {
        let found = |text: &str, levels| {
            let filter = TopicFilter::new(text).expect("a filter");
            of_filter(&filter, levels, 7)
        };
        assert_eq!(found("a/#", 1), Some(of("a", 1, 7)));
        assert_eq!(found("a/+/c", 1), Some(of("a/b/c", 1, 7)));
        assert_eq!(found("a", 2), Some(of("a", 2, 7)));
        assert_eq!(
            (found("a/#", 2), found("#", 1), found("+/a", 1)),
            (None, None, None)
        );
    }

    #[test]
    fn the_first_levels_choose_the_partition() {
        assert_eq!(of("a/b", 1, 7), of("a/c/d", 1, 7));
        assert_eq!(of("a/b", 2, 7), of("a/b/c", 2, 7));
        assert_eq!(of("a", 2, 7), of("a", 1, 7));
        let differ = (0..20).any(|number| of(&format!("a/{number}"), 2, 7) != of("a/b", 2, 7));
        assert!(differ);
        assert_eq!(of("any", 1, 1), 1);
    }

    #[test]
    fn topics_are_spread_evenly() {
        let mut counts = [0_u32; 4];
        for number in 0..4_000 {
            counts[usize::from(of(&format!("sensor{number}/t"), 1, 4)) - 1] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1_150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn the_partition_of_a_topic_is_the_same_in_every_version() {
        // A cluster's streams hold publications by these numbers.
        let found = ["alarms/cellar", "sensors/1/temperature", "ü", "/x"].map(|one| of(one, 1, 4));
        assert_eq!(found, [1, 3, 2, 2]);
    }
}
