//! The same promises on a disk that fails under the whole server: errors, a full disk, short and
//! torn writes, syncs that fail, lie or take long, and no descriptor left; at the start, under
//! load, and while a damaged database is recovered.
//!
//! `faults.c` is preloaded between the server and the C library. A start may be refused; it must
//! then report the reason and change nothing, so that the next start finds everything. After each
//! round the server starts on a working disk, and every message is accounted for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::clients::Signals;
use super::{Crash, Random, SETTINGS, variable};
use crate::support::Gateway;

/// Rounds of each kind in a build of all tests.
const ROUNDS: u64 = 20;
/// A round ends after so many acknowledgements, or when it has lasted so long.
const ACKNOWLEDGED: u64 = 100;
const ROUND_TIME: Duration = Duration::from_secs(2);
/// Lines of a log in a round: a failing disk is logged once a second, and not for each message.
const LOG_LINES_MAX: usize = 40;

/// The time of the fault: after so many operations that go well, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Load,
    Recovery,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Start, Self::Load, Self::Recovery];

    const fn skip_max(self) -> u64 {
        match self {
            Self::Start => 20,
            Self::Load => 300,
            Self::Recovery => 60,
        }
    }

    fn settings(self) -> String {
        match self {
            Self::Recovery => format!("{SETTINGS}store.on_damage = \"recover\"\n"),
            Self::Start | Self::Load => SETTINGS.to_owned(),
        }
    }
}

/// The behaviour of the disk from the operation `skip` on.
struct Plan {
    kind: &'static str,
    phase: Phase,
    skip: u64,
    times: u64,
}

impl Plan {
    /// A torn write is the last that the server does.
    fn kills(&self) -> bool {
        self.kind == "torn"
    }

    fn environment(&self) -> String {
        format!("{}:{}:{}", self.kind, self.skip, self.times)
    }
}

macro_rules! rounds_of {
    ($($test:ident: $kind:literal;)*) => {
        $(#[test]
        fn $test() {
            rounds_of($kind);
        })*
    };
}

rounds_of! {
    nothing_acknowledged_is_lost_by_errors_of_writes: "eio";
    nothing_acknowledged_is_lost_by_errors_of_reads: "read";
    nothing_acknowledged_is_lost_by_a_full_disk: "enospc";
    nothing_acknowledged_is_lost_by_short_writes: "short";
    nothing_acknowledged_is_lost_by_torn_writes: "torn";
    nothing_acknowledged_is_lost_by_syncs_that_fail: "fsync";
    nothing_acknowledged_is_lost_by_syncs_that_lie_while_there_is_power: "lie";
    nothing_acknowledged_is_lost_by_slow_syncs: "slow";
    nothing_acknowledged_is_lost_without_descriptors: "emfile";
}

