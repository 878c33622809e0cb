use super::*;

fn publish(recent: &RecentMessages, topic: &str, payload: &str) -> MessageId {
    let topic = Topic::new(topic).expect("a topic");
    let publication = Arc::new(Publication::new(topic.clone(), payload.to_owned()));
    let pushed = recent.push(&recent.record(&topic), &publication, || true);
    pushed.expect("a current record")
}

fn filter(text: &str) -> TopicFilter {
    TopicFilter::new(text).expect("a filter")
}

fn recent_of(per_topic: usize, bytes_max: usize, topics_max: usize) -> RecentMessages {
    RecentMessages::new(per_topic, bytes_max, topics_max, Arc::default())
}

#[test]
fn the_last_ones_are_remembered_over_all_topics() {
    let recent = recent_of(3, 1 << 20, 10);
    let ids: Vec<_> = (0..8)
        .map(|number| publish(&recent, ["a/x", "a/y"][number % 2], "payload"))
        .collect();
    let history = recent.history(&[filter("a/+")], 4);
    let found: Vec<_> = history.iter().map(|publication| publication.id).collect();
    assert_eq!(found, ids[4..]);
    assert_eq!(recent.latest("a/y").expect("one").id, ids[7]);
}

#[test]
fn a_gap_is_reported_when_something_was_forgotten() {
    let recent = recent_of(2, 1 << 20, 10);
    let ids: Vec<_> = (0..4).map(|_| publish(&recent, "a", "payload")).collect();
    let (found, has_gap) = recent.since(&[filter("a")], Since::After(ids[2]));
    assert_eq!((found.len(), has_gap), (1, false));
    let (found, has_gap) = recent.since(&[filter("a")], Since::After(ids[0]));
    assert_eq!((found.len(), has_gap), (2, true));
}

#[test]
fn bytes_and_topics_are_bounded() {
    let recent = recent_of(100, 10_000, 50);
    for number in 0..500 {
        publish(&recent, &format!("topic/{number}"), &"x".repeat(100));
        assert!(recent.records.read().len() <= 50);
    }
    for _ in 0..500 {
        publish(&recent, "one", &"x".repeat(1000));
    }
    let one = recent.record(&Topic::new("one").expect("a topic"));
    assert!(one.ring.lock().publications.len() < 10);
}

#[test]
fn an_overtaken_message_is_delivered_after_those_that_overtook_it() {
    let recent = recent_of(10, 1 << 20, 10);
    let topic = Topic::new("a").expect("a topic");
    let early = Arc::new(Publication::new(topic.clone(), "early"));
    let overtook = publish(&recent, "a", "late");
    let record = recent.record(&topic);
    let overtaken = recent.push(&record, &early, || true).expect("current");
    assert!(overtaken > overtook && early.id < overtook);
    let (found, has_gap) = recent.since(&[filter("a")], Since::After(overtook));
    assert_eq!((found.len(), has_gap), (1, false));
    assert_eq!(found[0].position, overtaken);
    // A message's own id will do as well.
    let (found, _) = recent.since(&[filter("a")], Since::After(early.id));
    assert_eq!(found.len(), 0);
}

#[test]
fn a_gap_is_reported_where_topics_were_evicted_or_the_server_restarted() {
    let before_start = MessageId::next();
    let recent = recent_of(10, 1 << 20, 50);
    let first = publish(&recent, "topic/0", "x");
    let whole = publish(&recent, "whole", "x");
    for number in 1..200 {
        publish(&recent, &format!("topic/{number}"), "x");
        publish(&recent, "whole", "x");
    }
    let gap = |text: &str, after| recent.since(&[filter(text)], Since::After(after)).1;
    assert!(gap("topic/+", first));
    assert!(gap("topic/7", first), "evicted");
    assert!(!gap("whole", publish(&recent, "whole", "x")));
    assert!(gap("whole", whole), "its ring is short");
    assert!(gap("whole", before_start));
    let last = publish(&recent, "topic/1", "x");
    assert!(!gap("topic/+", last));
}

#[test]
fn evictions_of_system_topics_are_no_gap_for_others() {
    let recent = recent_of(10, 1 << 20, 10);
    let first = publish(&recent, "topic/0", "x");
    let system = publish(&recent, "$SYS/0", "x");
    for number in 1..50 {
        publish(&recent, &format!("$SYS/{number}"), "x");
        publish(&recent, "topic/0", "x");
    }
    let gap = |text: &str, after| recent.since(&[filter(text)], Since::After(after)).1;
    let last = publish(&recent, "topic/0", "x");
    publish(&recent, "$SYS/last", "x");
    for number in 0..50 {
        publish(&recent, &format!("$SYS/again/{number}"), "x");
    }
    for text in ["topic/+", "+/+", "#", "topic/0"] {
        assert!(!gap(text, last), "{text}");
    }
    assert!(gap("$SYS/#", system), "those are gone");
    assert!(gap("$SYS/#", last));
    assert!(gap("topic/+", first), "its ring is short");
}

#[test]
fn an_evicted_record_accepts_no_publication() {
    let recent = recent_of(10, 1 << 20, 10);
    let topic = Topic::new("old").expect("a topic");
    let old = recent.record(&topic);
    for number in 0..50 {
        publish(&recent, &format!("topic/{number}"), "x");
    }
    let publication = Arc::new(Publication::new(topic, "x"));
    let pushed = recent.push(&old, &publication, || true);
    assert_eq!(pushed, Err(StaleTopic::Record));
}

/// Each publisher keeps the records of up to a thousand topics.
#[test]
fn an_evicted_record_keeps_no_publications() {
    let recent = recent_of(3, 1 << 20, 10);
    let first = publish(&recent, "old", "x");
    let kept = recent.record(&Topic::new("old").expect("a topic"));
    let newest = publish(&recent, "old", "x");
    for number in 0..50 {
        publish(&recent, &format!("topic/{number}"), "x");
    }
    let ring = kept.ring.lock();
    assert!(ring.is_evicted && ring.publications.is_empty());
    assert_eq!(ring.forgotten, Some(newest));
    drop(ring);
    // A reader that found the record before its eviction.
    assert!(recent.may_miss(&[filter("old")], &[kept], first));
}

#[test]
fn the_latest_of_many_topics_are_bounded_too() {
    const BYTES_MAX: usize = 10_000;
    let recent = recent_of(100, BYTES_MAX, 1_000);
    let large = "x".repeat(1_000);
    let mut first = None;
    for number in 0..50 {
        let id = publish(&recent, &format!("topic/{number}"), &large);
        first.get_or_insert(id);
        assert!(recent.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
        assert!(recent.latest(&format!("topic/{number}")).is_some());
    }
    assert!(recent.latest("topic/0").is_none());
    let after = Since::After(first.expect("published"));
    let (found, has_gap) = recent.since(&[filter("topic/#")], after);
    assert!((5..10).contains(&found.len()) && has_gap);
    // A publication larger than the whole memory is not remembered at all.
    publish(&recent, "topic/larger", &large.repeat(11));
    assert!(recent.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
}
