//! Tests of the queue.

use std::time::Duration;

use gatepost_message::{Publication, Topic};
use gatepost_store::ExternalCommit;

use super::*;
use crate::log::entry;
use crate::settings::BackboneSettings;

const ORIGIN: BundleOrigin = BundleOrigin {
    node: 1,
    run: 2,
    number: 3,
};

const RECOGNIZED_FOR: Duration = Duration::from_mins(5);

const fn limits(entries: usize) -> EntryLimits {
    EntryLimits {
        entries,
        entry_bytes: ENTRY_BYTES_MAX,
    }
}

fn logged(payload: &str) -> LoggedPublication {
    let topic = Topic::new("a").expect("a topic");
    LoggedPublication {
        publication: Arc::new(Publication::new(topic, payload.to_owned())),
        session: None,
        passed_on: None,
    }
}

fn queue(earlier: Vec<LoggedPublication>) -> AppendQueue {
    let bounds = AppendBounds::new(&BackboneSettings::default());
    AppendQueue::new(earlier, Arc::new(bounds))
}

/// Appends publications, and returns the ticket for them.
fn append(queue: &AppendQueue, payloads: &[&str], stored: Option<Ticket>) -> Ticket {
    append_after(queue, payloads, stored, None)
}

fn append_after(
    queue: &AppendQueue,
    payloads: &[&str],
    stored: Option<Ticket>,
    earlier: Option<Ticket>,
) -> Ticket {
    let (pending, ticket) = PendingAppend::new(payloads.len());
    queue.push(Append {
        publications: payloads.iter().map(|one| logged(one)).collect(),
        stored,
        earlier,
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
        earlier: None,
        pending,
        deadline: None,
    });
    ticket
}

/// The payloads of the first entries.
fn next_of(queue: &AppendQueue, count_max: usize) -> Vec<Vec<String>> {
    let NextEntries::Send(entries) = queue.next(limits(count_max), RECOGNIZED_FOR, || ORIGIN)
    else {
        return Vec::new();
    };
    let payload = |one: &entry::EntryPublication| {
        String::from_utf8_lossy(&one.logged.publication.payload).into_owned()
    };
    let payloads = |entry: &Arc<LogEntry>| {
        let (_, content) = entry::read(entry.bytes.clone()).expect("an entry");
        content.publications().iter().map(payload).collect()
    };
    entries.iter().map(payloads).collect()
}

/// The payloads of the first entry.
fn next(queue: &AppendQueue) -> Option<Vec<String>> {
    next_of(queue, 1).pop()
}

/// The identity of the publication in an entry that was sent.
fn identity_of(queue: &AppendQueue, index: usize) -> LogIdentity {
    let state = queue.state.lock();
    state.entries[index].kept.clone().expect("it is kept")
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
    assert_eq!(next(&queue).expect("one"), ["a", "b", "c"]);
    assert!(first.outcome().is_none());
    queue.stored(1);
    assert!(first.outcome().expect("known").is_ok());
    assert!(second.outcome().expect("known").is_ok());
    assert_eq!(next(&queue).expect("one"), ["d"]);
    assert!(kept.outcome().is_none());
    queue.stored(1);
    assert!(kept.outcome().expect("known").is_ok());
    assert_eq!(next(&queue).expect("one"), ["e"]);
    queue.stored(1);
    assert_eq!(next(&queue), None);
    assert!(is_empty(&queue));
}

#[test]
fn a_large_flush_is_divided_and_decided_as_a_whole() {
    let queue = queue(Vec::new());
    let large = "x".repeat(ENTRY_BYTES_MAX - 100);
    let ticket = append(&queue, &[&large, &large], None);
    assert_eq!(next(&queue).expect("one").len(), 1);
    queue.stored(1);
    assert!(ticket.outcome().is_none(), "a part is not stored");
    assert_eq!(next(&queue).expect("one").len(), 1);
    queue.stored(1);
    assert!(ticket.outcome().expect("known").is_ok());
}

