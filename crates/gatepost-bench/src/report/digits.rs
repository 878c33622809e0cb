//! Figures and times as text, with the significant digits that they have.

use crate::latency::LatencySummary;

/// The unit of figures and latencies that are times of one operation.
pub(super) const MICROSECONDS: &str = "µs";
/// Times from here on are shown in milliseconds.
const IN_MILLISECONDS: f64 = 1_000.0;
/// The significant digits of a figure, and of a percentile of a complete histogram.
pub(super) const DIGITS: u8 = 4;

/// The latencies of a column, with the significant digits that their percentiles have.
pub(super) struct ColumnLatency {
    pub(super) summary: LatencySummary,
    pub(super) digits: u8,
}

impl ColumnLatency {
    /// Whether nothing was recorded.
    pub(super) const fn is_empty(&self) -> bool {
        self.summary.count == 0
    }

    /// The cell of a percentile or of the maximum, by its name.
    pub(super) fn cell(&self, percentile: &str) -> String {
        let Some(value) = self.summary.percentile_us(percentile) else {
            return "-".to_owned();
        };
        let is_exact = percentile == "max";
        time_of(value, if is_exact { DIGITS } else { self.digits })
    }
}

/// Median, smallest, largest.
#[derive(Debug, Clone)]
pub(super) struct ValueSpread {
    pub(super) median: f64,
    pub(super) smallest: f64,
    pub(super) largest: f64,
    pub(super) count: usize,
}

impl ValueSpread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (smallest, largest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            median,
            smallest,
            largest,
            count: values.len(),
        })
    }

    /// `median [smallest largest]`, or the one value there is. A cell has a unit only if it is not
    /// that of its row: milliseconds from 1,000 µs on.
    pub(super) fn cell(&self, unit: &str) -> String {
        let (scale, unit) = match unit {
            MICROSECONDS if self.median >= IN_MILLISECONDS => (1e-3, " ms"),
            _ => (1.0, ""),
        };
        let scaled = |value: f64| number(value * scale);
        let (smallest, largest) = (scaled(self.smallest), scaled(self.largest));
        if self.count == 1 || smallest == largest {
            return scaled(self.median) + unit;
        }
        format!("{} [{smallest} {largest}]{unit}", scaled(self.median))
    }
}

/// A time in microseconds with its unit: milliseconds from 1,000 µs on.
pub(super) fn time(microseconds: f64) -> String {
    time_of(microseconds, DIGITS)
}

/// The same with this number of significant digits.
fn time_of(microseconds: f64, digits: u8) -> String {
    if microseconds >= IN_MILLISECONDS {
        format!("{} ms", number_of(microseconds / 1e3, digits))
    } else {
        format!("{} {MICROSECONDS}", number_of(microseconds, digits))
    }
}

/// Four significant digits, without an exponent and without thousands separators.
pub fn number(value: f64) -> String {
    number_of(value, DIGITS)
}

/// The same with this number of significant digits, at most four.
fn number_of(value: f64, digits: u8) -> String {
    let value = if digits < DIGITS {
        let text = format!("{value:.*e}", usize::from(digits.saturating_sub(1)));
        text.parse().unwrap_or(value)
    } else {
        value
    };
    let decimals: usize = match value.abs() {
        0.0 => 0,
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 5,
    };
    let decimals = decimals.saturating_sub(usize::from(DIGITS - digits.min(DIGITS)));
    let text = format!("{value:.decimals$}");
    if text.contains('.') && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_medians_with_their_extremes() {
        let spread = ValueSpread::of(vec![3.5, 1.0, 2.0, 10.0]).expect("values");
        assert_eq!(spread.cell("µs"), "2.750 [1 10]");
        assert_eq!(
            ValueSpread::of(vec![2.0, 2.0]).expect("values").cell(""),
            "2"
        );
        assert!(ValueSpread::of(vec![]).is_none());
    }

    #[test]
    fn long_times_are_in_milliseconds() {
        let spread = ValueSpread::of(vec![900.0, 1_500.0, 44_007.0]).expect("values");
        assert_eq!(spread.cell("µs"), "1.500 [0.90000 44.01] ms");
        assert_eq!(spread.cell("KB"), "1500 [900 44007]");
        assert_eq!(
            (time(999.0), time(1_600.4)),
            ("999 µs".into(), "1.600 ms".into())
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.034, "0.03400"),
            (29.18, "29.18"),
            (5.0, "5"),
            (30_000.4, "30000"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn fewer_digits_are_rounded_at_any_size() {
        for (value, text) in [
            (0.0344, "0.034"),
            (0.996, "1"),
            (1.64, "1.6"),
            (9.96, "10"),
            (16.4, "16"),
            (163.9, "160"),
            (16_390.0, "16000"),
        ] {
            assert_eq!(number_of(value, 2), text);
        }
    }
}
