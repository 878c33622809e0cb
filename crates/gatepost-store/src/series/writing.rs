//! Writing of samples, within the commit of a group.

use rusqlite::{OptionalExtension, params};

use super::SeriesSample;
use crate::statements::Statements;
use crate::{StoreError, table};

/// Writes a sample, and removes the oldest beyond the limit.
pub(crate) fn append(
    statements: &mut Statements<'_>,
    sample: &SeriesSample,
) -> Result<(), StoreError> {
    let resolution = sample.resolution.to_row();
    let last: Option<i64> = statements
        .prepare("SELECT number FROM series WHERE resolution = ? ORDER BY number DESC LIMIT 1")?
        .query_row([resolution], |row| row.get(0))
        .optional()?;
    let number = last.map_or(0, |last| last.saturating_add(1));
    let at_ms = i64::try_from(sample.at_ms).unwrap_or(i64::MAX);
    let text = sample.to_text();
    table::SERIES.set(statements, params![resolution, number, at_ms, text])?;
    let rows_max = i64::try_from(sample.rows_max).unwrap_or(i64::MAX);
    statements.execute(
        "DELETE FROM series WHERE resolution = ? AND number <= ?",
        params![resolution, number.saturating_sub(rows_max)],
    )
}