#[test]
fn an_entry_is_sent_until_it_is_stored() {
    let queue = queue(Vec::new());
    let first = append(&queue, &["a"], None);
    assert_eq!(next(&queue).expect("one"), ["a"]);
    // Another entry could be stored before it.
    append(&queue, &["b"], None);
    assert_eq!(next(&queue).expect("one"), ["a"]);
    queue.stored(1);
    assert!(first.outcome().expect("known").is_ok());
    assert_eq!(next(&queue).expect("one"), ["b"]);
    queue.refuse("it is too large");
    assert_eq!(next(&queue), None);
    assert!(is_empty(&queue));
}

#[test]
fn only_kept_publications_are_stored_together() {
    let queue = queue(Vec::new());
    append(&queue, &["a"], None);
    append_kept(&queue, "b");
    append_kept(&queue, "c");
    append_kept(&queue, "d");
    append(&queue, &["e"], None);
    assert_eq!(next_of(&queue, 8), [["a"]]);
    assert!(!queue.stored(1));
    assert_eq!(next_of(&queue, 2), [["b"], ["c"]]);
    // After a failure, each is sent alone; no other one joins them.
    assert_eq!(next_of(&queue, 1), [["b"]]);
    assert!(queue.stored(1));
    assert_eq!(next_of(&queue, 8), [["c"]]);
    assert!(!queue.stored(1));
    assert_eq!(next_of(&queue, 8), [["d"]]);
    assert!(!queue.stored(1));
    assert_eq!(next_of(&queue, 8), [["e"]]);
}

#[test]
fn publications_wait_for_the_changes_of_this_server() {
    let queue = queue(Vec::new());
    let (commit, ticket) = ExternalCommit::new();
    let stored = append(&queue, &["a"], Some(ticket));
    assert!(matches!(
        queue.next(limits(1), RECOGNIZED_FOR, || ORIGIN),
        NextEntries::Await(_)
    ));
    commit.decide(Ok(()));
    assert_eq!(next(&queue).expect("one"), ["a"]);
    queue.stored(1);
    assert!(stored.outcome().expect("known").is_ok());
    let (commit, ticket) = ExternalCommit::new();
    let unstored = append(&queue, &["b"], Some(ticket));
    commit.decide(Err(StoreError::Closed));
    assert_eq!(next(&queue), None);
    assert!(unstored.outcome().expect("known").is_err());
}

#[test]
fn publications_fail_with_earlier_ones_of_their_sender() {
    let queue = queue(Vec::new());
    let first = append(&queue, &["1"], None);
    assert!(next(&queue).is_some());
    queue.fail_overdue(Instant::now() + Duration::from_mins(2));
    // Its time is not over. Their sender repeats all of them in order.
    let second = append_after(&queue, &["2"], None, Some(first));
    let third = append_after(&queue, &["3"], None, Some(second.clone()));
    append(&queue, &["of another sender"], None);
    assert_eq!(next(&queue).expect("one"), ["of another sender"]);
    assert!(second.outcome().expect("known").is_err());
    assert!(third.outcome().expect("known").is_err());
}

#[test]
fn publications_fail_when_their_time_is_over_and_kept_ones_do_not() {
    let queue = queue(Vec::new());
    let sent = append(&queue, &["a"], None);
    assert!(next(&queue).is_some());
    let waiting = append(&queue, &["b"], None);
    let kept = append_kept(&queue, "c");
    queue.fail_overdue(Instant::now());
    assert!(sent.outcome().is_none() && waiting.outcome().is_none());
    queue.fail_overdue(Instant::now() + Duration::from_mins(2));
    assert!(sent.outcome().expect("known").is_err());
    assert!(waiting.outcome().expect("known").is_err());
    assert!(kept.outcome().is_none());
    // The next connection does not send what has failed.
    assert_eq!(next(&queue).expect("one"), ["c"]);
    queue.stored(1);
    assert!(is_empty(&queue));
}

