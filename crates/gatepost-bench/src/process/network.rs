//! Network traffic of all interfaces in a process's network namespace.
//!
//! The kernel does not count by process. On an otherwise idle machine, or in a separate namespace,
//! this is the server's traffic; on loopback it is that of both sides together.

use std::fs;

use serde::{Deserialize, Serialize};

/// The traffic since the interfaces came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl Traffic {
    /// The traffic in the namespace of a process.
    pub fn of_process(pid: u32) -> Self {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default())
    }

    /// The table of proc_pid_net(5): a name, 8 counts of received data, 8 of sent data.
    fn parse(table: &str) -> Self {
        let mut all = Self::default();
        for line in table.lines() {
            let Some((_, counts)) = line.split_once(':') else {
                continue;
            };
            let mut counts = counts
                .split_ascii_whitespace()
                .map(|count| count.parse().unwrap_or(0));
            all.received_bytes += counts.next().unwrap_or(0);
            all.sent_bytes += counts.nth(7).unwrap_or(0);
        }
        all
    }

    /// The difference since an earlier sample.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_are_added() {
        let table = "Inter-|   Receive                    |  Transmit\n face |bytes packets\n\
                     lo: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n\
                     eth0: 5 1 0 0 0 0 0 0 7 2 0 0 0 0 0 0\n";
        let all = Traffic {
            received_bytes: 105,
            sent_bytes: 207,
        };
        assert_eq!(Traffic::parse(table), all);
        assert_eq!(all.since(all), Traffic::default());
    }
}
