//! Acknowledged publications at QoS 1 to sessions without a connection, so that each must be on
//! disk: 64 publishers, a session for each, on a disk of this machine.
//!
//! `cargo bench -p gatepost-broker --bench durable [-- SECONDS [FOLDER]]`

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_message::{Publication, Qos, Topic};
use gatepost_store::{Store, StoreSettings};

const PUBLISHERS: usize = 64;
const PAYLOAD_BYTES: usize = 100;

fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("readable");
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// One publisher: `window` publications at a time, and the next when they are acknowledged.
async fn publish(
    broker: Broker,
    topic: Topic,
    window: usize,
    done: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
) {
    let mut publisher = broker.publisher();
    let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..window {
            let mut publication = Publication::new(topic.clone(), payload.clone());
            publication.qos = Qos::AtLeastOnce;
            let delivery = publisher.publish(publication);
            assert_eq!((delivery.receivers, delivery.refused), (1, None));
        }
        let ticket = publisher.flush().expect("something to keep").expect("room");
        ticket.committed().await.expect("on disk");
        acknowledged.fetch_add(window as u64, Ordering::Relaxed);
    }
}

async fn measure(folder: &std::path::Path, window: usize, time: Duration) {
    let (store, _) = Store::open(folder, &StoreSettings::default()).expect("a store");
    let settings = BrokerSettings {
        queue_messages_max: usize::MAX,
        queue_bytes_max: gatepost_settings::ByteSize::mebibytes(16_384),
        ..BrokerSettings::default()
    };
    let broker = Broker::open(settings, store.clone()).expect("a broker");
    let topics: Vec<Topic> = (0..PUBLISHERS)
        .map(|number| Topic::new(&format!("durable/{window}/{number}")).expect("a topic"))
        .collect();
    for (number, topic) in topics.iter().enumerate() {
        let name = format!("session-{window}-{number}");
        let attachment = common::connect(&broker, &name, Duration::from_hours(1));
        common::subscribe(&attachment, topic.as_str(), Qos::AtLeastOnce);
        if let Some(Ok(ticket)) = attachment.submit() {
            ticket.committed().await.expect("on disk");
        }
        drop(attachment);
    }
    let (done, acknowledged) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (cpu, written, commits) = (common::cpu_time(), written_bytes(), store.commits());
    let start = Instant::now();
    let tasks: Vec<_> = topics
        .into_iter()
        .map(|topic| {
            tokio::spawn(publish(
                broker.clone(),
                topic,
                window,
                done.clone(),
                acknowledged.clone(),
            ))
        })
        .collect();
    tokio::time::sleep(time).await;
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("it ends");
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = acknowledged.load(Ordering::Relaxed);
    let each = |sum: f64| sum / count.max(1) as f64;
    println!(
        "{window:>3} at a time: {:>7.0} acknowledged/s, {:.1} µs of CPU each, {:.0} commits/s, \
         {:.0} bytes written each",
        count as f64 / seconds,
        each(common::cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6),
        (store.commits() - commits) as f64 / seconds,
        each((written_bytes() - written) as f64),
    );
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let seconds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let place = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    for window in [1, 16, 64] {
        let folder = tempfile::tempdir_in(&place).expect("a folder");
        measure(folder.path(), window, Duration::from_secs(seconds)).await;
    }
}
