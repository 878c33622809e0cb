//! The processors on which the servers and the bench may run.

use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for &processor in &self.0 {
            set.set(processor);
        }
        set
    }

    /// Restricts this thread, and everything that it starts from now on, to these processors.
    pub fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.set())?)
    }

    /// Starts a program restricted to these processors; the calling thread keeps its own.
    pub(crate) fn spawn_on(&self, command: &mut Command) -> io::Result<Child> {
        let own = sched_getaffinity(None)?;
        // A child inherits the processors of the thread that starts it.
        self.apply()?;
        let child = command.spawn();
        sched_setaffinity(None, &own)?;
        child
    }
}

impl FromStr for Processors {
    type Err = String;

    /// `0`, `0,2` or `1-3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("'{text}' names no processors; write 0, 0,2 or 1-3");
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| malformed())?;
            let last: usize = last.parse().map_err(|_| malformed())?;
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(malformed());
            }
            all.extend(first..=last);
        }
        Ok(Self(all))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(usize::to_string).collect();
        formatter.write_str(&all.join(","))
    }
}

/// Processors for the servers, and for the bench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinning {
    /// The processors of the servers that are started.
    pub server: Processors,
    /// The processors of the bench.
    pub bench: Processors,
}

impl FromStr for Pinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (server, bench) = text
            .split_once(':')
            .ok_or("write SERVER:BENCH, such as 0:1")?;
        Ok(Self {
            server: server.parse()?,
            bench: bench.parse()?,
        })
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} (servers), {} (bench)",
            self.server, self.bench
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_as_lists_and_ranges() {
        let pinning: Pinning = "0,2:1-3".parse().expect("a pinning");
        assert_eq!(pinning.server, Processors(vec![0, 2]));
        assert_eq!(pinning.bench, Processors(vec![1, 2, 3]));
        for text in ["", "0", "0:", "3-1:0", "a:b", "0:99999"] {
            assert!(text.parse::<Pinning>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_starts_on_its_pinned_processors() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec grep -q 'Cpus_allowed_list:.0$' /proc/self/status",
        ]);
        let before = sched_getaffinity(None).expect("known");
        let mut child = Processors(vec![0]).spawn_on(&mut command).expect("started");
        assert!(child.wait().expect("ended").success());
        assert_eq!(sched_getaffinity(None).expect("known"), before);
    }
}
