//! The same promises on a disk that fails under the whole server: errors, a full disk, short writes,
//! syncs that fail or take long, and no descriptor left; at the start and under load.
//!
//! `faults.c`, preloaded, stands between the server and the C library. A start may be refused; it
//! must then say why and change nothing, so that the next start finds everything.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::clients::{Publisher, Signals};
use super::{Crash, Random, SETTINGS, variable};
use crate::support::Gateway;

/// What a build of all tests tries.
const KINDS: [&str; 2] = ["slow", "emfile"];
/// Operations that go well before the first fault, at most.
const SKIP_MAX: u64 = 300;
const TIMES_MAX: u64 = 30;
/// A round ends after so many acknowledgements, or when it has lasted so long.
const ACKNOWLEDGED: u64 = 200;
const ROUND_TIME: Duration = Duration::from_secs(3);

/// Compiles `faults.c` into this folder.
fn library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/faults.c");
    let library = folder.join("libfaults.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .status()
        .expect("cc runs");
    assert!(status.success(), "faults.c is compiled");
    library
}

#[test]
fn nothing_acknowledged_is_lost_on_a_failing_disk() {
    let named = std::env::var("GATEPOST_TEST_CRASH_FAULTS").unwrap_or_default();
    let named: Vec<&str> = named.split(',').filter(|kind| !kind.is_empty()).collect();
    let kinds = if named.is_empty() {
        &KINDS[..]
    } else {
        &named[..]
    };
    let rounds = variable("GATEPOST_TEST_CRASH_FAULT_ROUNDS").unwrap_or(2);
    let seed = variable("GATEPOST_TEST_CRASH_SEED").unwrap_or_else(|| std::process::id().into());
    println!("seed {seed}, {rounds} rounds of each of {kinds:?}");
    let mut random = Random(seed);
    let mut crash = Crash::new();
    let library = library(crash.folder.path());
    crash.subscribe();
    for round in 0..rounds {
        for kind in kinds {
            // Every other fault comes with the first operations: those of the start.
            let skip = if round % 2 == 0 {
                random.below(20)
            } else {
                random.below(SKIP_MAX)
            };
            let plan = format!("{kind}:{skip}:{}", 1 + random.below(TIMES_MAX));
            crash.faulty_round(&library, &plan);
        }
    }
    crash.settle();
    crash.check();
    let is_silent = |publisher: &Publisher| publisher.acknowledged.is_empty();
    assert!(
        !crash.publishers.iter().all(is_silent),
        "every start was refused"
    );
}

/// A start on a disk that always fails is refused or not; it never takes the failure for damage.
#[test]
fn a_start_on_a_failing_disk_loses_nothing() {
    let mut crash = Crash::new();
    let library = library(crash.folder.path());
    crash.subscribe();
    for kind in ["eio", "enospc", "short", "fsync", "emfile"] {
        for skip in [0, 4] {
            let plan = format!("{kind}:{skip}:1000000");
            match crash.try_start(&library, &plan) {
                Ok(gateway) => gateway.kill(),
                Err(log) => expect_reason(&plan, &log),
            }
        }
    }
    // Both sessions are still there, or the subscribers complain.
    crash.subscribe();
}

/// A refused start says why, in a line of its own.
fn expect_reason(plan: &str, log: &str) {
    let says_why = log
        .lines()
        .any(|line| line.starts_with("gatepost: ") && line.contains("gatepost-data"));
    assert!(
        says_why,
        "{plan}: the start was refused without a reason:\n{log}"
    );
    assert!(
        !log.contains("is damaged"),
        "{plan}: nothing was damaged:\n{log}"
    );
}

impl Crash {
    fn try_start(&self, library: &Path, plan: &str) -> Result<Gateway, String> {
        let preload = library.to_string_lossy().into_owned();
        let environment = [("LD_PRELOAD", preload.as_str()), ("DISK_FAULT", plan)];
        Gateway::try_start_in(self.folder.path(), SETTINGS, &environment)
    }

    fn faulty_round(&mut self, library: &Path, plan: &str) {
        let gateway = match self.try_start(library, plan) {
            Ok(gateway) => gateway,
            Err(log) => {
                expect_reason(plan, &log);
                return;
            }
        };
        let address = gateway.address("mqtt");
        let signals = Signals::default();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            for publisher in &mut self.publishers {
                scope.spawn(|| {
                    // A publication that was not stored ends its connection; a careful client
                    // connects again.
                    while !is_over.load(Ordering::Acquire) {
                        drop(publisher.run(address, &signals));
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    drop(self.present.run(address, |_| false));
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let deadline = Instant::now() + ROUND_TIME;
            while signals.acknowledged.load(Ordering::Acquire) < ACKNOWLEDGED
                && Instant::now() < deadline
            {
                thread::sleep(Duration::from_millis(1));
            }
            is_over.store(true, Ordering::Release);
            gateway.kill();
        });
    }
}
