//! Keys of a bucket that are written together, as nodes write the directory of sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::jetstream::Context;
use async_nats::jetstream::kv::{self, Store};
use async_nats::{HeaderMap, header};

use super::servers::{Servers, eventually};

const KEYS: usize = 20;
const BATCHES: usize = 30;

/// A bucket that takes batches.
async fn bucket(context: &Context) -> Store {
    let bucket = eventually("the bucket is created", || {
        context.create_key_value(kv::Config {
            bucket: "batches".to_owned(),
            history: 1,
            num_replicas: 3,
            ..kv::Config::default()
        })
    })
    .await;
    let mut config = bucket.stream.cached_info().config.clone();
    config.allow_atomic_publish = true;
    eventually("the bucket takes batches", || {
        context.update_stream(config.clone())
    })
    .await;
    bucket
}

/// Sends a value for each key, which expects its revision, and commits them. Returns the engine's
/// answer.
async fn write(context: &Context, id: &str, expected: &[u64]) -> String {
    begin(context, id, expected).await;
    commit(context, id, expected).await
}

async fn begin(context: &Context, id: &str, expected: &[u64]) {
    let last = expected.len() - 1;
    for (place, &revision) in expected[..last].iter().enumerate() {
        let headers = headers(id, place, revision);
        let client = context.client();
        let sent = client.publish_with_headers(subject(place), headers, id.to_owned().into());
        sent.await.expect("sent");
    }
}

async fn commit(context: &Context, id: &str, expected: &[u64]) -> String {
    let last = expected.len() - 1;
    let mut headers = headers(id, last, expected[last]);
    headers.insert(header::NATS_BATCH_COMMIT, header::NATS_BATCH_COMMIT_FINAL);
    let client = context.client();
    let answer = client.request_with_headers(subject(last), headers, id.to_owned().into());
    match answer.await {
        Ok(answer) => String::from_utf8_lossy(&answer.payload).into_owned(),
        Err(error) => error.to_string(),
    }
}

fn subject(place: usize) -> String {
    format!("$KV.batches.key{place}")
}

fn headers(id: &str, place: usize, expected: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::NATS_BATCH_ID, id);
    headers.insert(header::NATS_BATCH_SEQUENCE, (place + 1).to_string());
    let expected = expected.to_string();
    headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
    headers
}

/// The value and the revision of each key, from the leader.
async fn keys(bucket: &Store) -> Vec<(String, u64)> {
    let mut keys = Vec::new();
    for place in 0..KEYS {
        let subject = subject(place);
        let found = eventually("a key is read", || {
            bucket.stream.get_last_raw_message_by_subject(&subject)
        })
        .await;
        let value = String::from_utf8_lossy(&found.payload).into_owned();
        keys.push((value, found.sequence));
    }
    keys
}

fn revisions(keys: &[(String, u64)]) -> Vec<u64> {
    keys.iter().map(|(_, revision)| *revision).collect()
}

/// The directory of sessions rests on this: the revision of each key follows from that of the last.
#[tokio::test]
async fn keys_that_are_written_together_have_consecutive_revisions() {
    let Some(servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let bucket = bucket(&context).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let other = {
        let (bucket, is_over) = (bucket.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let put = bucket.put("other", "x".into()).await;
                written += u64::from(put.is_ok());
            }
            written
        })
    };
    let mut expected = vec![0; KEYS];
    for number in 0..BATCHES {
        let id = format!("batch{number}");
        let answer = write(&context, &id, &expected).await;
        let stored = keys(&bucket).await;
        assert!(stored.iter().all(|(value, _)| *value == id), "{answer}");
        let last = stored[KEYS - 1].1;
        assert!(answer.contains(&format!("\"seq\":{last},")), "{answer}");
        let first = last + 1 - KEYS as u64;
        expected = (first..=last).collect();
        assert_eq!(revisions(&stored), expected);
    }
    is_over.store(true, Ordering::Relaxed);
    let written = other.await.expect("the other writer");
    assert!(written >= BATCHES as u64, "{written} writes of another key");
}

#[tokio::test]
async fn of_keys_that_are_written_together_all_are_or_none() {
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let bucket = bucket(&context).await;
    let answer = write(&context, "first", &[0; KEYS]).await;
    let first = keys(&bucket).await;
    assert_eq!(first[0].0, "first", "{answer}");

    // One key has changed, whichever it is.
    for changed in [0, KEYS / 2, KEYS - 1] {
        let mut before = keys(&bucket).await;
        let expected = revisions(&before);
        let put = bucket.put(format!("key{changed}"), "changed".into()).await;
        before[changed] = ("changed".to_owned(), put.expect("a revision"));
        let answer = write(&context, &format!("late{changed}"), &expected).await;
        assert!(answer.contains("wrong last sequence"), "{answer}");
        assert_eq!(keys(&bucket).await, before);
    }

    // The leader dies before the commit.
    let before = keys(&bucket).await;
    let expected = revisions(&before);
    begin(&context, "cut", &expected).await;
    servers.kill_leader(&context, "KV_batches").await;
    let answer = commit(&context, "cut", &expected).await;
    let after = keys(&bucket).await;
    let is_whole = after.iter().all(|(value, _)| value == "cut");
    assert!(is_whole || after == before, "{answer}: {after:?}");
}