fn rounds_of(kind: &'static str) {
    let named = std::env::var("GATEPOST_TEST_CRASH_FAULTS").unwrap_or_default();
    if !named.is_empty() && !named.split(',').any(|named| named == kind) {
        return;
    }
    let rounds = variable("GATEPOST_TEST_CRASH_FAULT_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("GATEPOST_TEST_CRASH_SEED").unwrap_or_else(|| std::process::id().into());
    println!("{kind}: seed {seed}, {rounds} rounds");
    let mut random = Random(seed);
    let mut crash = Crash::new();
    let library = library(crash.folder.path());
    crash.subscribe();
    let (mut refused, mut under_fault) = (0, 0);
    for round in 0..rounds {
        let phase = Phase::ALL[(round % 3) as usize];
        let plan = Plan {
            kind,
            phase,
            skip: random.below(phase.skip_max()),
            times: 1 + random.below(30),
        };
        let before = crash.acknowledged();
        if !crash.faulty_round(&library, &plan) {
            refused += 1;
        }
        under_fault += crash.acknowledged() - before;
        crash.settle(&phase.settings());
        crash.check();
    }
    println!(
        "{kind}: {rounds} rounds, {refused} starts refused, {} acknowledged, {under_fault} of them \
         on the failing disk, none lost",
        crash.acknowledged()
    );
    assert!(under_fault > 0, "every start was refused");
}

/// Compiles `faults.c` into this folder.
pub(crate) fn library(folder: &Path) -> PathBuf {
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

/// A start on a disk that always fails is refused or not; it never takes the failure for damage.
#[test]
fn a_start_on_a_failing_disk_loses_nothing() {
    let mut crash = Crash::new();
    let library = library(crash.folder.path());
    crash.subscribe();
    for kind in ["eio", "read", "enospc", "short", "fsync", "emfile"] {
        for skip in [0, 4] {
            let plan = Plan {
                kind,
                phase: Phase::Start,
                skip,
                times: 1_000_000,
            };
            match crash.try_start(&library, &plan) {
                Ok(gateway) => gateway.kill(),
                Err(log) => expect_reason(&plan, &log),
            }
        }
    }
    // Both sessions are still there, or the subscribers complain.
    crash.subscribe();
}

/// A refused start reports the reason, in a line of its own.
fn expect_reason(plan: &Plan, log: &str) {
    if plan.kills() {
        return;
    }
    let plan = (plan.phase, plan.environment());
    let says_why = log
        .lines()
        .filter(|line| line.starts_with("gatepost: "))
        .any(|line| line.contains("gatepost-data") || line.contains("the database failed"));
    assert!(
        says_why,
        "{plan:?}: the start was refused without a reason:\n{log}"
    );
    assert!(
        plan.0 == Phase::Recovery || !log.contains("is damaged"),
        "{plan:?}: nothing was damaged:\n{log}"
    );
}

/// Damages the history, which no subscriber of these tests waits for, so that the start recovers.
pub(crate) fn damage(folder: &Path) {
    let file = folder.join("gatepost-data/gatepost.db");
    // Closed, the connection leaves everything in the file.
    let database = rusqlite::Connection::open(&file).expect("a database");
    let page: u64 = database
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'history'",
            [],
            |row| row.get(0),
        )
        .expect("a table");
    database.close().expect("closed");
    let mut bytes = std::fs::read(&file).expect("the file");
    let start = (page as usize - 1) * 4_096;
    bytes[start..start + 4_096].fill(0x5a);
    std::fs::write(&file, bytes).expect("the damaged file");
}

impl Crash {
    fn try_start(&self, library: &Path, plan: &Plan) -> Result<Gateway, String> {
        let preload = library.to_string_lossy().into_owned();
        let fault = plan.environment();
        let environment = [("LD_PRELOAD", &*preload), ("DISK_FAULT", &*fault)];
        // The log of this start alone.
        let _ = std::fs::remove_file(self.folder.path().join("gatepost.log"));
        Gateway::try_start_in(self.folder.path(), &plan.phase.settings(), &environment)
    }

    /// Whether the server started.
    fn faulty_round(&mut self, library: &Path, plan: &Plan) -> bool {
        if plan.phase == Phase::Recovery {
            damage(self.folder.path());
        }
        let mut gateway = match self.try_start(library, plan) {
            Ok(gateway) => gateway,
            Err(log) => {
                expect_reason(plan, &log);
                return false;
            }
        };
        let address = gateway.address("mqtt");
        let signals = Signals::default();
        let is_over = AtomicBool::new(false);
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
                && gateway.is_running()
            {
                thread::sleep(Duration::from_millis(1));
            }
            let is_running = gateway.is_running();
            is_over.store(true, Ordering::Release);
            let log = gateway.log();
            gateway.kill();
            assert!(is_running || plan.kills(), "the server ended:\n{log}");
            let lines = log.lines().count();
            assert!(lines < LOG_LINES_MAX, "{lines} lines:\n{log}");
        });
        true
    }
}
