//! Latencies, kept as a mergeable histogram so that no sample and no extreme is lost.

use crate::clock::Nanoseconds;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Largest span told apart; longer ones count as this.
const LONGEST: Nanoseconds = 3_600 * crate::clock::SECOND;
/// Three significant digits: every figure is right to 0.1 %.
const DIGITS: u8 = 3;

/// Records spans of time; 0.1 % exact from nanoseconds to an hour.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self {
            histogram: histogram.expect("the bounds are constants that the histogram allows"),
        }
    }
}

impl Latencies {
    /// Records one span.
    #[inline]
    pub fn record(&mut self, span: Nanoseconds) {
        self.histogram.saturating_record(span.max(1));
    }

    /// Takes over what another recorded.
    pub fn merge(&mut self, other: &Self) {
        // Only a histogram with a larger bound could be refused, and all have the same.
        let _ = self.histogram.add(&other.histogram);
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The figures that reports show, in microseconds.
    pub fn summary(&self) -> LatencySummary {
        let us = |ns: u64| ns as f64 / 1_000.0;
        let at = |quantile: f64| us(self.histogram.value_at_quantile(quantile));
        if self.count() == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            count: self.count(),
            minimum_us: us(self.histogram.min()),
            mean_us: self.histogram.mean() / 1_000.0,
            deviation_us: self.histogram.stdev() / 1_000.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            p99_999_us: at(0.99999),
            maximum_us: us(self.histogram.max()),
        }
    }
}

/// A histogram in figures, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // Each name says its percentile.
pub struct LatencySummary {
    pub count: u64,
    pub minimum_us: f64,
    pub mean_us: f64,
    pub deviation_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub p99_99_us: f64,
    pub p99_999_us: f64,
    pub maximum_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_extremes_survive_a_merge() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        for span in 1..=500_u64 {
            low.record(span * 1_000);
            high.record((span + 500) * 1_000);
        }
        low.merge(&high);
        let summary = low.summary();
        assert_eq!(summary.count, 1_000);
        for (figure, expected) in [
            (summary.minimum_us, 1.0),
            (summary.p50_us, 500.0),
            (summary.p99_us, 990.0),
            (summary.p99_9_us, 999.0),
            (summary.maximum_us, 1_000.0),
        ] {
            assert!(
                (figure / expected - 1.0).abs() < 0.002,
                "{figure} for {expected}"
            );
        }
    }

    #[test]
    fn nothing_recorded_is_no_latency() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }
}
