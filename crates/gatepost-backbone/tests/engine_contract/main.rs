//! The promises of the engine that the design of clusters rests on, against three NATS servers.
//!
//! The design is in `docs/notes/cluster-design.md`. Each test takes one promise and kills the
//! leader of the stream meanwhile. A version of nats-server that breaks a promise fails here,
//! before it can break a cluster.

mod compare_and_set;
mod key_batches;
mod servers;
mod stopped_leader;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::kv::{self, Store};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use async_nats::{HeaderMap, HeaderValue, header};

use servers::{Servers, eventually};

/// The age at which a key expires.
const LEASE: Duration = Duration::from_secs(3);
const APPENDS: u64 = 300;
/// Appends that are sent before the first of them is acknowledged.
const UNACKNOWLEDGED_MAX: usize = 16;

/// An append whose payload is the last sequence that it expects.
async fn append(context: &Context, subject: &str, expected: u64) -> Option<PublishAckFuture> {
    let message = PublishMessage::build()
        .expected_last_sequence(expected)
        .payload(expected.to_string().into());
    let sent = context.send_publish(subject.to_owned(), message).await;
    sent.ok()
}

/// The last sequence of a stream, read from its leader.
async fn last_sequence(context: &Context, stream: &str) -> u64 {
    eventually("the stream's end is read", || async {
        let stream = context.get_stream(stream).await?;
        let info = stream.get_info().await?;
        let leader = info.cluster.and_then(|cluster| cluster.leader);
        leader.ok_or_else(|| async_nats::Error::from("no leader"))?;
        Ok::<u64, async_nats::Error>(info.state.last_sequence)
    })
    .await
}

async fn payload(stream: &Stream, sequence: u64) -> Vec<u8> {
    let message = eventually("a message is read", || stream.get_raw_message(sequence)).await;
    message.payload.to_vec()
}

/// G9 rests on this: a fence changes the sequence that every earlier writer expects.
#[tokio::test]
async fn an_append_is_stored_at_the_sequence_it_expects_or_nowhere() {
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let stream = servers.create_stream(&context, "log").await;

    let (mut next, mut killed) = (0, None);
    let mut acknowledged = Vec::new();
    let mut unacknowledged = VecDeque::new();
    while next < APPENDS || !unacknowledged.is_empty() {
        if next < APPENDS && unacknowledged.len() < UNACKNOWLEDGED_MAX {
            if next >= APPENDS / 3 && killed.is_none() {
                killed = Some(servers.kill_leader(&context, "log").await);
            }
            if let Some(sent) = append(&context, "log.a", next).await {
                unacknowledged.push_back((next, sent));
            }
            next += 1;
            continue;
        }
        let Some((expected, sent)) = unacknowledged.pop_front() else {
            continue;
        };
        if let Ok(ack) = sent.await {
            acknowledged.push((expected, ack.sequence));
        } else {
            // After a refusal all later appends fail, until the end is read again.
            unacknowledged.clear();
            next = last_sequence(&context, "log").await;
        }
    }

    for &(expected, sequence) in &acknowledged {
        assert_eq!(sequence, expected + 1);
    }
    let last = last_sequence(&context, "log").await;
    assert!(last >= APPENDS, "{last}");
    for sequence in 1..=last {
        let stored = payload(&stream, sequence).await;
        assert_eq!(stored, (sequence - 1).to_string().as_bytes());
    }

    // The fence, and a writer that does not know of it.
    let fence = append(&context, "log.fence", last).await.expect("sent");
    assert_eq!(fence.await.expect("a fence").sequence, last + 1);
    for expected in [last, last + 2] {
        let late = append(&context, "log.a", expected).await.expect("sent");
        let refused = late.await.expect_err("a refusal");
        assert_eq!(refused.kind(), PublishErrorKind::WrongLastSequence);
    }
    if let Some(number) = killed {
        servers.start_again(number);
    }
    assert_eq!(last_sequence(&context, "log").await, last + 1);
}

/// The window in which a message id is known: a publisher may send again after a crash.
#[tokio::test]
async fn a_message_id_is_stored_once_although_the_leader_dies() {
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    servers.create_stream(&context, "log").await;
    let publish = async |id: &str| {
        eventually("a publication is acknowledged", || async {
            let message = PublishMessage::build().message_id(id).payload("x".into());
            let sent = context.send_publish("log.a", message).await?;
            sent.await
        })
        .await
    };
    let first = publish("one").await;
    assert!(!first.duplicate);
    servers.kill_leader(&context, "log").await;
    let again = publish("one").await;
    assert!(again.duplicate);
    assert_eq!(again.sequence, first.sequence);
    let other = publish("two").await;
    assert_eq!(other.sequence, first.sequence + 1);
}

/// Sends the messages of a batch up to one before its end, which a caller adds or leaves out.
async fn begin_batch(context: &Context, id: &str, count: u64) {
    begin_batch_after(context, id, count, None).await;
}

/// The same; the first message expects this last sequence of its subject.
async fn begin_batch_after(context: &Context, id: &str, count: u64, expected: Option<u64>) {
    for number in 1..count {
        let mut headers = batch_headers(id, number);
        if let Some(expected) = expected.filter(|_| number == 1) {
            let expected = HeaderValue::from(expected);
            headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
        }
        let client = context.client();
        let published = client.publish_with_headers("log.batch", headers, id.to_owned().into());
        published.await.expect("published");
    }
}

fn batch_headers(id: &str, number: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::NATS_BATCH_ID, id);
    headers.insert(header::NATS_BATCH_SEQUENCE, number.to_string());
    headers
}

