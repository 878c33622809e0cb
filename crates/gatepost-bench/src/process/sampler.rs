//! Samples server and generator once per second while a scenario runs.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::calls::are_requested;
use super::threads::ThreadTimes;
use super::{CallCounter, MachineLoad, Noise, Traffic, Usage, WatchedServer};
use crate::clock::{self, Nanoseconds};

/// The resources that a process used during a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The length of the measurement.
    pub seconds: f64,
    /// CPU seconds in user mode.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// The largest observed memory.
    pub resident_bytes_max: u64,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// Number of system calls; absent if not requested, or if the kernel does not permit counting.
    #[serde(default)]
    pub system_calls: Option<u64>,
    /// The network traffic of its namespace.
    #[serde(default)]
    pub traffic: Traffic,
    /// CPU of the generator's thread that used the most, in percent of one processor; 0 if unknown.
    #[serde(default)]
    pub busiest_thread_percent: f64,
    /// CPU of each second, in percent of one processor.
    pub cpu_percent_by_second: Vec<f64>,
    /// Memory at the end of each second.
    pub resident_bytes_by_second: Vec<u64>,
}

impl ProcessRecord {
    /// Total CPU seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Mean CPU in percent of one processor.
    pub fn cpu_percent(&self) -> f64 {
        100.0 * self.per_second(self.cpu_seconds())
    }

    /// Number of context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// A count per second of the measurement.
    pub fn per_second(&self, count: f64) -> f64 {
        if self.seconds > 0.0 {
            count / self.seconds
        } else {
            0.0
        }
    }
}

/// The resources used during a measurement by all sides.
#[derive(Debug, Clone, Default)]
pub struct Costs {
    /// The server's costs, if it can be monitored.
    pub server: Option<ProcessRecord>,
    /// The generator's costs.
    pub generator: ProcessRecord,
    /// The load of the whole machine.
    pub machine: MachineLoad,
    /// The conditions at the start of the measurement.
    pub noise: Noise,
}

/// Takes samples until it is finished.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Costs>,
}

impl Sampler {
    /// Starts sampling; `server`, if given, is on this machine.
    pub fn start(server: Option<WatchedServer>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let noise = Noise::now();
        let mut generator = Watch::of_self();
        let mut server = server.map(Watch::of_server);
        let load = MachineLoad::so_far();
        let thread = thread::spawn(move || {
            loop {
                let ended = stopped.recv_timeout(Duration::from_secs(1));
                let now = clock::now();
                if let Some(server) = &mut server {
                    server.record(now);
                }
                generator.record(now);
                if ended != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            Costs {
                server: server.map(|watch| watch.record),
                generator: generator.record,
                machine: MachineLoad::so_far().since(load),
                noise,
            }
        });
        Self { stop, thread }
    }

    /// Takes a last sample.
    pub fn finish(self) -> Costs {
        // The thread has ended only if it panicked, and then there are no costs.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

struct Watch {
    /// `None` for this process.
    watched: Option<WatchedServer>,
    calls: Option<CallCounter>,
    calls_first: u64,
    traffic_first: Traffic,
    first: Usage,
    /// CPU time of each thread of the generator at the start.
    threads_first: ThreadTimes,
    last: Usage,
    first_time: Nanoseconds,
    last_time: Nanoseconds,
    record: ProcessRecord,
}

impl Watch {
    fn of_self() -> Self {
        let calls = are_requested().then(CallCounter::of_self).flatten();
        Self::begin(None, calls)
    }

    fn of_server(server: WatchedServer) -> Self {
        let calls = are_requested().then(|| CallCounter::of(&server)).flatten();
        Self::begin(Some(server), calls)
    }

    fn begin(watched: Option<WatchedServer>, calls: Option<CallCounter>) -> Self {
        let mut watch = Self {
            watched,
            calls_first: calls.as_ref().map_or(0, CallCounter::count),
            calls,
            traffic_first: Traffic::default(),
            first: Usage::default(),
            threads_first: ThreadTimes::default(),
            last: Usage::default(),
            first_time: clock::now(),
            last_time: 0,
            record: ProcessRecord::default(),
        };
        watch.first = watch.usage().unwrap_or_default();
        watch.traffic_first = watch.traffic();
        if watch.watched.is_none() {
            watch.threads_first = ThreadTimes::of_self();
        }
        (watch.last, watch.last_time) = (watch.first, watch.first_time);
        watch
    }

    fn usage(&self) -> Option<Usage> {
        self.watched
            .as_ref()
            .map_or_else(|| Some(Usage::of_self()), WatchedServer::usage)
    }

    fn traffic(&self) -> Traffic {
        let pid = match &self.watched {
            None => Some(std::process::id()),
            Some(WatchedServer::Process(pid)) => Some(*pid),
            Some(group) => group.processes().first().copied(),
        };
        pid.map(Traffic::of_process).unwrap_or_default()
    }

    fn record(&mut self, now: Nanoseconds) {
        // A process that has ended keeps its last sample.
        let Some(usage) = self.usage() else { return };
        let traffic = self.traffic();
        let record = &mut self.record;
        let span = clock::seconds(now - self.last_time);
        let cpu = usage.cpu_seconds() - self.last.cpu_seconds();
        if span > 0.5 {
            record.cpu_percent_by_second.push(100.0 * cpu / span);
            record.resident_bytes_by_second.push(usage.resident_bytes);
        }
        record.seconds = clock::seconds(now - self.first_time);
        record.user_seconds = usage.user_seconds - self.first.user_seconds;
        record.system_seconds = usage.system_seconds - self.first.system_seconds;
        record.resident_bytes_max = record.resident_bytes_max.max(usage.resident_bytes);
        let switches = |now: u64, first: u64| now.saturating_sub(first);
        record.voluntary_switches =
            switches(usage.voluntary_switches, self.first.voluntary_switches);
        record.involuntary_switches =
            switches(usage.involuntary_switches, self.first.involuntary_switches);
        record.system_calls = self
            .calls
            .as_ref()
            .map(|calls| calls.count() - self.calls_first);
        record.traffic = traffic.since(self.traffic_first);
        if self.watched.is_none() && record.seconds > 0.0 {
            let busiest = ThreadTimes::of_self().largest_since(&self.threads_first);
            record.busiest_thread_percent = 100.0 * busiest / record.seconds;
        }
        (self.last, self.last_time) = (usage, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_and_a_server_are_recorded() {
        let sampler = Sampler::start(Some(WatchedServer::Process(std::process::id())));
        let end = clock::now() + clock::SECOND / 10;
        while clock::now() < end {
            std::hint::spin_loop();
        }
        let costs = sampler.finish();
        let server = costs.server.expect("it was requested");
        assert!(server.seconds >= 0.1 && costs.generator.resident_bytes_max > 0);
        assert!(server.cpu_seconds() >= 0.0 && costs.machine.total_seconds >= 0.0);
        let busiest = costs.generator.busiest_thread_percent;
        assert!((0.0..=101.0).contains(&busiest), "{busiest}");
    }
}
