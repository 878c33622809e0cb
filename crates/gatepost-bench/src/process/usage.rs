//! The resources used by a process and its descendants, from `/proc`.

use std::collections::HashMap;
use std::fs;

use rustix::param::clock_ticks_per_second;
use serde::{Deserialize, Serialize};

use super::running_time::running_seconds;

/// Resources used by a process and its descendants so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU seconds in user mode.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// Resident memory in bytes. Of a server with several processes, each shared page is counted
    /// once, if the kernel permits the query.
    pub resident_bytes: u64,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// Number of threads in all its processes.
    pub threads: u64,
}

impl Usage {
    /// Total CPU seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// The resources of a process and its living descendants; the CPU time of children that have
    /// ended and were waited for is included in their parent's. `None` once the process has ended.
    pub fn of_tree(pid: u32) -> Option<Self> {
        let mut total = of_process(pid)?;
        let tree = tree_of(pid);
        for &descendant in tree.iter().skip(1) {
            if let Some(usage) = of_process(descendant) {
                total.add(usage);
            }
        }
        if tree.len() > 1 {
            total.resident_bytes = memory_of(&tree);
        }
        Some(total)
    }

    /// The resources of this process alone.
    pub fn of_self() -> Self {
        of_process(std::process::id()).unwrap_or_default()
    }

    fn add(&mut self, other: Self) {
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.resident_bytes += other.resident_bytes;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.threads += other.threads;
    }
}

/// The memory of several processes together, in bytes. Processes that were forked from one share
/// most of their pages: the sum of their resident memory would count those once for each.
pub(super) fn memory_of(processes: &[u32]) -> u64 {
    let of_one = |pid: &u32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let kibibytes = match read("smaps_rollup") {
            Ok(text) if text.contains("Pss:") => field_of_status(&text, "Pss:"),
            _ => field_of_status(&read("status").unwrap_or_default(), "VmRSS:"),
        };
        kibibytes * 1024
    };
    processes.iter().map(of_one).sum()
}

/// The four times that `times(2)` returns, in seconds, as printed by the original CALL benchmark.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTimes {
    /// This process in user mode.
    pub user: f64,
    /// This process in the kernel.
    pub system: f64,
    /// Children that have ended, in user mode.
    pub child_user: f64,
    /// Children that have ended, in the kernel.
    pub child_system: f64,
}

impl CpuTimes {
    /// The sum of all four.
    pub fn total(&self) -> f64 {
        self.user + self.system + self.child_user + self.child_system
    }

    /// The usage since an earlier sample.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            child_user: self.child_user - earlier.child_user,
            child_system: self.child_system - earlier.child_system,
        }
    }
}

/// The four times of this process now.
pub fn cpu_times_of_self() -> CpuTimes {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| Stat::parse(&text))
        .map(|stat| stat.times)
        .unwrap_or_default()
}

/// The relevant fields of `/proc/PID/stat` (proc(5)).
struct Stat {
    is_zombie: bool,
    parent: u32,
    group: u32,
    times: CpuTimes,
    threads: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name, in parentheses, may itself contain spaces and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks = clock_ticks_per_second() as f64;
        // Counted from the state, which is field 3 of the manual.
        let seconds = |field: usize| -> Option<f64> {
            fields
                .get(field - 3)?
                .parse::<f64>()
                .ok()
                .map(|count| count / ticks)
        };
        Some(Self {
            is_zombie: *fields.first()? == "Z",
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            times: CpuTimes {
                user: seconds(14)?,
                system: seconds(15)?,
                child_user: seconds(16)?,
                child_system: seconds(17)?,
            },
            threads: fields.get(20 - 3)?.parse().ok()?,
        })
    }
}

