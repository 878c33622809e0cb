//! Detection of changes in a series of results, by Welch's test and the rank test.

use super::{SortedSample, mann_whitney, welch};

/// The minimum number of values on either side of a change.
const VALUES_MIN: usize = 3;

/// A position where the values before and after differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelChange {
    /// The index of the first result that differs.
    pub at: usize,
    /// Mean after over mean before.
    pub ratio: f64,
    /// The probability of such a difference without a change, corrected for the number of positions
    /// tested.
    pub probability: f64,
}

/// All changes in a series of results, each of which has one or more values, in order of time.
/// The series is processed as it grew: with each added result, the most significant position since
/// the last change is sought, and as soon as it is proven the search continues from there. So a
/// change that was reverted later counts as two changes. Each tested position may yield an error,
/// so its probability is multiplied by their number (Bonferroni). Both tests must agree: Welch's
/// for the size, and that of Mann and Whitney so that one outlier is not a change.
pub fn changes(series: &[Vec<f64>], confidence: f64) -> Vec<LevelChange> {
    let places = series.len() * series.len().saturating_sub(1) / 2;
    let mut found: Vec<LevelChange> = Vec::new();
    let mut start = 0;
    let mut end = 2;
    while end <= series.len() {
        let tried = (start + 1..end).filter_map(|at| change_at(series, start, at, end));
        let clearest = tried.min_by(|a, b| a.probability.total_cmp(&b.probability));
        let guarded = clearest.map(|change| LevelChange {
            probability: (change.probability * places as f64).min(1.0),
            ..change
        });
        match guarded.filter(|change| change.probability < 1.0 - confidence) {
            Some(change) => {
                start = change.at;
                found.push(change);
            }
            None => end += 1,
        }
    }
    with_whole_ratios(series, &mut found);
    found
}

/// The ratio of the mean of the whole section after each change to that before it.
fn with_whole_ratios(series: &[Vec<f64>], found: &mut [LevelChange]) {
    let mean = |from: usize, to: usize| {
        let sample = SortedSample::new(series[from..to].concat());
        sample.map_or(f64::NAN, |sample| sample.mean())
    };
    let places: Vec<usize> = found.iter().map(|change| change.at).collect();
    for (number, change) in found.iter_mut().enumerate() {
        let before = if number == 0 { 0 } else { places[number - 1] };
        let after = places.get(number + 1).copied().unwrap_or(series.len());
        change.ratio = mean(change.at, after) / mean(before, change.at);
    }
}

/// A change between `at` and the result before it, in the results from `start` to before `end`.
fn change_at(series: &[Vec<f64>], start: usize, at: usize, end: usize) -> Option<LevelChange> {
    let before = SortedSample::new(series[start..at].concat())?;
    let after = SortedSample::new(series[at..end].concat())?;
    if before.count().min(after.count()) < VALUES_MIN {
        return None;
    }
    let by_mean = match welch(&before, &after) {
        Some(test) => test.probability,
        // Neither side varies: any difference is a change.
        None if before.median().total_cmp(&after.median()).is_ne() => 0.0,
        None => 1.0,
    };
    let by_rank = mann_whitney(&before, &after).probability;
    Some(LevelChange {
        at,
        ratio: after.mean() / before.mean(),
        probability: by_mean.max(by_rank),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(means: &[f64]) -> Vec<Vec<f64>> {
        let around = |mean: &f64| [-0.8, -0.3, 0.1, 0.4, 0.6].map(|off| mean + off).to_vec();
        means.iter().map(around).collect()
    }

    #[test]
    fn the_first_that_differs_is_found() {
        let found = changes(&series(&[100.0, 100.2, 99.9, 90.0, 90.1, 89.8]), 0.95);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].at, 3);
        assert!((found[0].ratio - 0.9).abs() < 0.005);
    }

    #[test]
    fn there_and_back_are_two() {
        let found = changes(&series(&[100.0, 100.1, 120.0, 120.2, 100.0, 99.9]), 0.95);
        let places: Vec<usize> = found.iter().map(|change| change.at).collect();
        assert_eq!(places, [2, 4]);
    }

    #[test]
    fn noise_and_one_outlier_are_no_change() {
        assert_eq!(changes(&series(&[100.0, 100.1, 99.9, 100.0]), 0.95), []);
        let mut spiked = series(&[100.0, 100.1, 99.9, 100.0]);
        spiked[2][4] = 300.0;
        assert_eq!(changes(&spiked, 0.95), []);
        assert_eq!(changes(&[vec![1.0], vec![2.0]], 0.95), []);
    }
}
