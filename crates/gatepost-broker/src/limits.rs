//! Counters and rate-limited log lines for the limits that are answered with the protocol's own
//! codes.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A bound that was reached. Each is a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Limit {
    /// A listener's `connections_max` or `connections_per_address_max`
    Connections,
    /// `sessions_max`
    Sessions,
    /// `connections_per_user_max`
    ConnectionsOfUser,
    /// `connects_per_second_max`
    ConnectRate,
    /// `publishes_per_second_max`
    PublishRate,
    /// `topic_bytes_max`, `topic_levels_max`
    Topic,
    /// `subscriptions_per_session_max`
    Subscriptions,
    /// `retained_messages_max`, `retained_bytes_max`
    Retained,
    /// `queue_messages_max`, `queue_bytes_max`
    Queue,
    /// `outbox_max`, `outbox_messages_max`
    Outbox,
    /// `memory_max`
    Memory,
    /// `[[topics]]`
    TopicRule,
}

impl Limit {
    /// Every bound, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Connections,
        Self::Sessions,
        Self::ConnectionsOfUser,
        Self::ConnectRate,
        Self::PublishRate,
        Self::Topic,
        Self::Subscriptions,
        Self::Retained,
        Self::Queue,
        Self::Outbox,
        Self::Memory,
        Self::TopicRule,
    ];

    /// The name in metrics, in `$SYS` and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Sessions => "sessions",
            Self::ConnectionsOfUser => "connections_per_user",
            Self::ConnectRate => "connect_rate",
            Self::PublishRate => "publish_rate",
            Self::Topic => "topic",
            Self::Subscriptions => "subscriptions",
            Self::Retained => "retained",
            Self::Queue => "queue",
            Self::Outbox => "outbox",
            Self::Memory => "memory",
            Self::TopicRule => "topic_rule",
        }
    }
}

/// Seconds between two log lines of one bound: an attack must not fill the disk.
const WARN_EVERY_SECONDS: u32 = 10;

#[derive(Debug, Default)]
struct LimitCounter {
    count: AtomicU64,
    /// The second after the last log line; 0 before the first.
    warned: AtomicU32,
}

/// The number of times that each limit was reached.
#[derive(Debug, Default)]
pub(crate) struct LimitCounters {
    reached: [LimitCounter; Limit::ALL.len()],
    /// Whether the process uses more memory than its limit.
    is_out_of_memory: AtomicBool,
}

impl LimitCounters {
    /// Counts, and logs at a bounded rate.
    pub(crate) fn reached(&self, limit: Limit, client: &str, now_seconds: u32) {
        let reached = &self.reached[limit as usize];
        reached.count.fetch_add(1, Ordering::Relaxed);
        let warned = reached.warned.load(Ordering::Relaxed);
        if warned == 0 || now_seconds >= warned.saturating_add(WARN_EVERY_SECONDS) {
            reached.warned.store(now_seconds.max(1), Ordering::Relaxed);
            tracing::warn!(target: "broker", limit = limit.name(), client,
                "a limit is reached (warned at most every {WARN_EVERY_SECONDS} seconds)");
        }
    }

    pub(crate) fn count(&self, limit: Limit) -> u64 {
        self.reached[limit as usize].count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.is_out_of_memory.load(Ordering::Relaxed)
    }

    pub(crate) fn set_out_of_memory(&self, is_so: bool) {
        self.is_out_of_memory.store(is_so, Ordering::Relaxed);
    }
}

/// A rate per second, with a burst of one second's worth.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    per_second: f64,
    left: f64,
    filled: Instant,
}

impl TokenBucket {
    /// Returns `None` for 0, which sets no limit.
    pub(crate) fn new(per_second: u32) -> Option<Self> {
        (per_second > 0).then(|| Self {
            per_second: per_second.into(),
            left: per_second.into(),
            filled: Instant::now(),
        })
    }

    /// Takes one unit at `now`; returns `false` if none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled);
        if passed > Duration::ZERO {
            self.filled = now;
            let filled = passed.as_secs_f64().mul_add(self.per_second, self.left);
            self.left = filled.min(self.per_second);
        }
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_a_second_at_once_and_fills_again() {
        let mut rate = TokenBucket::new(10).expect("a rate");
        let start = rate.filled;
        let taken =
            |rate: &mut TokenBucket, at: Instant| (0..100).filter(|_| rate.take(at)).count();
        assert_eq!(taken(&mut rate, start), 10);
        assert_eq!(taken(&mut rate, start + Duration::from_millis(250)), 2);
        assert_eq!(taken(&mut rate, start + Duration::from_mins(1)), 10);
        assert!(TokenBucket::new(0).is_none());
    }
}
