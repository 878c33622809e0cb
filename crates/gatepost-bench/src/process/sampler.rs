//! Looks at server and generator once a second while a scenario runs.

use super::{Load, Usage};
use crate::clock::{self, Nanoseconds};
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a process used over a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Length of the measurement.
    pub seconds: f64,
    /// CPU seconds in the program.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// Largest memory seen.
    pub resident_bytes_max: u64,
    /// Times it waited.
    pub voluntary_switches: u64,
    /// Times it was interrupted.
    pub involuntary_switches: u64,
    /// CPU of each second, in percent of one processor.
    pub cpu_percent_by_second: Vec<f64>,
    /// Memory at the end of each second.
    pub resident_bytes_by_second: Vec<u64>,
}

impl ProcessRecord {
    /// CPU seconds altogether.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Mean CPU in percent of one processor.
    pub fn cpu_percent(&self) -> f64 {
        if self.seconds > 0.0 {
            100.0 * self.cpu_seconds() / self.seconds
        } else {
            0.0
        }
    }
}

/// Samples until it is finished.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<(Option<ProcessRecord>, ProcessRecord, Load)>,
}

impl Sampler {
    /// Begins; `server` is a process of this machine, where it is one.
    pub fn start(server: Option<u32>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let mut server = server.map(|pid| Watch::new(move || Usage::of_tree(pid)));
        let mut generator = Watch::new(|| Some(Usage::of_self()));
        let load = Load::so_far();
        let thread = thread::spawn(move || {
            loop {
                let ended = stopped.recv_timeout(Duration::from_secs(1));
                let now = clock::now();
                if let Some(server) = &mut server {
                    server.look(now);
                }
                generator.look(now);
                if ended != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            (
                server.map(|watch| watch.record),
                generator.record,
                Load::so_far().since(load),
            )
        });
        Self { stop, thread }
    }

    /// Takes a last look, and gives server, generator, and the load of the whole machine.
    pub fn finish(self) -> (Option<ProcessRecord>, ProcessRecord, Load) {
        // It may only be gone if it panicked, and then there is nothing to tell.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

struct Watch<Look> {
    look: Look,
    first: Usage,
    last: Usage,
    first_time: Nanoseconds,
    last_time: Nanoseconds,
    record: ProcessRecord,
}

impl<Look: Fn() -> Option<Usage>> Watch<Look> {
    fn new(look: Look) -> Self {
        let first = look().unwrap_or_default();
        let now = clock::now();
        Self {
            look,
            first,
            last: first,
            first_time: now,
            last_time: now,
            record: ProcessRecord::default(),
        }
    }

    fn look(&mut self, now: Nanoseconds) {
        // A process that ended keeps what was last seen of it.
        let Some(usage) = (self.look)() else { return };
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
        (self.last, self.last_time) = (usage, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_and_a_server_are_recorded() {
        let sampler = Sampler::start(Some(std::process::id()));
        let end = clock::now() + clock::SECOND / 10;
        while clock::now() < end {
            std::hint::spin_loop();
        }
        let (server, generator, load) = sampler.finish();
        let server = server.expect("it was asked for");
        assert!(server.seconds >= 0.1 && generator.resident_bytes_max > 0);
        assert!(server.cpu_seconds() >= 0.0 && load.total_seconds >= 0.0);
    }
}
