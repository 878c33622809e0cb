//! The CPU time of each thread of this process.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// CPU seconds by thread.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadTimes(HashMap<u32, f64>);

impl ThreadTimes {
    /// The living threads of this process.
    pub(super) fn of_self() -> Self {
        Self::of(Path::new("/proc/self/task"))
    }

    fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let time = |entry: fs::DirEntry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            // The first number is the time on a processor in nanoseconds (kernel,
            // Documentation/scheduler/sched-stats.rst).
            let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            let nanoseconds: f64 = text.split(' ').next()?.parse().ok()?;
            Some((thread, nanoseconds / 1e9))
        };
        Self(entries.filter_map(time).collect())
    }

    /// The CPU seconds of the thread that has used the most since an earlier sample.
    pub(super) fn largest_since(&self, earlier: &Self) -> f64 {
        let used = |(thread, now): (&u32, &f64)| now - earlier.0.get(thread).unwrap_or(&0.0);
        self.0.iter().map(used).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_used_the_most_counts() {
        let sample = |times: &[(u32, u64)]| {
            let folder = tempfile::tempdir().expect("a folder");
            for (thread, nanoseconds) in times {
                let path = folder.path().join(thread.to_string());
                fs::create_dir(&path).expect("a folder");
                fs::write(path.join("schedstat"), format!("{nanoseconds} 5 6\n")).expect("a file");
            }
            ThreadTimes::of(folder.path())
        };
        let second = 1_000_000_000;
        let before = sample(&[(1, 50 * second), (2, 3 * second)]);
        let after = sample(&[(1, 51 * second), (2, 5 * second), (3, second / 2)]);
        assert!((after.largest_since(&before) - 2.0).abs() < 1e-9);
        // Threads that have ended are left out.
        assert!(sample(&[]).largest_since(&before).abs() < 1e-9);
    }
}
