//! Latencies, kept as a mergeable histogram so that no sample and no extreme is lost.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::Nanoseconds;

/// The longest duration that is recorded exactly; longer ones count as this one.
const LONGEST: Nanoseconds = 3_600 * crate::clock::SECOND;
/// Three significant digits: every figure is accurate to 0.1 %.
const DIGITS: u8 = 3;

/// The significant digits of the durations of a coarse histogram.
pub const COARSE_DIGITS: u8 = 2;

/// Records durations; accurate to 0.1 % from nanoseconds to an hour.
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
    /// Records one duration.
    #[inline]
    pub fn record(&mut self, span: Nanoseconds) {
        self.histogram.saturating_record(span.max(1));
    }

    /// Adds the durations that another histogram recorded.
    pub fn merge(&mut self, other: &Self) {
        // Only a histogram with a larger bound could be refused, and all have the same bound.
        let _ = self.histogram.add(&other.histogram);
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The recorded durations in nanoseconds, each with its count, in order. Durations that the
    /// histogram does not distinguish are one entry.
    pub fn buckets(&self) -> Buckets {
        let recorded = self.histogram.iter_recorded();
        Buckets(
            recorded
                .map(|one| (one.value_iterated_to(), one.count_at_value()))
                .collect(),
        )
    }

    /// Adds stored durations, of this run or another, of this host or another.
    pub fn add(&mut self, buckets: &Buckets) {
        for &(span, count) in &buckets.0 {
            // Only a value above the bound could be refused, and it is replaced by the bound.
            self.histogram
                .saturating_record_n(span.clamp(1, LONGEST), count);
        }
    }

    /// The duration at a quantile between 0 and 1, in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1_000.0
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

/// A stored histogram: durations in nanoseconds with their counts.
///
/// In JSON it is one string, `1023 1024*5 1031*2`, so that thousands of pairs do not obscure the
/// rest of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buckets(pub Vec<(Nanoseconds, u64)>);

impl Buckets {
    /// The histogram with durations rounded to two digits, and so a tenth as long: sufficient for a
    /// plot.
    #[must_use]
    pub fn coarse(&self) -> Self {
        let mut coarse: Vec<(Nanoseconds, u64)> = Vec::new();
        for &(span, count) in &self.0 {
            let unit = coarse_unit(span);
            let rounded = (span + unit / 2) / unit * unit;
            match coarse.last_mut() {
                Some(last) if last.0 == rounded => last.1 += count,
                _ => coarse.push((rounded, count)),
            }
        }
        Self(coarse)
    }

    /// Whether all its durations are rounded like those of [`Buckets::coarse`].
    pub fn is_coarse(&self) -> bool {
        let mut spans = self.0.iter().map(|(span, _)| *span);
        spans.all(|span| span.is_multiple_of(coarse_unit(span)))
    }
}

/// The unit to which a duration is rounded in a coarse histogram.
fn coarse_unit(span: Nanoseconds) -> Nanoseconds {
    let digits = u32::from(COARSE_DIGITS);
    10_u64.pow((span.max(1).ilog10() + 1).saturating_sub(digits))
}

impl Serialize for Buckets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.iter().map(|(span, count)| match count {
            1 => span.to_string(),
            _ => format!("{span}*{count}"),
        });
        pairs.collect::<Vec<_>>().join(" ").serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Buckets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pair = |word: &str| {
            let (span, count) = word.split_once('*').unwrap_or((word, "1"));
            Some((span.parse().ok()?, count.parse().ok()?))
        };
        let pairs: Option<Vec<_>> = text.split_ascii_whitespace().map(pair).collect();
        pairs
            .map(Self)
            .ok_or_else(|| D::Error::custom("a histogram's pair is not a SPAN*COUNT"))
    }
}

/// A percentile that reports show: its name, and the number of durations from which on one is
/// beyond it. With fewer it would be the maximum by another name.
type Percentile = (&'static str, u64, fn(&LatencySummary) -> f64);

const PERCENTILES: [Percentile; 7] = [
    ("p50", 1, |summary| summary.p50_us),
    ("p90", 10, |summary| summary.p90_us),
    ("p99", 100, |summary| summary.p99_us),
    ("p99.9", 1_000, |summary| summary.p99_9_us),
    ("p99.99", 10_000, |summary| summary.p99_99_us),
    ("p99.999", 100_000, |summary| summary.p99_999_us),
    ("max", 1, |summary| summary.maximum_us),
];

impl LatencySummary {
    /// The names of the percentiles, and `max`.
    pub fn percentile_names() -> impl Iterator<Item = &'static str> {
        PERCENTILES.iter().map(|(name, ..)| *name)
    }

    /// A percentile in microseconds; `None` if there is none of this name, or too few durations
    /// were recorded.
    pub fn percentile_us(&self, name: &str) -> Option<f64> {
        let mut all = PERCENTILES.iter();
        let (_, fewest, value) = all.find(|(known, ..)| *known == name)?;
        (self.count >= *fewest).then(|| value(self))
    }
}

/// The figures of a histogram, in microseconds.
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
    fn a_percentile_that_no_duration_is_beyond_is_unknown() {
        let mut few = Latencies::default();
        for span in 1..=150_u64 {
            few.record(span * 1_000);
        }
        let summary = few.summary();
        for known in ["p50", "p90", "p99", "max"] {
            assert!(summary.percentile_us(known).is_some(), "{known}");
        }
        for unknown in ["p99.9", "p99.99", "p99.999", "p98"] {
            assert_eq!(summary.percentile_us(unknown), None, "{unknown}");
        }
        assert_eq!(LatencySummary::default().percentile_us("p50"), None);
    }

    #[test]
    fn a_stored_histogram_is_the_same_histogram() {
        let mut recorded = Latencies::default();
        for span in [1, 999, 1_000, 1_000, 123_456_789] {
            recorded.record(span);
        }
        let text = serde_json::to_string(&recorded.buckets()).expect("JSON");
        assert!(text.starts_with("\"1 999 1000*2 "), "{text}");
        let mut read = Latencies::default();
        read.add(&serde_json::from_str(&text).expect("read"));
        assert_eq!(read.summary(), recorded.summary());
        assert!(serde_json::from_str::<Buckets>("\"1*x\"").is_err());
        let fine = Buckets(vec![
            (5, 1),
            (1_234, 1),
            (1_249, 2),
            (1_251, 1),
            (99_700, 1),
        ]);
        let coarse = Buckets(vec![(5, 1), (1_200, 3), (1_300, 1), (100_000, 1)]);
        assert_eq!(fine.coarse(), coarse);
        assert!(coarse.is_coarse() && !fine.is_coarse());
    }

    #[test]
    fn nothing_recorded_is_no_latency() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }
}
