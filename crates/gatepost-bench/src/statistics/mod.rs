//! The statistics of comparisons: samples, distributions, tests.
//!
//! Each formula names its source; the results are tested against SciPy's, stored as data.

mod bootstrap;
mod change;
mod distribution;
mod growth;
mod rank;
mod sample;
mod steady;
mod student;

pub use bootstrap::ratio_interval;
pub use change::{LevelChange, changes};
pub use distribution::{normal_quantile, student_quantile, student_two_sided};
pub use growth::{Growth, growth};
pub use rank::{RankTest, mann_whitney};
pub use sample::SortedSample;
pub use steady::{Steadiness, steadiness};
pub use student::{Confidence, StudentTest, WelchTest, student, welch};

/// The number of values in each of two sets at which a difference of `share` (0.05 for 5 %) of the
/// mean would be detected in four cases of five, at this confidence; from the usual normal
/// approximation for two means of equal deviation.
pub fn values_needed(
    first: &SortedSample,
    second: &SortedSample,
    share: f64,
    confidence: f64,
) -> f64 {
    const POWER: f64 = 0.8;
    let variance = f64::midpoint(first.variance(), second.variance());
    let quantiles = normal_quantile(f64::midpoint(confidence, 1.0)) + normal_quantile(POWER);
    let difference = share * first.mean().abs();
    (2.0 * variance * quantiles * quantiles / (difference * difference))
        .ceil()
        .max(3.0)
}
