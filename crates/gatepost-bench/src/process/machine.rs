//! The machine of a measurement, and its load from other processes.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The description of the machine that accompanies every figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Number of processors that the kernel permits this process to use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn current() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let after_colon = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = after_colon(&read("/proc/meminfo"), "MemTotal");
        let kibibytes = memory.as_deref().and_then(|text| text.split_once(' '));
        Self {
            processor: after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes
                .and_then(|(n, _)| n.parse::<u64>().ok())
                .unwrap_or(0)
                * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// Conditions that differ between measurements on the same machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Number of runnable programs, averaged by the kernel over the preceding minute.
    pub load_average: f64,
    /// The frequency of the slowest processor relative to the fastest permitted; 1 if unknown.
    pub frequency_share: f64,
}

impl Noise {
    /// The current conditions.
    pub fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|text| text.parse().ok());
        Self {
            load_average: load.unwrap_or(0.0),
            frequency_share: frequency_share(Path::new("/sys/devices/system/cpu")).unwrap_or(1.0),
        }
    }
}

/// The lowest ratio of a processor's frequency to its highest frequency.
fn frequency_share(processors: &Path) -> Option<f64> {
    let kilohertz =
        |path: PathBuf| -> Option<f64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let shares = fs::read_dir(processors)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let folder = entry.path().join("cpufreq");
            let now = kilohertz(folder.join("scaling_cur_freq"))?;
            Some(now / kilohertz(folder.join("cpuinfo_max_freq"))?)
        });
    shares.reduce(f64::min)
}

/// The load of the whole machine over a time; the part that belongs to neither generator nor server
/// is noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// CPU seconds of all processors that were used by any program.
    pub busy_seconds: f64,
    /// CPU seconds that the hypervisor gave to other machines.
    pub stolen_seconds: f64,
    /// Elapsed CPU seconds of all processors together.
    pub total_seconds: f64,
}

impl MachineLoad {
    /// The load since the machine started.
    pub fn so_far() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(text.lines().next().unwrap_or_default())
    }

    /// Fields of the `cpu` line, proc(5): user nice system idle iowait irq softirq steal.
    fn parse(line: &str) -> Self {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let fields: Vec<f64> = line
            .split_ascii_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|field| field.parse::<f64>().ok())
            .map(|count| count / ticks)
            .collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0.0);
        let total: f64 = fields.iter().sum();
        Self {
            busy_seconds: total - field(3) - field(4) - field(7),
            stolen_seconds: field(7),
            total_seconds: total,
        }
    }

    /// The difference since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy_seconds: self.busy_seconds - earlier.busy_seconds,
            stolen_seconds: self.stolen_seconds - earlier.stolen_seconds,
            total_seconds: self.total_seconds - earlier.total_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_processor_and_memory() {
        let machine = Machine::current();
        assert!(machine.processors > 0 && machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty());
    }

    #[test]
    fn the_slowest_processor_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, now) in [("cpu0", "3000000\n"), ("cpu1", "1500000\n")] {
            let folder = folder.path().join(name).join("cpufreq");
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("scaling_cur_freq"), now).expect("written");
            fs::write(folder.join("cpuinfo_max_freq"), "3000000\n").expect("written");
        }
        fs::create_dir(folder.path().join("power")).expect("a folder");
        assert_eq!(frequency_share(folder.path()), Some(0.5));
        assert!(Noise::now().load_average >= 0.0);
    }

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let load = MachineLoad::parse("cpu  100 0 50 800 20 0 10 20 0 0");
        assert!((load.busy_seconds * ticks - 160.0).abs() < 1e-6);
        assert!((load.stolen_seconds * ticks - 20.0).abs() < 1e-6);
        assert!((load.total_seconds * ticks - 1000.0).abs() < 1e-6);
    }
}