/// Commits a batch by its last message. Returns the server's answer.
async fn commit_batch(context: &Context, id: &str, count: u64, expected: Option<u64>) -> String {
    let mut headers = batch_headers(id, count);
    headers.insert(header::NATS_BATCH_COMMIT, header::NATS_BATCH_COMMIT_FINAL);
    if let Some(expected) = expected {
        let expected = HeaderValue::from(expected);
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
    }
    let client = context.client();
    let answer = client.request_with_headers("log.batch", headers, id.to_owned().into());
    match answer.await {
        Ok(answer) => String::from_utf8_lossy(&answer.payload).into_owned(),
        Err(error) => error.to_string(),
    }
}

/// A group of changes of a node is one batch: a crash within it leaves none of them.
#[tokio::test]
async fn an_atomic_batch_is_stored_as_a_whole_or_not_at_all() {
    const COUNT: u64 = 20;
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let stream = servers.create_stream(&context, "log").await;

    begin_batch(&context, "whole", COUNT).await;
    let answer = commit_batch(&context, "whole", COUNT, None).await;
    assert!(answer.contains("\"seq\":20"), "{answer}");
    assert_eq!(last_sequence(&context, "log").await, COUNT);

    // Never committed, and refused because of what it expects.
    begin_batch(&context, "open", COUNT).await;
    begin_batch(&context, "wrong", COUNT).await;
    let answer = commit_batch(&context, "wrong", COUNT, Some(5)).await;
    assert!(answer.contains("error"), "{answer}");
    assert_eq!(last_sequence(&context, "log").await, COUNT);

    // The leader dies within a batch: its messages are stored nowhere, or all of them.
    begin_batch(&context, "cut", COUNT).await;
    servers.kill_leader(&context, "log").await;
    let answer = commit_batch(&context, "cut", COUNT, None).await;
    let last = last_sequence(&context, "log").await;
    assert!([COUNT, 2 * COUNT].contains(&last), "{last}: {answer}");
    for sequence in 1..=last {
        let expected = if sequence <= COUNT { "whole" } else { "cut" };
        assert_eq!(payload(&stream, sequence).await, expected.as_bytes());
    }
}

/// A mail of several pieces is one batch for one subject, whose first piece expects what the
/// subject has: of several such batches, also of one that is sent again, one is stored.
#[tokio::test]
async fn of_batches_that_expect_the_same_of_their_subject_one_is_stored() {
    const COUNT: u64 = 5;
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let stream = servers.create_stream(&context, "log").await;

    begin_batch_after(&context, "first", COUNT, Some(0)).await;
    begin_batch_after(&context, "second", COUNT, Some(0)).await;
    let answer = commit_batch(&context, "second", COUNT, None).await;
    assert!(answer.contains("\"seq\":5"), "{answer}");
    let answer = commit_batch(&context, "first", COUNT, None).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    assert_eq!(last_sequence(&context, "log").await, COUNT);

    // Its messages count from the first one on, so the next batch expects the last one.
    for (id, expected) in [("within", COUNT - 1), ("third", COUNT)] {
        begin_batch_after(&context, id, COUNT, Some(expected)).await;
        let answer = commit_batch(&context, id, COUNT, None).await;
        assert_eq!(answer.contains("\"seq\":10"), id == "third", "{answer}");
    }

    // The leader dies: the sender does not know whether the batch is stored, and sends it again.
    begin_batch_after(&context, "fourth", COUNT, Some(2 * COUNT)).await;
    servers.kill_leader(&context, "log").await;
    commit_batch(&context, "fourth", COUNT, None).await;
    eventually("the batch is stored", || async {
        begin_batch_after(&context, "again", COUNT, Some(2 * COUNT)).await;
        let answer = commit_batch(&context, "again", COUNT, None).await;
        let is_stored = ["\"seq\":15", "wrong last sequence"];
        let is_stored = is_stored.iter().any(|part| answer.contains(part));
        is_stored.then_some(()).ok_or(answer)
    })
    .await;
    assert_eq!(last_sequence(&context, "log").await, 3 * COUNT);
    let stored = payload(&stream, 2 * COUNT + 1).await;
    for sequence in 2 * COUNT + 2..=3 * COUNT {
        assert_eq!(payload(&stream, sequence).await, stored);
    }
}

/// Which nodes are alive: a key that is not renewed expires, a renewed one does not.
#[tokio::test]
async fn a_key_expires_unless_it_is_renewed() {
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let bucket = eventually("the bucket is created", || {
        context.create_key_value(kv::Config {
            bucket: "nodes".to_owned(),
            max_age: LEASE,
            num_replicas: 3,
            ..kv::Config::default()
        })
    })
    .await;
    servers.kill_leader(&context, "KV_nodes").await;
    // An election takes longer than this lease, so the keys are those of the next leader. A round
    // in which this test itself was too slow to renew decides nothing.
    while longest_pause_of_a_round(&bucket).await > LEASE / 2 {}
}

/// Creates two keys and renews one until the other has expired. Returns the longest time between
/// two renewals.
async fn longest_pause_of_a_round(bucket: &Store) -> Duration {
    let create = async |key: &'static str| {
        eventually("a key is created", || bucket.create(key, "a".into())).await
    };
    create("left").await;
    let mut revision = create("renewed").await;
    let (mut renewed_at, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let written = bucket.update("renewed", "a".into(), revision).await;
        longest = longest.max(renewed_at.elapsed());
        match written {
            Ok(written) => (revision, renewed_at) = (written, Instant::now()),
            Err(error) => assert!(longest > LEASE / 2, "a renewed key ended: {error}"),
        }
        let left = eventually("the other key is read", || bucket.get("left")).await;
        if left.is_none() || longest > LEASE {
            break;
        }
    }
    bucket.purge("renewed").await.expect("removed");
    bucket.purge("left").await.expect("removed");
    longest
}
