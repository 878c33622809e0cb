//! Memory of this process, and its limit.
//!
//! In a container, `/proc/meminfo` describes the whole machine. The effective limit is that of the
//! control group (cgroup v2 `memory.max`, v1 `memory.limit_in_bytes`) and of every group above it:
//! beyond the smallest of them the kernel kills the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_settings::ByteSize;

/// Measures the memory in use; simulations have their own gauge.
pub trait MemoryGauge: Send + Sync {
    /// Resident bytes; `None` if they are unknown.
    fn resident_bytes(&self) -> Option<usize>;
}

/// The memory of this process, from `/proc`.
pub(crate) struct ProcessMemory;

impl MemoryGauge for ProcessMemory {
    fn resident_bytes(&self) -> Option<usize> {
        let text = fs::read_to_string("/proc/self/status").ok()?;
        kibibytes(&text, "VmRSS:")
    }
}

/// The fraction of memory that retained messages leave to the queues of sessions: one part in this
/// many.
const RESERVED_SHARE: u64 = 8;

/// The memory that the process may have, and the memory in use.
pub(crate) struct MemoryBudget {
    gauge: Arc<dyn MemoryGauge>,
    max_bytes: usize,
}

impl MemoryBudget {
    /// A budget of `broker.memory_max`; zero stands for three quarters of the memory that the
    /// process may have.
    pub(crate) fn new(gauge: Arc<dyn MemoryGauge>, max: ByteSize) -> Self {
        let max_bytes = match max.as_usize() {
            0 => share_of(memory_available_bytes()),
            bytes => bytes,
        };
        Self { gauge, max_bytes }
    }

    /// The resident memory that the process may have.
    pub(crate) const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Resident bytes; zero if they are unknown.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.gauge.resident_bytes().unwrap_or_default()
    }

    /// The memory that is not in use.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.max_bytes.saturating_sub(self.resident_bytes()) as u64
    }

    /// The memory that is not in use, without the reserve for the queues of sessions.
    pub(crate) fn free_beyond_reserve(&self) -> u64 {
        let reserve = self.max_bytes as u64 / RESERVED_SHARE;
        self.free_bytes().saturating_sub(reserve)
    }

    /// The memory that one subscription may use for messages that are on disk. If it used all, the
    /// limit would be exceeded, and the server would refuse the connections of others.
    pub(crate) fn free_for_one(&self) -> u64 {
        self.free_bytes() / 2
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.resident_bytes() > self.max_bytes
    }
}

/// Makes the allocator return freed memory to the system: mimalloc does so at the next allocation
/// or release of a large block. The block is never written to, so it takes no memory.
pub(crate) fn return_freed() {
    const BLOCK_BYTES: usize = 64 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
}

/// The memory in bytes that this process may have in all, by the machine and its control groups;
/// `None` if both are unknown.
pub fn memory_available_bytes() -> Option<usize> {
    available_bytes(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// Three quarters of the available memory. An unknown size does not limit.
fn share_of(available_bytes: Option<usize>) -> usize {
    available_bytes.unwrap_or(usize::MAX) / 4 * 3
}

fn available_bytes(proc: &Path, groups: &Path) -> Option<usize> {
    let meminfo = fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let machine = kibibytes(&meminfo, "MemTotal:");
    let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let limits = membership.lines().filter_map(|line| limit_of(line, groups));
    machine.into_iter().chain(limits).min()
}

/// The smallest limit of the group that a line of `/proc/self/cgroup` names, and of those above.
///
/// Lines read `NUMBER:CONTROLLERS:PATH`; that of v2 has no controllers. In a container the path may
/// be that of the host, which is not visible; the container's own group is then the visible root.
fn limit_of(line: &str, groups: &Path) -> Option<usize> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, file): (PathBuf, &str) = if controllers.is_empty() {
        (groups.to_owned(), "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        (groups.join("memory"), "memory.limit_in_bytes")
    } else {
        return None;
    };
    let own = root.join(path.trim_start_matches('/'));
    let above = own
        .ancestors()
        .take_while(|folder| folder.starts_with(&root));
    above
        .filter_map(|folder| fs::read_to_string(folder.join(file)).ok())
        // `max` is not a number: the group has no limit of its own.
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

/// Lines of these files read `Name:   123 kB`.
fn kibibytes(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let number: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            kibibytes("A: 1 kB\nVmRSS:\t  20 kB\n", "VmRSS:"),
            Some(20 * 1024)
        );
        assert_eq!(kibibytes("A: 1 kB", "VmRSS:"), None);
        assert!(
            ProcessMemory
                .resident_bytes()
                .is_some_and(|bytes| bytes > 0)
        );
    }

    /// The share with these files below `proc` and `cgroup`.
    fn share(files: &[(&str, &str)]) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let (proc, groups) = (folder.path().join("proc"), folder.path().join("cgroup"));
        share_of(available_bytes(&proc, &groups))
    }

    #[test]
    fn the_smallest_limit_of_machine_and_groups_counts() {
        let meminfo = ("proc/meminfo", "MemTotal: 1048576 kB\n");
        assert_eq!(share(&[meminfo]), 768 * MIB);
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(
            share(&[meminfo, v2, ("cgroup/a/b/memory.max", "max\n")]),
            768 * MIB
        );
        let above = ("cgroup/a/memory.max", "209715200\n");
        let own = ("cgroup/a/b/memory.max", "419430400\n");
        assert_eq!(share(&[meminfo, v2, own]), 300 * MIB);
        assert_eq!(share(&[meminfo, v2, own, above]), 150 * MIB);
        // In a container: the path is that of the host.
        let v1 = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/x\n");
        let limit = ("cgroup/memory/memory.limit_in_bytes", "157286400\n");
        assert_eq!(share(&[meminfo, v1, limit]), 150 * MIB / 4 * 3);
        let none = (
            "cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(share(&[meminfo, v1, none]), 768 * MIB);
    }
}