#[test]
fn what_an_earlier_run_kept_is_sent_first_unless_it_was_found() {
    let earlier = [logged("x"), logged("y"), logged("z")];
    let queue = queue(earlier.to_vec());
    append(&queue, &["new"], None);
    assert_eq!(next(&queue), None, "the log is not read yet");
    queue.found_in_log(&LogIdentity::of(&earlier[1]));
    queue.release_earlier();
    let NextEntries::Send(first) = queue.next(limits(1), RECOGNIZED_FOR, || ORIGIN) else {
        panic!("the first entry remains");
    };
    let first = &first[0];
    assert_eq!(first.kept, Some(LogIdentity::of(&earlier[0])));
    assert_eq!(
        first.id,
        format!("kept-{:x}", earlier[0].publication.id.number())
    );
    for payload in ["x", "z", "new"] {
        assert_eq!(next(&queue).expect("one"), [payload]);
        queue.stored(1);
    }
}

#[test]
fn an_entry_that_was_read_back_is_not_sent_again() {
    let queue = queue(Vec::new());
    let first = append_kept(&queue, "a");
    append_kept(&queue, "b");
    assert_eq!(next_of(&queue, 8), [["a"], ["b"]]);
    // No acknowledgement arrives.
    queue.found_in_log(&identity_of(&queue, 0));
    assert_eq!(next_of(&queue, 8), [["b"]]);
    assert!(first.outcome().expect("known").is_ok());
    assert!(!queue.stored(1));
    assert!(is_empty(&queue));
}

/// The engine may have forgotten the message ids.
#[test]
fn an_old_entry_is_sent_again_only_if_the_log_does_not_have_it() {
    let queue = queue(Vec::new());
    append_kept(&queue, "a");
    append_kept(&queue, "b");
    assert_eq!(next_of(&queue, 8), [["a"], ["b"]]);
    let old = |queue: &AppendQueue| queue.next(limits(8), Duration::ZERO, || ORIGIN);
    assert!(matches!(old(&queue), NextEntries::Confirm));
    queue.found_in_log(&identity_of(&queue, 1));
    assert!(matches!(old(&queue), NextEntries::Confirm));
    queue.confirm_absent();
    assert_eq!(next_of(&queue, 8), [["a"]]);
    assert!(matches!(old(&queue), NextEntries::Confirm));
    queue.stored(1);
    // What was never sent is not in the log, and the senders of others wait for an answer.
    append(&queue, &["c"], None);
    assert_eq!(next(&queue).expect("one"), ["c"]);
    assert!(matches!(old(&queue), NextEntries::Send(_)));
}

#[test]
fn an_adoption_that_does_not_succeed_leaves_earlier_ones_alone() {
    let [restored, adopted, new] = ["restored", "adopted", "new"].map(logged);
    let identity = LogIdentity::of;
    let queue = queue(vec![restored.clone()]);
    assert_eq!(
        queue.adopt([identity(&adopted)].into_iter()),
        HashSet::from([identity(&adopted)])
    );
    let all = [&restored, &adopted, &new].map(identity);
    let failed = queue.adopt(all.into_iter());
    assert_eq!(failed, HashSet::from([identity(&new)]));
    queue.forget_adopted(&failed);
    let is_adopted = [&restored, &adopted, &new].map(|one| queue.is_adopted(&identity(one)));
    assert_eq!(is_adopted, [true, true, false]);
}

#[test]
fn what_was_adopted_is_looked_for_although_it_was_found_once() {
    let [restored, adopted] = ["restored", "adopted"].map(logged);
    let plain = queue(Vec::new());
    assert!(!plain.keeps_adopted() && !plain.has_earlier());
    assert!(queue(vec![restored.clone()]).has_earlier());
    for (queue, one) in [(queue(vec![restored.clone()]), restored), (plain, adopted)] {
        queue.adopt([LogIdentity::of(&one)].into_iter());
        queue.found_in_log(&LogIdentity::of(&one));
        assert!(!queue.is_adopted(&LogIdentity::of(&one)));
        // The database may fail to remove it, and then its entry is read again.
        assert!(queue.keeps_adopted());
    }
}
