//! `kill -9` at random moments under load at QoS 1 and 2: nothing that was acknowledged is lost, at
//! QoS 2 no message arrives twice, and the order of each topic is kept.
//!
//! Publishers, of MQTT 3.1.1 and 5, number what they publish. One subscriber is connected while the
//! server is killed, another only in every third round, so that its queue grows over several kills.
//! A few rounds run with all tests; `GATEPOST_TEST_CRASH_ROUNDS=500` runs a campaign, and
//! `GATEPOST_TEST_CRASH_SEED` repeats one as far as a race can be repeated.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod disk_faults;
mod two_instances;
mod wire;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clients::{Publisher, Signals, Subscriber};
use support::{Gateway, PATIENCE};

const ROUNDS: u64 = 8;
const PUBLISHERS_PER_QOS: usize = 2;
/// A round ends after so many acknowledgements, or less.
const ACKNOWLEDGED_MAX: u64 = 400;
/// The longest pause between the last acknowledgement that is waited for and the kill.
const PAUSE_MAX_US: u64 = 20_000;
const SETTINGS: &str = "rules.paths = []\nbroker.queue_messages_max = 10000000\n\
                        broker.queue_bytes_max = \"1GB\"\n";

/// The sequence of Steele, Lea and Flood (SplitMix64): random enough for moments.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Crash {
    folder: tempfile::TempDir,
    publishers: Vec<Publisher>,
    present: Subscriber,
    absent: Subscriber,
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let rounds = variable("GATEPOST_TEST_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("GATEPOST_TEST_CRASH_SEED").unwrap_or_else(|| std::process::id().into());
    println!("seed {seed}, {rounds} rounds");
    let mut random = Random(seed);
    let mut crash = Crash::new();
    crash.subscribe();
    for round in 0..rounds {
        crash.round(&mut random, round % 3 == 2);
    }
    crash.settle(SETTINGS);
    crash.check();
    println!("{} acknowledged, none lost", crash.acknowledged());
}

impl Crash {
    fn new() -> Self {
        let numbers = 0..PUBLISHERS_PER_QOS;
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            publishers: [1, 2]
                .into_iter()
                .flat_map(|qos| {
                    numbers
                        .clone()
                        .map(move |number| Publisher::new(qos, number))
                })
                .collect(),
            present: Subscriber::new("present"),
            absent: Subscriber::new("absent"),
        }
    }

    fn start(&self) -> Gateway {
        Gateway::start_in(self.folder.path(), SETTINGS)
    }

    fn acknowledged(&self) -> usize {
        let each = self.publishers.iter();
        each.map(|publisher| publisher.acknowledged.len()).sum()
    }

    /// Both subscribers exist before the first publication.
    fn subscribe(&mut self) {
        let gateway = self.start();
        for subscriber in [&mut self.present, &mut self.absent] {
            let address = gateway.address("mqtt");
            let subscribed = subscriber.run(address, Subscriber::is_subscribed);
            subscribed.expect("no kill in this round");
        }
        gateway.kill();
    }

    fn round(&mut self, random: &mut Random, with_absent: bool) {
        let gateway = self.start();
        let address = gateway.address("mqtt");
        let signals = Signals::default();
        let enough = 1 + random.below(ACKNOWLEDGED_MAX);
        let pause = Duration::from_micros(random.below(PAUSE_MAX_US));
        thread::scope(|scope| {
            for publisher in &mut self.publishers {
                // The connection breaks when the server is killed.
                scope.spawn(|| drop(publisher.run(address, &signals)));
            }
            scope.spawn(|| drop(self.present.run(address, |_| false)));
            if with_absent {
                scope.spawn(|| drop(self.absent.run(address, |_| false)));
            }
            let deadline = Instant::now() + PATIENCE;
            while signals.acknowledged.load(Ordering::Acquire) < enough {
                assert!(
                    Instant::now() < deadline,
                    "the server stands still:\n{}",
                    gateway.log()
                );
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(pause);
            gateway.kill();
        });
    }

    /// The last start: publishers complete their publications, and both subscribers get the rest.
    fn settle(&mut self, settings: &str) {
        let gateway = Gateway::start_in(self.folder.path(), settings);
        let address = gateway.address("mqtt");
        let signals = Signals::default();
        signals.finish.store(true, Ordering::Release);
        for publisher in &mut self.publishers {
            publisher
                .run(address, &signals)
                .expect("no kill in this round");
        }
        let deadline = Instant::now() + PATIENCE;
        for subscriber in [&mut self.present, &mut self.absent] {
            // The highest number is not always the last to arrive: a publication that MQTT 5
            // refused is sent again, after later ones.
            for publisher in &self.publishers {
                subscriber.expect(&publisher.topic, &publisher.acknowledged);
            }
            let is_enough =
                |subscriber: &Subscriber| subscriber.has_everything() || Instant::now() > deadline;
            subscriber
                .run(address, is_enough)
                .expect("no kill in this round");
        }
    }

    fn check(&self) {
        for (name, subscriber) in [("present", &self.present), ("absent", &self.absent)] {
            subscriber.check(name, &self.publishers);
        }
    }
}
