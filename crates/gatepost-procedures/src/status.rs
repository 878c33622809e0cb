//! What each procedure did since the start: requests, errors, CPU time, verdicts.
//!
//! The counters of a path outlive reloads, so that a report covers the whole run of the process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gatepost_message::Action;
use parking_lot::Mutex;
use serde::Serialize;

/// A cheap procedure takes less time than reading a clock twice, so one call in so many is timed
/// and stands for all of them.
const CHEAP_CALLS_PER_SAMPLE: u64 = 64;

/// The counters of one path. Each is a sum of its own: no reader needs them to agree to the
/// call, so the order of memory operations does not matter.
#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    errors: AtomicU64,
    cpu_ns: AtomicU64,
    verdicts: [AtomicU64; Action::ALL.len()],
}

impl Counters {
    /// Counts a request and begins to measure it.
    pub(crate) fn measure(&self, cheap: bool) -> Measurement<'_> {
        let request = self.requests.fetch_add(1, Relaxed);
        let clock = if !cheap {
            Clock::Thread(thread_cpu_time())
        } else if request.is_multiple_of(CHEAP_CALLS_PER_SAMPLE) {
            Clock::Sample(Instant::now())
        } else {
            Clock::Off
        };
        Measurement {
            counters: self,
            clock,
        }
    }

    pub(crate) fn count(&self, action: Action) {
        self.verdicts[action as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_error(&self, action: Action) {
        self.errors.fetch_add(1, Relaxed);
        self.count(action);
    }
}

enum Clock {
    Off,
    Sample(Instant),
    Thread(Duration),
}

pub(crate) struct Measurement<'a> {
    counters: &'a Counters,
    clock: Clock,
}

impl Measurement<'_> {
    pub(crate) fn finish(self) {
        let ns = match self.clock {
            Clock::Off => return,
            Clock::Sample(start) => start.elapsed().as_nanos() as u64 * CHEAP_CALLS_PER_SAMPLE,
            Clock::Thread(start) => thread_cpu_time().saturating_sub(start).as_nanos() as u64,
        };
        self.counters.cpu_ns.fetch_add(ns, Relaxed);
    }
}

/// The CPU time that this thread has used.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All counters, by path.
pub(crate) struct Statistics {
    started: Instant,
    by_path: Mutex<BTreeMap<Arc<str>, Arc<Counters>>>,
}

impl Statistics {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            by_path: Mutex::default(),
        }
    }

    /// The counters of `path`, the same ones each time.
    pub(crate) fn of(&self, path: &str) -> Arc<Counters> {
        let mut by_path = self.by_path.lock();
        Arc::clone(by_path.entry(Arc::from(path)).or_default())
    }

    pub(crate) fn status(&self) -> Status {
        let one = |(path, counters): (&Arc<str>, &Arc<Counters>)| ProcedureStatus {
            path: path.to_string(),
            requests: counters.requests.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            cpu_seconds: Duration::from_nanos(counters.cpu_ns.load(Relaxed)).as_secs_f64(),
            verdicts: Action::ALL
                .map(|action| {
                    (
                        action.name(),
                        counters.verdicts[action as usize].load(Relaxed),
                    )
                })
                .into(),
        };
        Status {
            uptime_seconds: self.started.elapsed().as_secs(),
            procedures: self.by_path.lock().iter().map(one).collect(),
        }
    }
}

/// What the procedures did since the start; shown as a table, serialized as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Since the start of the process.
    pub uptime_seconds: u64,
    /// One entry a path, sorted by it.
    pub procedures: Vec<ProcedureStatus>,
}

/// What one procedure did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureStatus {
    /// Its path.
    pub path: String,
    /// How often it was run.
    pub requests: u64,
    /// How often it failed or overran its limits.
    pub errors: u64,
    /// CPU time in seconds; of the cheap procedures an estimate from samples.
    pub cpu_seconds: f64,
    /// How often it said what; an error counts as what it led to.
    pub verdicts: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_requests: u64 = self.procedures.iter().map(|one| one.requests).sum();
        let total_cpu: f64 = self.procedures.iter().map(|one| one.cpu_seconds).sum();
        let (minutes, hours) = (self.uptime_seconds / 60, self.uptime_seconds / 3600);
        writeln!(
            formatter,
            "up {} d {:02}:{:02}:{:02}, {total_requests} requests, {total_cpu:.3} s of CPU time",
            hours / 24,
            hours % 24,
            minutes % 60,
            self.uptime_seconds % 60,
        )?;
        write!(
            formatter,
            "\n{:<24} {:>10} {:>6} {:>7} {:>10} {:>6}",
            "procedure", "requests", "share", "errors", "CPU s", "share"
        )?;
        for action in Action::ALL {
            write!(formatter, " {:>10}", action.name())?;
        }
        for one in &self.procedures {
            write!(
                formatter,
                "\n{:<24} {:>10} {:>5.1}% {:>7} {:>10.3} {:>5.1}%",
                one.path,
                one.requests,
                percent(one.requests as f64, total_requests as f64),
                one.errors,
                one.cpu_seconds,
                percent(one.cpu_seconds, total_cpu),
            )?;
            for action in Action::ALL {
                let count = one.verdicts.get(action.name()).copied().unwrap_or(0);
                write!(formatter, " {count:>10}")?;
            }
        }
        writeln!(formatter)
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole * 100.0
    } else {
        0.0
    }
}