fn stat_of(pid: u32) -> Option<Stat> {
    Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A process and its living descendants, itself first.
pub(super) fn tree_of(pid: u32) -> Vec<u32> {
    let children = children_by_parent();
    let (mut all, mut at) = (vec![pid], 0);
    while let Some(parent) = all.get(at) {
        all.extend(children.get(parent).into_iter().flatten());
        at += 1;
    }
    all
}

pub(super) fn of_process(pid: u32) -> Option<Usage> {
    let stat = stat_of(pid)?;
    // Ticks give the ratio of user to system time, the clock gives the total.
    let (user, system) = (stat.times.user, stat.times.system);
    let running = running_seconds(pid).unwrap_or(user + system);
    let user = if system > 0.0 {
        running * user / (user + system)
    } else {
        running
    };
    let mut usage = Usage {
        user_seconds: user + stat.times.child_user,
        system_seconds: running - user + stat.times.child_system,
        threads: stat.threads,
        ..Usage::default()
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    usage.resident_bytes = field_of_status(&status, "VmRSS:") * 1024;
    // Switches are counted by thread.
    for thread in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        usage.voluntary_switches += field_of_status(&status, "voluntary_ctxt_switches:");
        usage.involuntary_switches += field_of_status(&status, "nonvoluntary_ctxt_switches:");
    }
    Some(usage)
}

fn field_of_status(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

fn all_processes() -> impl Iterator<Item = (u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, stat_of(pid)?))
    })
}

fn children_by_parent() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in all_processes() {
        children.entry(stat.parent).or_default().push(pid);
    }
    children
}

/// Whether a process of this group is running. One that has ended but was not waited for is not.
pub(crate) fn is_group_alive(group: u32) -> bool {
    all_processes().any(|(_, stat)| stat.group == group && !stat.is_zombie)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::process::Command;

    #[test]
    fn a_thread_that_has_ended_is_counted_still() {
        fn own_seconds() -> f64 {
            let text = fs::read_to_string("/proc/thread-self/schedstat").expect("a schedule");
            let first = text.split(' ').next().expect("a number");
            first.parse::<f64>().expect("nanoseconds") / 1e9
        }
        let before = Usage::of_self().cpu_seconds();
        let worker = std::thread::spawn(|| while own_seconds() < 0.1 {});
        worker.join().expect("a thread");
        let used = Usage::of_self().cpu_seconds() - before;
        assert!(used >= 0.1, "{used}");
    }

    #[test]
    fn a_busy_process_is_seen_to_be_busy() {
        let before = Usage::of_self();
        let end = clock::now() + clock::SECOND / 5;
        let mut sum = 0_u64;
        while clock::now() < end {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let used = Usage::of_self().cpu_seconds() - before.cpu_seconds();
        assert!(used > 0.0, "{used}");
        assert!(Usage::of_self().resident_bytes > 100_000);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_passed_over() {
        let fields = "S 7 1 1 0 -1 4194560 100 0 0 0 250 50 25 5 20 0 3 0 100 0 0";
        let stat = Stat::parse(&format!("42 (a) b (c)) {fields}")).expect("a stat line");
        let ticks = clock_ticks_per_second() as f64;
        assert_eq!((stat.parent, stat.group, stat.threads), (7, 1, 3));
        assert!((stat.times.total() - 330.0 / ticks).abs() < 1e-9);
    }

    #[test]
    fn memory_that_processes_share_is_counted_once() {
        let own = std::process::id();
        // The same process twice has twice its share of its pages, which is at most what is
        // resident.
        let once = memory_of(&[own]);
        assert!(once > 100_000, "{once}");
        let resident = of_process(own).expect("this process").resident_bytes;
        assert!(once <= resident + resident / 10, "{once} of {resident}");
    }

    #[test]
    fn descendants_count() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .expect("sh");
        let deadline = clock::now() + 10 * clock::SECOND;
        while Usage::of_tree(child.id()).is_none_or(|usage| usage.threads < 2) {
            assert!(clock::now() < deadline, "the grandchild never showed");
        }
        let grandchildren = children_by_parent().remove(&child.id()).unwrap_or_default();
        for pid in grandchildren {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        child.wait().expect("ended");
        assert!(Usage::of_tree(child.id()).is_none());
    }
}
