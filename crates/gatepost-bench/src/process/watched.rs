//! The server that is monitored while a scenario runs: a process with its descendants, or a control
//! group.

use std::fs;
use std::path::{Path, PathBuf};

use super::usage::{Usage, of_process, tree_of};

/// A server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedServer {
    /// A process and its descendants.
    Process(u32),
    /// A control group (version 2), such as a container's: its folder below `/sys/fs/cgroup`.
    Group(PathBuf),
}

impl WatchedServer {
    /// The resources used so far; `None` once it is gone.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Process(pid) => Usage::of_tree(*pid),
            Self::Group(folder) => usage_of_group(folder),
        }
    }

    /// The processes that belong to it now.
    pub fn processes(&self) -> Vec<u32> {
        match self {
            Self::Process(pid) => tree_of(*pid),
            Self::Group(folder) => fs::read_to_string(folder.join("cgroup.procs"))
                .unwrap_or_default()
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect(),
        }
    }
}

/// The resources used by a control group: CPU and memory from the kernel's accounting of the group,
/// context switches from its current processes.
pub(super) fn usage_of_group(folder: &Path) -> Option<Usage> {
    let statistics = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let microseconds = |name: &str| {
        let line = statistics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<f64>().ok())
    };
    let mut usage = Usage {
        user_seconds: microseconds("user_usec ")? / 1e6,
        system_seconds: microseconds("system_usec ")? / 1e6,
        ..Usage::default()
    };
    let memory = fs::read_to_string(folder.join("memory.current")).unwrap_or_default();
    usage.resident_bytes = memory.trim().parse().unwrap_or(0);
    for pid in WatchedServer::Group(folder.to_owned()).processes() {
        if let Some(of_one) = of_process(pid) {
            usage.voluntary_switches += of_one.voluntary_switches;
            usage.involuntary_switches += of_one.involuntary_switches;
            usage.threads += of_one.threads;
            if memory.is_empty() {
                usage.resident_bytes += of_one.resident_bytes;
            }
        }
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_s_accounting_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("written");
        };
        put(
            "cpu.stat",
            "usage_usec 3500000\nuser_usec 1500000\nsystem_usec 2000000\n",
        );
        put("memory.current", "4096\n");
        put("cgroup.procs", &format!("{}\n", std::process::id()));
        let usage = usage_of_group(folder.path()).expect("accounting");
        assert!((usage.cpu_seconds() - 3.5).abs() < 1e-9);
        assert_eq!(usage.resident_bytes, 4096);
        assert!(usage.threads > 0);
        assert!(usage_of_group(Path::new("/nowhere")).is_none());
    }
}
