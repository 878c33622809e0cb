//! Tests of the queue.

use std::time::Duration;

use gatepost_message::{Publication, Topic};

use super::*;
use crate::settings::BackboneSettings;

const ORIGIN: BundleOrigin = BundleOrigin {
    node: 1,
    run: 2,
    number: 3,
};

fn logged(payload: &str) -> LoggedPublication {
    let topic = Topic::new("a").expect("a topic");
    LoggedPublication {
        publication: Arc::new(Publication::new(topic, payload.to_owned())),
        session: None,
    }
}

fn queue(earlier: Vec<LoggedPublication>) -> AppendQueue {
    let bounds = AppendBounds::new(&BackboneSettings::default());
    AppendQueue::new(earlier, Arc::new(bounds))
}

/// Appends publications, and returns the ticket for them.
fn append(queue: &AppendQueue, payloads: &[&str], stored: Option<Ticket>) -> Ticket {
    let (pending, ticket) = PendingAppend::new(payloads.len());
    queue.push(Append {
        publications: payloads.iter().map(|one| logged(one)).collect(),
        stored,
        pending,
        deadline: Some(Instant::now() + Duration::from_mins(1)),
    });
    ticket
}

fn append_kept(queue: &AppendQueue, payload: &str) -> Ticket {
    let (pending, ticket) = PendingAppend::new(1);
    queue.push(Append {
        publications: vec![logged(payload)],
        stored: None,
        pending,
        deadline: None,
    });
    ticket
}

/// The payloads of the entry after the first `sent` ones.
fn next(queue: &AppendQueue, sent: usize) -> Option<Vec<String>> {
    let NextEntry::Send(entry) = queue.next(sent, || ORIGIN) else {
        return None;
    };
    let (_, publications) = entry::read(entry.bytes.clone()).expect("an entry");
    let payload = |one: &entry::EntryPublication| {
        String::from_utf8_lossy(&one.logged.publication.payload).into_owned()
    };
    Some(publications.iter().map(payload).collect())
}

fn is_empty(queue: &AppendQueue) -> bool {
    queue.bounds.messages() == 0
}

#[test]
fn waiting_publications_share_an_entry_and_kept_ones_do_not() {
    let queue = queue(Vec::new());
    let first = append(&queue, &["a", "b"], None);
    let second = append(&queue, &["c"], None);
    let kept = append_kept(&queue, "d");
    append_kept(&queue, "e");
    assert_eq!(next(&queue, 0).expect("one"), ["a", "b", "c"]);
    assert_eq!(next(&queue, 1).expect("one"), ["d"]);
    assert_eq!(next(&queue, 2).expect("one"), ["e"]);
    assert_eq!(next(&queue, 3), None);
    assert!(first.outcome().is_none());
    queue.settle(&[true]);
    assert!(first.outcome().expect("known").is_ok());
    assert!(second.outcome().expect("known").is_ok());
    assert!(kept.outcome().is_none());
    queue.settle(&[true, true]);
    assert!(kept.outcome().expect("known").is_ok());
    assert!(is_empty(&queue));
}

#[test]
fn a_large_flush_is_divided_and_decided_as_a_whole() {
    let queue = queue(Vec::new());
    let large = "x".repeat(ENTRY_BYTES_MAX - 100);
    let ticket = append(&queue, &[&large, &large], None);
    assert_eq!(next(&queue, 0).expect("one").len(), 1);
    assert_eq!(next(&queue, 1).expect("one").len(), 1);
    queue.settle(&[true]);
    assert!(ticket.outcome().is_none(), "a part is not stored");
    queue.settle(&[true]);
    assert!(ticket.outcome().expect("known").is_ok());
}

#[test]
fn unstored_entries_are_sent_again_unless_a_later_one_was_stored() {
    let queue = queue(Vec::new());
    let first = append(&queue, &["a"], None);
    assert!(next(&queue, 0).is_some());
    let kept = append_kept(&queue, "b");
    assert!(next(&queue, 1).is_some());
    let third = append(&queue, &["c"], None);
    assert!(next(&queue, 2).is_some());
    let last = append(&queue, &["d"], None);
    assert!(next(&queue, 3).is_some());
    queue.settle(&[false, false, true, false]);
    assert!(
        first.outcome().expect("known").is_err(),
        "it would be out of order"
    );
    assert!(third.outcome().expect("known").is_ok());
    assert!(kept.outcome().is_none() && last.outcome().is_none());
    assert_eq!(next(&queue, 0).expect("one"), ["b"]);
    assert_eq!(next(&queue, 1).expect("one"), ["d"]);
}

#[test]
fn publications_wait_for_the_changes_of_this_server() {
    let queue = queue(Vec::new());
    let (commit, ticket) = ExternalCommit::new();
    let stored = append(&queue, &["a"], Some(ticket));
    assert!(matches!(queue.next(0, || ORIGIN), NextEntry::Await(_)));
    commit.decide(Ok(()));
    assert_eq!(next(&queue, 0).expect("one"), ["a"]);
    let (commit, ticket) = ExternalCommit::new();
    let unstored = append(&queue, &["b"], Some(ticket));
    commit.decide(Err(StoreError::Closed));
    assert_eq!(next(&queue, 1), None);
    assert!(unstored.outcome().expect("known").is_err() && stored.outcome().is_none());
}

#[test]
fn publications_fail_when_their_time_is_over_and_kept_ones_do_not() {
    let queue = queue(Vec::new());
    let sent = append(&queue, &["a"], None);
    assert!(next(&queue, 0).is_some());
    let waiting = append(&queue, &["b"], None);
    let kept = append_kept(&queue, "c");
    queue.fail_overdue(Instant::now());
    assert!(sent.outcome().is_none() && waiting.outcome().is_none());
    queue.fail_overdue(Instant::now() + Duration::from_mins(2));
    assert!(sent.outcome().expect("known").is_err());
    assert!(waiting.outcome().expect("known").is_err());
    assert!(kept.outcome().is_none());
    // The next connection does not send what has failed.
    assert_eq!(next(&queue, 0).expect("one"), ["c"]);
    queue.settle(&[true]);
    assert!(is_empty(&queue));
}

#[test]
fn what_an_earlier_run_kept_is_sent_first_unless_it_was_found() {
    let earlier = [logged("x"), logged("y"), logged("z")];
    let queue = queue(earlier.to_vec());
    append(&queue, &["new"], None);
    assert_eq!(next(&queue, 0), None, "the log is not read yet");
    queue.found_in_log(earlier[1].publication.id);
    queue.release_earlier();
    let all: Vec<_> = (0..4).map_while(|sent| next(&queue, sent)).collect();
    assert_eq!(all, [["x"], ["z"], ["new"]]);
    let NextEntry::Send(first) = queue.next(0, || ORIGIN) else {
        panic!("the first entry remains");
    };
    assert_eq!(first.kept, Some(earlier[0].publication.id));
    assert_eq!(
        first.id,
        format!("kept-{:x}", earlier[0].publication.id.number())
    );
}
