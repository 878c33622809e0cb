//! Statistics of each procedure since the start and of the last day: requests, errors, CPU time,
//! verdicts.
//!
//! The counters of a path outlive reloads, so that a report covers the whole run of the process.
//! They are sums only; the activity of the last day is the difference to the sums of a day ago,
//! which are recorded four times an hour. So a call has no extra cost.

mod report;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gatepost_message::Action;
use gatepost_rules::Report;
use parking_lot::Mutex;

use crate::in_force::InForce;
pub use report::{ProcedureStatus, Status};

/// A cheap procedure takes less time than reading a clock twice, so one call in this many is timed
/// and represents all of them.
const CHEAP_CALLS_PER_SAMPLE: u64 = 64;

/// The period that is reported beside the total.
const DAY: Duration = Duration::from_hours(24);
/// The interval at which the totals are recorded.
const NOTE_EVERY: Duration = Duration::from_mins(15);

/// The counters of one path. Each is a sum of its own: no reader needs them to be consistent, so
/// the order of memory operations does not matter.
#[derive(Default)]
pub(crate) struct ProcedureCounters {
    requests: AtomicU64,
    errors: AtomicU64,
    cpu_ns: AtomicU64,
    verdicts: [AtomicU64; Action::ALL.len()],
}

impl ProcedureCounters {
    /// Counts a request and begins to measure it.
    pub(crate) fn measure(&self, cheap: bool) -> Measurement<'_> {
        let request = self.requests.fetch_add(1, Relaxed);
        let clock = if !cheap {
            CostClock::Thread(thread_cpu_time())
        } else if request.is_multiple_of(CHEAP_CALLS_PER_SAMPLE) {
            CostClock::Sample(Instant::now())
        } else {
            CostClock::Off
        };
        Measurement {
            counters: self,
            clock,
        }
    }

    /// Continues to measure a counted request after a wait.
    pub(crate) fn measure_again(&self) -> Measurement<'_> {
        Measurement {
            counters: self,
            clock: CostClock::Thread(thread_cpu_time()),
        }
    }

    pub(crate) fn count(&self, action: Action) {
        self.verdicts[action as usize].fetch_add(1, Relaxed);
    }

    fn sums(&self) -> CounterSums {
        CounterSums {
            requests: self.requests.load(Relaxed),
            errors: self.errors.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
            verdicts: Action::ALL.map(|action| self.verdicts[action as usize].load(Relaxed)),
        }
    }

    pub(crate) fn count_error(&self, action: Action) {
        self.errors.fetch_add(1, Relaxed);
        self.count(action);
    }
}

enum CostClock {
    Off,
    Sample(Instant),
    Thread(Duration),
}

pub(crate) struct Measurement<'a> {
    counters: &'a ProcedureCounters,
    clock: CostClock,
}

