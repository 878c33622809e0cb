use std::thread;
use std::time::Duration;

use gatepost_message::{MessageId, Properties};

use super::*;

fn keep(retained: &RetainedMessages, topic: &str, payload: &str) -> RetainOutcome {
    let topic = Topic::new(topic).expect("a topic");
    retained.retain(&Arc::new(Publication::new(topic, payload.to_owned())), None)
}

fn found(retained: &RetainedMessages, filter: &str) -> Vec<String> {
    let filter = TopicFilter::new(filter).expect("a filter");
    let topic = |publication: Arc<Publication>| publication.topic.to_string();
    retained
        .matching(&filter, SystemTime::now)
        .found
        .into_iter()
        .map(topic)
        .collect()
}

#[test]
fn filters_find_the_retained_messages_of_topics() {
    let retained = RetainedMessages::new(100, 1000);
    for topic in [
        "sport",
        "sport/a",
        "sport/a/b",
        "sports",
        "$SYS/x",
        "/sport",
    ] {
        assert_eq!(keep(&retained, topic, "x"), RetainOutcome::Stored);
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
    assert_eq!(keep(&retained, "sport", ""), RetainOutcome::Cleared);
    assert_eq!(found(&retained, "sport"), [""; 0]);
}

#[test]
fn our_own_figures_take_no_room() {
    let retained = RetainedMessages::new(1, 100);
    assert_eq!(
        keep(&retained, "$SYS/broker/uptime", "1 second"),
        RetainOutcome::Stored
    );
    assert_eq!(keep(&retained, "a", "x"), RetainOutcome::Stored);
    assert_eq!(
        keep(&retained, "$SYS/broker/version", "1"),
        RetainOutcome::Stored
    );
    assert_eq!(keep(&retained, "b", "x"), RetainOutcome::Nothing);
    assert_eq!((retained.len(), retained.bytes()), (1, 2));
    assert_eq!(
        keep(&retained, "$SYS/broker/uptime", ""),
        RetainOutcome::Cleared
    );
    assert_eq!(keep(&retained, "a", ""), RetainOutcome::Cleared);
    assert_eq!((retained.len(), retained.bytes()), (0, 0));
}

#[test]
fn room_is_bounded() {
    let retained = RetainedMessages::new(2, 10);
    assert_eq!(keep(&retained, "a", "12345"), RetainOutcome::Stored);
    assert_eq!(keep(&retained, "b", "1234"), RetainOutcome::Nothing);
    assert_eq!(keep(&retained, "a", "123456789"), RetainOutcome::Stored);
    assert_eq!(keep(&retained, "a", "1"), RetainOutcome::Stored);
    assert_eq!(keep(&retained, "b", "1"), RetainOutcome::Stored);
    assert_eq!(keep(&retained, "c", "1"), RetainOutcome::Nothing);
    assert_eq!((retained.len(), retained.bytes()), (2, 4));
}

#[test]
fn a_message_that_cannot_be_stored_is_not_retained() {
    let store = gatepost_store::Store::in_memory().expect("a store");
    let submitted = |works: bool| {
        let mut batch = crate::persistence::ChangeBatch::default();
        let commit = batch.commit();
        let ticket = store.submit([]);
        let ticket = if works {
            ticket
        } else {
            Err(StoreError::Closed)
        };
        batch.was_submitted(Some(&ticket), Some(&ticket));
        commit
    };
    let retained = RetainedMessages::new(10, 1_000);
    let publish = |payload: &str, commit| {
        let topic = Topic::new("a").expect("a topic");
        retained.retain(
            &Arc::new(Publication::new(topic, payload.to_owned())),
            Some(commit),
        )
    };
    let current = || {
        let filter = TopicFilter::new("a").expect("a filter");
        let found = retained.matching(&filter, SystemTime::now).found;
        found.first().map(|publication| publication.payload.clone())
    };
    publish("lost", submitted(false));
    assert_eq!(current(), None);
    publish("one", submitted(true));
    publish("lost", submitted(false));
    assert_eq!(current().as_deref(), Some(&b"one"[..]));
    publish("", submitted(false));
    assert_eq!(
        current().as_deref(),
        Some(&b"one"[..]),
        "the clearing failed"
    );
    publish("", submitted(true));
    assert_eq!(current(), None);
    retained.settle_all();
    assert_eq!((retained.len(), retained.bytes()), (0, 0));
    assert!(retained.messages.read().is_empty());
}

/// A message that expired a minute ago.
fn keep_expired(retained: &RetainedMessages, topic: &str) {
    let minute = Duration::from_mins(1);
    let properties = Properties {
        expiry_seconds: Some(1),
        ..Properties::default()
    };
    let publication = Publication {
        id: MessageId::floor_at(SystemTime::now() - minute),
        properties: Some(Box::new(properties)),
        ..Publication::new(Topic::new(topic).expect("a topic"), "x")
    };
    retained.retain(&Arc::new(publication), None);
}

#[test]
fn expired_messages_are_removed_in_parts() {
    let retained = RetainedMessages::new(1_000_000, usize::MAX);
    for number in 0..expiry::EXPIRED_MAX + 5 {
        keep_expired(&retained, &format!("old/{number}"));
    }
    keep(&retained, "new", "x");
    let now = SystemTime::now();
    let mut removed = Vec::new();
    let mut remove = || retained.remove_expired(now, |removals| removed.push(removals.len()));
    assert!(remove());
    assert!(!remove());
    assert!(!remove());
    assert_eq!(removed, [expiry::EXPIRED_MAX, 5]);
    assert_eq!(retained.len(), 1);
    assert_eq!(found(&retained, "#"), ["new"]);
}

/// A message that a publisher retains while expired ones are removed stays on the disk.
#[test]
fn a_removal_does_not_overtake_the_next_message_of_its_topic() {
    let retained = RetainedMessages::new(10, 1_000);
    keep_expired(&retained, "a");
    keep_expired(&retained, "b");
    let removed = thread::scope(|scope| {
        // A publisher submits a batch, after which its message is the topic's.
        let submitting = retained.begin_submitting();
        let removing = scope.spawn(|| {
            let mut removed = Vec::new();
            retained.remove_expired(SystemTime::now(), |removals| removed = removals);
            removed
        });
        thread::sleep(Duration::from_millis(100));
        assert_eq!(retained.len(), 2, "the removal waits for the batch");
        keep(&retained, "a", "new");
        drop(submitting);
        removing.join().expect("no panic")
    });
    let b = Topic::new("b").expect("a topic");
    assert!(
        matches!(&removed[..], [StoreChange::Unretain(topic)] if *topic == b),
        "{removed:?}"
    );
    assert_eq!(found(&retained, "#"), ["a"]);
}

#[test]
fn a_search_counts_the_topics_that_it_compares() {
    let retained = RetainedMessages::new(100, 1000);
    for topic in ["a/x", "a/y", "b/x", "c"] {
        keep(&retained, topic, "1");
    }
    let topics = |filter: &str| {
        let filter = TopicFilter::new(filter).expect("a filter");
        retained.matching(&filter, SystemTime::now).topics
    };
    assert_eq!([topics("+/none"), topics("a/+"), topics("c")], [4, 2, 1]);
}

#[test]
fn a_message_that_was_found_is_present_until_a_later_one_replaces_it() {
    let retained = RetainedMessages::new(100, 1000);
    let topic = Topic::new("a").expect("a topic");
    let early = MessageId::next();
    keep(&retained, "a", "kept");
    let present = |id| {
        let present = retained.present(&topic, id, None);
        present.map(|publication| publication.payload.clone())
    };
    assert_eq!(present(early), None, "the client receives the later one");
    // A later one was found, and could not be stored.
    assert_eq!(present(MessageId::next()).as_deref(), Some(&b"kept"[..]));
    keep(&retained, "a", "");
    assert_eq!(present(MessageId::next()), None);
}
