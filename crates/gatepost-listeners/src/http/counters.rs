//! The listener's own counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::monitoring::prometheus::{MetricsPage, counter};

/// The number of threads that have a counter of their own; further threads share.
const THREADS: usize = 16;

/// Requests answered, by class of status. Each thread has a cache line of its own: counters are
/// written at every request.
#[derive(Debug, Default)]
pub(super) struct RequestCounters {
    by_thread: [CounterLine; THREADS],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct CounterLine([AtomicU64; 5]);

fn shard_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS;
    }
    MINE.with(|mine| *mine)
}

impl RequestCounters {
    /// Counts an answer with this status.
    pub(super) fn count(&self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        let mine = self.by_thread.get(shard_index());
        if let Some(counter) = mine.and_then(|counts| counts.0.get(class)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All answers.
    pub(super) fn total(&self) -> u64 {
        (0..5).map(|class| self.of_class(class)).sum()
    }

    fn of_class(&self, class: usize) -> u64 {
        let counts = self.by_thread.iter();
        counts
            .filter_map(|counts| counts.0.get(class))
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Appends the counters in Prometheus' text format.
    pub(super) fn push_metrics(&self, text: &mut String) {
        let classes = (1..=5).map(|class| (format!("{class}xx"), self.of_class(class - 1)));
        MetricsPage(text).by_label(
            counter(
                "gatepost_http_requests_total",
                "Requests answered, by class of status.",
            ),
            "status",
            classes,
        );
    }
}