impl Measurement<'_> {
    pub(crate) fn finish(self) {
        let ns = match self.clock {
            CostClock::Off => return,
            CostClock::Sample(start) => start.elapsed().as_nanos() as u64 * CHEAP_CALLS_PER_SAMPLE,
            CostClock::Thread(start) => thread_cpu_time().saturating_sub(start).as_nanos() as u64,
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
pub(crate) struct ProcedureStatistics {
    started: Instant,
    by_path: Mutex<BTreeMap<Arc<str>, Arc<ProcedureCounters>>>,
    /// The sums at earlier times, the oldest first; at most a day of them.
    noted: Mutex<VecDeque<(Instant, SumsByPath)>>,
    mailed: Mutex<Instant>,
    given_up: AtomicU64,
    pub(crate) in_force: Mutex<InForce>,
}

type SumsByPath = BTreeMap<Arc<str>, CounterSums>;

/// The counters of one path at one time.
#[derive(Debug, Clone, Copy, Default)]
struct CounterSums {
    requests: u64,
    errors: u64,
    cpu_ns: u64,
    verdicts: [u64; Action::ALL.len()],
}

impl CounterSums {
    fn since(&self, before: &Self) -> Self {
        let mut verdicts = self.verdicts;
        for (sum, before) in verdicts.iter_mut().zip(before.verdicts) {
            *sum -= before;
        }
        Self {
            requests: self.requests - before.requests,
            errors: self.errors - before.errors,
            cpu_ns: self.cpu_ns - before.cpu_ns,
            verdicts,
        }
    }

    fn status(&self, path: &str) -> ProcedureStatus {
        let verdicts = Action::ALL.map(|action| (action.name(), self.verdicts[action as usize]));
        ProcedureStatus {
            path: path.to_owned(),
            requests: self.requests,
            errors: self.errors,
            cpu_seconds: Duration::from_nanos(self.cpu_ns).as_secs_f64(),
            verdicts: verdicts.into(),
        }
    }
}

impl ProcedureStatistics {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            by_path: Mutex::default(),
            noted: Mutex::default(),
            mailed: Mutex::new(Instant::now()),
            given_up: AtomicU64::new(0),
            in_force: Mutex::new(InForce::new()),
        }
    }

    /// The counters of `path`, the same ones each time.
    pub(crate) fn of(&self, path: &str) -> Arc<ProcedureCounters> {
        let mut by_path = self.by_path.lock();
        Arc::clone(by_path.entry(Arc::from(path)).or_default())
    }

    /// Counts a message that was not judged completely because of limits.
    pub(crate) fn count_given_up(&self, report: &Report) {
        if report.given_up.is_any() {
            self.given_up.fetch_add(1, Relaxed);
        }
    }

    fn sums(&self) -> SumsByPath {
        let by_path = self.by_path.lock();
        let sums = by_path.iter();
        sums.map(|(path, counters)| (Arc::clone(path), counters.sums()))
            .collect()
    }

    /// Records the sums if that is due, and removes those from before the last day.
    pub(crate) fn remember(&self, now: Instant) {
        let mut noted = self.noted.lock();
        let last = noted.back().map_or(self.started, |(time, _)| *time);
        if now.saturating_duration_since(last) < NOTE_EVERY {
            return;
        }
        noted.push_back((now, self.sums()));
        // The last day is measured from the newest sums that are a day old.
        while noted
            .get(1)
            .is_some_and(|(time, _)| now.saturating_duration_since(*time) >= DAY)
        {
            noted.pop_front();
        }
    }

    /// Whether this time has passed since the method last returned true.
    pub(crate) fn mail_is_due(&self, every: Duration, now: Instant) -> bool {
        let mut mailed = self.mailed.lock();
        let due = !every.is_zero() && now.saturating_duration_since(*mailed) >= every;
        if due {
            *mailed = now;
        }
        due
    }

    pub(crate) fn status(&self) -> Status {
        self.status_at(Instant::now())
    }

    fn status_at(&self, now: Instant) -> Status {
        let sums = self.sums();
        let noted = self.noted.lock();
        let day_old = noted
            .front()
            .filter(|(time, _)| now.saturating_duration_since(*time) >= DAY);
        let nothing = CounterSums::default();
        let before = |path| {
            day_old
                .and_then(|(_, sums)| sums.get(path))
                .unwrap_or(&nothing)
        };
        let procedures = sums.iter().map(|(path, sums)| sums.status(path));
        let last_day = sums
            .iter()
            .map(|(path, sums)| sums.since(before(path)).status(path));
        Status {
            uptime_seconds: now.saturating_duration_since(self.started).as_secs(),
            in_force: self.in_force.lock().clone(),
            waiting_for_network: 0,
            silent_lists: BTreeMap::new(),
            greylist: BTreeMap::new(),
            given_up: self.given_up.load(Relaxed),
            procedures: procedures.collect(),
            last_day: last_day.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_is_counted_separately() {
        let statistics = ProcedureStatistics::new();
        let start = statistics.started;
        let counters = statistics.of("/noop");
        let count = |times: u64| (0..times).for_each(|_| counters.measure(true).finish());
        count(5);
        let requests = |hours: u64| {
            let status = statistics.status_at(start + Duration::from_hours(hours));
            (status.procedures[0].requests, status.last_day[0].requests)
        };
        assert_eq!(requests(0), (5, 5));
        for quarter in 1..=4 * 30 {
            statistics.remember(start + Duration::from_mins(15 * quarter));
            if quarter == 4 * 10 {
                count(2);
            }
        }
        assert_eq!(requests(30), (7, 2));
        assert!(statistics.noted.lock().len() <= 97);
        statistics.remember(start + Duration::from_hours(40));
        assert_eq!(requests(40), (7, 0));
    }

    #[test]
    fn a_report_is_due_once_in_its_period() {
        let statistics = ProcedureStatistics::new();
        let at = |hours: u64| statistics.started + Duration::from_hours(hours);
        let due =
            |every: u64, hours: u64| statistics.mail_is_due(Duration::from_hours(every), at(hours));
        assert!(!due(24, 23));
        assert!(due(24, 25));
        assert!(!due(24, 26));
        assert!(!due(0, 1000));
    }
}
