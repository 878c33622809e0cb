//! Student's t as ministat computes it, and Welch's form, which does not require equal variances.

use super::SortedSample;
use super::distribution::{normal_quantile, student_quantile, student_two_sided};

/// The degrees of freedom up to which ministat has a table; above, it uses the normal limit.
const TABLE_DEGREES: usize = 100;

/// One of ministat's levels of confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// The level as named, in percent.
    pub percent: f64,
    /// The probability below the corresponding quantile in ministat's table.
    quantile_at: f64,
}

/// The last column of ministat's table, named 99.5, contains the quantiles at 0.999, which is 99.8
/// % two-sided. This table does the same, to agree with ministat's output.
const LEVELS: [(f64, f64); 6] = [
    (80.0, 0.90),
    (90.0, 0.95),
    (95.0, 0.975),
    (98.0, 0.99),
    (99.0, 0.995),
    (99.5, 0.999),
];

impl Confidence {
    /// The level for this percentage, if ministat has it.
    pub fn of_percent(percent: f64) -> Option<Self> {
        let level = LEVELS
            .into_iter()
            .find(|(name, _)| (name - percent).abs() < 1e-9)?;
        Some(Self {
            percent: level.0,
            quantile_at: level.1,
        })
    }

    /// The level as a share.
    pub fn share(self) -> f64 {
        self.percent / 100.0
    }

    /// The quantile as in the table: three decimals.
    fn table_value(self, degrees: usize) -> f64 {
        let exact = if degrees > TABLE_DEGREES {
            normal_quantile(self.quantile_at)
        } else {
            student_quantile(self.quantile_at, degrees as f64)
        };
        (exact * 1_000.0).round() / 1_000.0
    }
}

/// ministat's result for two sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentTest {
    /// Second mean minus first.
    pub difference: f64,
    /// Half the width of its confidence interval.
    pub error: f64,
    /// The pooled deviation.
    pub pooled_deviation: f64,
}

impl StudentTest {
    /// Whether a difference is proven.
    pub fn is_proven(&self) -> bool {
        self.difference.abs() > self.error
    }
}

/// Student's t with pooled deviation, at one of ministat's levels.
pub fn student(first: &SortedSample, second: &SortedSample, confidence: Confidence) -> StudentTest {
    let (n1, n2) = (first.count() as f64, second.count() as f64);
    let degrees = first.count() + second.count() - 2;
    let pooled = ((n1 - 1.0) * first.variance() + (n2 - 1.0) * second.variance()) / degrees as f64;
    let pooled_deviation = pooled.sqrt();
    StudentTest {
        difference: second.mean() - first.mean(),
        error: confidence.table_value(degrees) * pooled_deviation * (1.0 / n1 + 1.0 / n2).sqrt(),
        pooled_deviation,
    }
}

/// Welch's test of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WelchTest {
    /// The statistic, positive where the first mean is larger.
    pub t: f64,
    /// Degrees of freedom after Welch and Satterthwaite.
    pub degrees: f64,
    /// The probability of a difference at least as large between equal means.
    pub probability: f64,
}

/// Welch's t (Biometrika 34, 1947); `None` if neither set varies.
pub fn welch(first: &SortedSample, second: &SortedSample) -> Option<WelchTest> {
    let (n1, n2) = (first.count() as f64, second.count() as f64);
    let (e1, e2) = (first.variance() / n1, second.variance() / n2);
    if e1 + e2 <= 0.0 || n1 < 2.0 || n2 < 2.0 {
        return None;
    }
    let t = (first.mean() - second.mean()) / (e1 + e2).sqrt();
    let degrees = (e1 + e2).powi(2) / (e1 * e1 / (n1 - 1.0) + e2 * e2 / (n2 - 1.0));
    Some(WelchTest {
        t,
        degrees,
        probability: student_two_sided(t, degrees),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ministat_s() {
        let at = |percent, degrees| {
            Confidence::of_percent(percent)
                .expect("a level")
                .table_value(degrees)
        };
        for (percent, degrees, value) in [
            (80.0, 1, 3.078),
            (95.0, 1, 12.706),
            (80.0, 10, 1.372),
            (95.0, 10, 2.228),
            (99.5, 10, 4.144),
            (99.5, 38, 3.319),
            (98.0, 38, 2.429),
            (99.0, 100, 2.626),
            (95.0, 101, 1.960),
            (99.5, 101, 3.090),
        ] {
            // The printed table differs in the last place in some entries.
            assert!(
                (at(percent, degrees) - value).abs() < 0.0011,
                "{percent} {degrees}"
            );
        }
        assert!(Confidence::of_percent(97.0).is_none());
    }
}
