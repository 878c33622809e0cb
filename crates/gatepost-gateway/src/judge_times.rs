//! The durations of judging: a histogram of judged messages.
//!
//! A message costs one addition to a bucket. Each power of two has four buckets, so a percentile is
//! exact to an eighth. Percentiles of an interval come from the difference of two copies.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of each power of two of microseconds, as a power of two.
const STEPS_LOG2: u32 = 2;
const STEPS: usize = 1 << STEPS_LOG2;
/// The last bucket begins at about nine hours.
const BUCKETS: usize = 35 * STEPS;

/// Judged messages since the start, by duration.
#[derive(Debug)]
pub struct JudgeTimes([AtomicU64; BUCKETS]);

impl Default for JudgeTimes {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

/// A copy of the counts.
#[derive(Debug, Clone, Copy)]
pub struct JudgeTimeCounts([u64; BUCKETS]);

impl JudgeTimes {
    /// Counts a message; a duration of zero means that no procedure ran.
    pub fn count(&self, duration: Duration) {
        if !duration.is_zero() {
            self.0[bucket_of(duration)].fetch_add(1, Relaxed);
        }
    }

    /// Copies the counts.
    pub fn counts(&self) -> JudgeTimeCounts {
        JudgeTimeCounts(std::array::from_fn(|bucket| self.0[bucket].load(Relaxed)))
    }
}

impl JudgeTimeCounts {
    /// The messages that were counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|bucket| {
            self.0[bucket].saturating_sub(earlier.0[bucket])
        }))
    }

    /// The duration that this percentage of the messages does not exceed; `None` without messages.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let total: u64 = self.0.iter().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut counted = 0;
        let bucket = self.0.iter().position(|count| {
            counted += count;
            counted >= rank
        })?;
        Some(middle_of(bucket))
    }
}

fn bucket_of(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let power = micros.ilog2();
    let step = (micros >> (power - STEPS_LOG2)) as usize % STEPS;
    let bucket = (power - STEPS_LOG2 + 1) as usize * STEPS + step;
    bucket.min(BUCKETS - 1)
}

fn middle_of(bucket: usize) -> Duration {
    if bucket < STEPS {
        return Duration::from_micros(bucket as u64);
    }
    let shift = (bucket / STEPS - 1) as u32;
    let (first, width) = (((STEPS + bucket % STEPS) as u64) << shift, 1_u64 << shift);
    Duration::from_nanos((first * 2 + width - 1) * 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_an_eighth() {
        for micros in [
            1_u64,
            3,
            4,
            7,
            8,
            100,
            1_234,
            99_999,
            1_000_000,
            3_600_000_000,
        ] {
            let times = JudgeTimes::default();
            times.count(Duration::from_micros(micros));
            let found = times.counts().percentile(50).expect("a message");
            let error = found.as_secs_f64() / (micros as f64 / 1e6) - 1.0;
            assert!(error.abs() <= 0.125, "{micros} us became {found:?}");
        }
    }

    #[test]
    fn an_interval_has_percentiles_of_its_own() {
        let times = JudgeTimes::default();
        times.count(Duration::from_secs(3));
        let before = times.counts();
        assert_eq!(before.since(&before).percentile(99), None);
        for _ in 0..98 {
            times.count(Duration::from_micros(2));
        }
        times.count(Duration::from_micros(3));
        times.count(Duration::from_micros(3));
        times.count(Duration::ZERO);
        let during = times.counts().since(&before);
        assert_eq!(during.percentile(50), Some(Duration::from_micros(2)));
        assert_eq!(during.percentile(99), Some(Duration::from_micros(3)));
    }

    #[test]
    fn the_longest_duration_has_a_bucket() {
        let times = JudgeTimes::default();
        times.count(Duration::MAX);
        assert!(times.counts().percentile(99).is_some());
    }
}
