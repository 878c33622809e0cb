//! The listener's own counters.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests answered, by class of status. One cache line: it is written at every request.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Requests {
    by_class: [AtomicU64; 5],
}

impl Requests {
    /// Counts an answer with this status.
    pub(super) fn count(&self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        if let Some(counter) = self.by_class.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All answers.
    pub(super) fn total(&self) -> u64 {
        self.by_class
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Appends them in Prometheus' text format.
    pub(super) fn push_metrics(&self, text: &mut String) {
        text.push_str(
            "# HELP gatepost_http_requests_total Requests answered, by class of status.\n",
        );
        text.push_str("# TYPE gatepost_http_requests_total counter\n");
        for (class, count) in (1..).zip(&self.by_class) {
            let count = count.load(Ordering::Relaxed);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "gatepost_http_requests_total{{status=\"{class}xx\"}} {count}"
            );
        }
    }
}
