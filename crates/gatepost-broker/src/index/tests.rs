//! The index against the definition of a match.

use gatepost_message::Qos;
use proptest::prelude::*;

use super::*;
use crate::filter::SubscribeOptions;

fn session(number: usize) -> Arc<Session> {
    Arc::new(Session::new(Arc::from(number.to_string()), "test".into()))
}

fn member(session: &Arc<Session>) -> Subscription {
    Subscription::Session(GroupMember::new(
        session.clone(),
        SubscribeOptions::at(Qos::AtMostOnce),
    ))
}

fn matching(index: &Index, topic: &str) -> Vec<String> {
    let mut found = Vec::new();
    index.visit(topic, index.topic_hash(topic), &mut |subscription| {
        if let Subscription::Session(member) = subscription {
            found.push(member.session.client_id().to_owned());
        }
    });
    found.sort();
    found
}

fn a_filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![
        Just("+".to_owned()),
        Just(String::new()),
        Just("$SYS".to_owned()),
        "[ab]"
    ];
    (prop::collection::vec(level, 1..5), any::<bool>()).prop_map(|(mut levels, hash)| {
        if hash {
            levels.push("#".to_owned());
        }
        levels.join("/")
    })
}

fn a_topic() -> impl Strategy<Value = String> {
    let level = prop_oneof![Just(String::new()), Just("$SYS".to_owned()), "[ab]"];
    prop::collection::vec(level, 1..5).prop_map(|levels| levels.join("/"))
}

proptest! {
    #[test]
    fn the_index_finds_what_filters_match(
        filters in prop::collection::vec(a_filter(), 1..30),
        topics in prop::collection::vec(a_topic(), 1..10),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..25),
    ) {
        let index = Index::new(None, &[]);
        let mut present: Vec<_> = filters
            .iter()
            .filter_map(|text| TopicFilter::new(text).ok())
            .enumerate()
            .map(|(number, filter)| (session(number), filter))
            .collect();
        for (session, filter) in &present {
            index.insert(filter, member(session));
        }
        for removed in removed {
            if present.is_empty() {
                break;
            }
            let (gone, filter) = present.swap_remove(removed.index(present.len()));
            prop_assert!(index.remove(&filter, &|subscription| matches!(
                subscription, Subscription::Session(member) if member.is(&gone))));
        }
        prop_assert_eq!(index.len(), present.len());
        for topic in topics.iter().filter(|topic| !topic.is_empty()) {
            let mut expected: Vec<_> = present
                .iter()
                .filter(|(_, filter)| filter.matches(topic))
                .map(|(session, _)| session.client_id().to_owned())
                .collect();
            expected.sort();
            prop_assert_eq!(matching(&index, topic), expected, "{}", topic);
        }
    }
}

/// Short levels would otherwise take hundreds of times their bytes.
#[test]
fn a_filter_takes_at_most_two_nodes() {
    const LEVELS: usize = 100;
    let index = Index::new(None, &[]);
    let session = session(1);
    let filters: Vec<TopicFilter> = (0..LEVELS)
        .flat_map(|number| {
            let mut levels = vec!["+"; LEVELS];
            levels[number] = "a";
            let shared = levels.join("/");
            [format!("b{number}/{shared}"), shared]
        })
        .map(|text| TopicFilter::new(&text).expect("a filter"))
        .collect();
    for filter in &filters {
        index.insert(filter, member(&session));
        assert!(index.remove(filter, &|_| true));
        index.insert(filter, member(&session));
    }
    let nodes = || index.wildcards.read().len();
    assert!(nodes() <= 2 * filters.len() + 1, "{}", nodes());
    let (kept, removed) = filters.split_first().expect("many");
    for filter in removed {
        assert!(index.remove(filter, &|_| true));
    }
    assert_eq!(nodes(), 2, "{}", kept.as_str());
}

#[test]
fn removal_leaves_no_entries() {
    let index = Index::new(None, &[]);
    let session = session(1);
    for text in ["a/b", "a/+", "a/#", "+/b/#"] {
        let filter = TopicFilter::new(text).expect("a filter");
        let hash = index.topic_hash("a/b");
        let before = index.generations(hash);
        index.insert(&filter, member(&session));
        assert_ne!(
            index.generations(hash),
            before,
            "{text}: publishers look again"
        );
        assert!(index.remove(&filter, &|_| true));
    }
    assert!(index.wildcards.read().is_empty());
    assert!(
        index
            .shards
            .iter()
            .all(|shard| shard.table.read().is_empty())
    );
    assert_eq!(
        (index.len(), index.wildcard_count.load(Ordering::Relaxed)),
        (0, 0)
    );
}
