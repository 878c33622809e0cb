//! Compare-and-set is linearizable: which node owns a session is decided by it.
//!
//! A history of writers that only compare and set needs no search for an order: the engine numbers
//! the writes. The history is linearizable if and only if each write replaced the one before it,
//! the numbers agree with real time, and each refusal has a reason: another write that began
//! before the refusal came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, Store, UpdateErrorKind};
use parking_lot::Mutex;

use crate::servers::{Servers, eventually};

const WRITERS: usize = 4;
/// The time for which the writers write, before the leader dies and after the election.
const DURATION: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
struct Attempt {
    expected: u64,
    value: String,
    begun: Instant,
    ended: Instant,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written(u64),
    Refused,
    /// No answer came: written or not.
    Unknown,
}

/// The attempts of all writers, until they are to end.
#[derive(Default)]
struct History {
    attempts: Mutex<Vec<Attempt>>,
    is_over: AtomicBool,
}

/// One writer: reads the key and replaces what it read.
async fn write(bucket: Store, writer: usize, history: Arc<History>) {
    for number in 0_u64.. {
        if history.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(Some(entry)) = bucket.entry("owner").await else {
            continue;
        };
        let value = format!("{writer}.{number}");
        let begun = Instant::now();
        let written = bucket
            .update("owner", value.clone().into(), entry.revision)
            .await;
        let outcome = match written {
            Ok(revision) => Outcome::Written(revision),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Outcome::Refused,
            Err(_) => Outcome::Unknown,
        };
        history.attempts.lock().push(Attempt {
            expected: entry.revision,
            value,
            begun,
            ended: Instant::now(),
            outcome,
        });
    }
}

/// The events that contradict a linearizable history.
fn contradictions(attempts: &[Attempt]) -> Vec<String> {
    let mut found = Vec::new();
    let mut written: Vec<(u64, &Attempt)> = attempts
        .iter()
        .filter_map(|attempt| match attempt.outcome {
            Outcome::Written(revision) => Some((revision, attempt)),
            _ => None,
        })
        .collect();
    written.sort_by_key(|&(revision, _)| revision);
    for pair in written.windows(2) {
        let [(earlier, first), (later, second)] = pair else {
            continue;
        };
        // Between two known writes there may be others whose outcome is unknown.
        if second.expected < *earlier || later == earlier {
            found.push(format!(
                "both replaced the same value: {first:?} {second:?}"
            ));
        }
        if second.ended < first.begun {
            found.push(format!("against real time: {first:?} {second:?}"));
        }
    }
    for attempt in attempts {
        let explains = |other: &&Attempt| {
            let may_be_later = match other.outcome {
                Outcome::Written(revision) => revision > attempt.expected,
                Outcome::Unknown => other.expected >= attempt.expected,
                Outcome::Refused => false,
            };
            may_be_later && other.begun < attempt.ended && other.value != attempt.value
        };
        if attempt.outcome == Outcome::Refused && !attempts.iter().any(|other| explains(&other)) {
            found.push(format!("refused without a reason: {attempt:?}"));
        }
    }
    found
}

#[tokio::test]
async fn compare_and_set_is_linearizable_although_the_leader_dies() {
    let Some(mut servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    let bucket = eventually("the bucket is created", || {
        context.create_key_value(kv::Config {
            bucket: "sessions".to_owned(),
            history: 64,
            num_replicas: 3,
            ..kv::Config::default()
        })
    })
    .await;
    bucket.create("owner", "none".into()).await.expect("a key");
    let history = Arc::new(History::default());
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let context = servers.connect().await;
        let bucket = eventually("the bucket is opened", || context.get_key_value("sessions")).await;
        writers.push(tokio::spawn(write(bucket, writer, Arc::clone(&history))));
    }
    tokio::time::sleep(DURATION).await;
    servers.kill_leader(&context, "KV_sessions").await;
    let killed = Instant::now();
    // Not the revision of the key: a replica that lags may show an earlier one first.
    eventually("a write after the election", async || {
        let attempts = history.attempts.lock();
        let is_after =
            |one: &Attempt| one.begun > killed && matches!(one.outcome, Outcome::Written(_));
        attempts.iter().any(is_after).then_some(()).ok_or("none")
    })
    .await;
    tokio::time::sleep(DURATION).await;
    history.is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("a writer");
    }
    let attempts = history.attempts.lock().clone();
    let found = contradictions(&attempts);
    assert!(found.is_empty(), "{found:#?}");
    // The value that is left is that of the last write, or of one without an answer.
    let last = eventually("the key is read", || bucket.entry("owner")).await;
    let last = last.expect("the key");
    let value = String::from_utf8_lossy(&last.value).into_owned();
    let writer = attempts.iter().find(|attempt| attempt.value == value);
    let outcome = writer.expect("a value of a writer").outcome;
    assert!(
        [Outcome::Written(last.revision), Outcome::Unknown].contains(&outcome),
        "{last:?} {outcome:?}"
    );
}

/// The check finds what it is for.
#[test]
fn histories_that_are_not_linearizable_are_found() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let attempt = |value: &str, expected, begun, ended, outcome| Attempt {
        expected,
        value: value.to_owned(),
        begun: at(begun),
        ended: at(ended),
        outcome,
    };
    let first = attempt("a", 1, 0, 2, Outcome::Written(2));
    for (second, is_linearizable) in [
        (attempt("b", 2, 3, 4, Outcome::Written(3)), true),
        (attempt("b", 1, 3, 4, Outcome::Written(3)), false),
        (attempt("b", 1, 1, 4, Outcome::Refused), true),
        (attempt("b", 2, 3, 4, Outcome::Refused), false),
        (attempt("b", 1, 3, 4, Outcome::Unknown), true),
    ] {
        let found = contradictions(&[first.clone(), second.clone()]);
        assert_eq!(found.is_empty(), is_linearizable, "{second:?}: {found:?}");
    }
    let early = attempt("b", 2, 0, 1, Outcome::Written(3));
    let late = attempt("a", 1, 2, 3, Outcome::Written(2));
    assert!(!contradictions(&[early, late]).is_empty());
}
