//! Figures over time: samples of many named figures, in two resolutions.
//!
//! A sample is one row, with its figures as a JSON object. The number of rows of a resolution is
//! limited: each new one removes the oldest beyond the limit, by the order of writing. So the table
//! does not grow whatever the clock does: a clock that jumps leaves samples under wrong times, but
//! removes none of the others.
//!
//! A query returns a fixed number of points: samples whose times fall into the same interval are
//! averaged, and an interval without a sample has no value.

mod writing;

use std::collections::BTreeMap;

pub(crate) use writing::append;

/// The two kinds of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesResolution {
    /// Short intervals, kept for a short time.
    Samples,
    /// Averages over many of these, kept for longer.
    Averages,
}

impl SeriesResolution {
    pub(crate) const fn to_row(self) -> i64 {
        match self {
            Self::Samples => 0,
            Self::Averages => 1,
        }
    }
}

/// The figures of one interval.
#[derive(Debug, Clone)]
pub struct SeriesSample {
    /// The kind of row.
    pub resolution: SeriesResolution,
    /// The end of the interval, in Unix milliseconds.
    pub at_ms: u64,
    /// The figures by name; others than numbers (NaN, infinity) are left out.
    pub figures: Vec<(String, f64)>,
    /// The number of rows of this resolution that are kept.
    pub rows_max: u64,
}

impl SeriesSample {
    /// Roughly the memory of the figures, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let bytes = |(name, value): &(String, f64)| name.len() + size_of_val(value);
        self.figures.iter().map(bytes).sum()
    }

    fn to_text(&self) -> String {
        let finite = self.figures.iter().filter(|(_, value)| value.is_finite());
        let object: serde_json::Map<_, _> = finite
            .map(|(name, value)| (name.clone(), number(*value)))
            .collect();
        serde_json::Value::Object(object).to_string()
    }
}

/// A figure with three decimals, without those that are zero.
fn number(value: f64) -> serde_json::Value {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    if rounded.fract() == 0.0 && rounded.abs() < i64::MAX as f64 {
        return (rounded as i64).into();
    }
    rounded.into()
}

/// A question for figures over time.
#[derive(Debug, Clone, Copy)]
pub struct SeriesQuery<'a> {
    /// The first moment, in Unix milliseconds.
    pub from_ms: u64,
    /// The moment after the last, in Unix milliseconds.
    pub to_ms: u64,
    /// The length of the interval of a point, in milliseconds. The caller bounds the number of
    /// points.
    pub step_ms: u64,
    /// Whether averages suffice; samples are used only where there is no average yet.
    pub prefers_averages: bool,
    /// The names of the wanted figures; all if empty.
    pub names: &'a [String],
}

/// The figures over time, by name: for each interval the average, or `None` without a sample.
pub type SeriesPoints = BTreeMap<String, Vec<Option<f64>>>;
