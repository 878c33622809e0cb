//! Queries for figures over time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::params;
use serde::Deserialize;

use crate::{SeriesPoints, SeriesQuery, SeriesResolution, Store, StoreError, table};

/// A row's figures.
#[derive(Deserialize)]
#[serde(transparent)]
struct SeriesFigures<'a> {
    #[serde(borrow)]
    by_name: BTreeMap<Cow<'a, str>, f64>,
}

/// Sums of the intervals of one figure.
type Sums = Vec<(f64, u32)>;

impl Store {
    /// The figures between two moments. The number of points is that of the intervals between them.
    pub fn series(&self, query: &SeriesQuery<'_>) -> Result<SeriesPoints, StoreError> {
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        let mut from_ms = query.from_ms;
        if query.prefers_averages {
            let last = self.add_series(query, SeriesResolution::Averages, from_ms, &mut sums)?;
            from_ms = last.map_or(from_ms, |last| last + 1);
        }
        self.add_series(query, SeriesResolution::Samples, from_ms, &mut sums)?;
        let average = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let points = sums.into_iter().map(|(name, sums)| {
            let values = sums.into_iter().map(average).collect();
            (name, values)
        });
        Ok(points.collect())
    }

    /// Adds the samples of one resolution; returns the time of the last. Damaged rows are counted
    /// and skipped: a gap is better than no figures.
    fn add_series(
        &self,
        query: &SeriesQuery<'_>,
        resolution: SeriesResolution,
        from_ms: u64,
        sums: &mut BTreeMap<String, Sums>,
    ) -> Result<Option<u64>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM series WHERE resolution = ? AND at_ms >= ? AND at_ms < ? \
             ORDER BY at_ms",
            table::SERIES.selected
        ))?;
        let bound = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let values = params![resolution.to_row(), bound(from_ms), bound(query.to_ms)];
        let mut rows = statement.query(values)?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            if !table::SERIES.is_whole(row)? {
                self.count_damaged(&table::SERIES);
                continue;
            }
            let at_ms = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
            last = Some(at_ms);
            // Rows that no version of Gatepost wrote are skipped.
            let text = row.get_ref(3)?.as_str().unwrap_or_default();
            if let Ok(figures) = serde_json::from_str::<SeriesFigures<'_>>(text) {
                add(query, at_ms, figures, sums);
            }
        }
        Ok(last)
    }
}

const fn points_of(query: &SeriesQuery<'_>) -> u64 {
    let length_ms = query.to_ms.saturating_sub(query.from_ms);
    length_ms.div_ceil(if query.step_ms == 0 { 1 } else { query.step_ms })
}

/// Adds the figures of a row to those of its interval.
fn add(
    query: &SeriesQuery<'_>,
    at_ms: u64,
    figures: SeriesFigures<'_>,
    sums: &mut BTreeMap<String, Sums>,
) {
    let place = at_ms.saturating_sub(query.from_ms) / query.step_ms.max(1);
    for (name, value) in figures.by_name {
        if !query.names.is_empty() && !query.names.iter().any(|wanted| *wanted == name) {
            continue;
        }
        if !sums.contains_key(&*name) {
            let empty = vec![(0.0, 0); points_of(query) as usize];
            sums.insert(name.to_string(), empty);
        }
        let of_name = sums.get_mut(&*name);
        if let Some((sum, count)) = of_name.and_then(|sums| sums.get_mut(place as usize)) {
            *sum += value;
            *count += 1;
        }
    }
}
