//! Averages of one, five and fifteen minutes, as in other brokers' `$SYS/broker/load`.
//!
//! Each is an exponentially weighted moving average of a sum's growth in a minute, the formula of
//! the load average of Unix: after a period *t* the old average keeps the weight *e^(-t/T)*.

use std::time::{Duration, Instant};

/// The period of each average, and its name.
pub(crate) const SPANS: [(&str, Duration); 3] = [
    ("1min", Duration::from_mins(1)),
    ("5min", Duration::from_mins(5)),
    ("15min", Duration::from_mins(15)),
];
const MINUTE_SECONDS: f64 = 60.0;

/// The shortest period for which a rate is computed.
const PERIOD_MIN: Duration = Duration::from_millis(500);

/// The averages of several sums.
#[derive(Debug)]
pub(crate) struct LoadAverages {
    updated: Instant,
    loads: Vec<LoadAverage>,
}

#[derive(Debug, Clone, Default)]
struct LoadAverage {
    sum: u64,
    averages: [f64; SPANS.len()],
}

impl LoadAverages {
    /// The averages of sums that are 0 at `start`.
    pub(crate) const fn new(start: Instant) -> Self {
        Self {
            updated: start,
            loads: Vec::new(),
        }
    }

    /// Updates the averages with the values of the sums at `now`, always in the same order, and
    /// returns them in events per minute.
    pub(crate) fn update(&mut self, now: Instant, sums: &[u64]) -> Vec<[f64; SPANS.len()]> {
        self.loads.resize_with(sums.len(), LoadAverage::default);
        let passed = now.saturating_duration_since(self.updated);
        if passed >= PERIOD_MIN {
            self.updated = now;
            for (load, &sum) in self.loads.iter_mut().zip(sums) {
                load.update(passed, sum);
            }
        }
        self.loads.iter().map(|load| load.averages).collect()
    }
}

impl LoadAverage {
    fn update(&mut self, passed: Duration, sum: u64) {
        let growth = sum.saturating_sub(std::mem::replace(&mut self.sum, sum));
        let seconds = passed.as_secs_f64();
        let a_minute = growth as f64 * MINUTE_SECONDS / seconds;
        for (average, (_, span)) in self.averages.iter_mut().zip(SPANS) {
            let kept = (-seconds / span.as_secs_f64()).exp();
            *average = a_minute + kept * (*average - a_minute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_approach_the_rate_each_at_its_pace() {
        let start = Instant::now();
        let mut loads = LoadAverages::new(start);
        assert_eq!(loads.update(start, &[5]), [[0.0; 3]], "no rate yet");
        // 10 a second for a minute, sampled every 10 seconds.
        let mut averages = [0.0; 3];
        for step in 1..=6 {
            let now = start + Duration::from_secs(10 * step);
            averages = loads.update(now, &[100 * step])[0];
        }
        let expected = SPANS.map(|(_, span)| 600.0 * (1.0 - (-60.0 / span.as_secs_f64()).exp()));
        for (average, expected) in averages.iter().zip(expected) {
            assert!((average - expected).abs() < 0.001, "{averages:?}");
        }
        // A minute of silence leaves the first average its 1/e.
        let later = loads.update(start + Duration::from_mins(2), &[600])[0][0];
        assert!(
            (later - averages[0] * (-1.0_f64).exp()).abs() < 0.001,
            "{later}"
        );
    }
}
