//! Removal of rows beyond the limits of age and number, and return of their space.

use std::time::{Duration, SystemTime};

use gatepost_message::{MessageId, TopicFilter};
use rusqlite::Connection;

use crate::bounds::{self, KeptTotals, TableTotals};
use crate::settings::{SharedHistoryAges, SharedSettings};
use crate::stored_clock::ExpiringRows;
use crate::{StoreSettings, rows};

/// The interval of the passes that remove expired rows, each in steps of a bounded number of rows.
const TRIM_EVERY: Duration = Duration::from_mins(1);
/// Free pages that are kept in the file, for new rows.
const FREE_PAGES_KEPT: i64 = 1_024;
/// Pages returned to the file system in one pass, so that commits do not wait for long.
const PAGES_RETURNED_MAX: i64 = 4_096;

/// A step of a pass that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrimStep {
    /// The first of a pass, which decides whether the clock is trusted.
    First,
    /// A later one.
    Next,
}

pub(crate) struct Trimmer {
    settings: SharedSettings,
    history_ages: SharedHistoryAges,
    /// The clock's elapsed time at the last pass.
    trimmed: Duration,
    /// The last step has not removed all rows of its pass.
    has_more: bool,
}

impl Trimmer {
    pub(crate) fn new(settings: SharedSettings) -> Self {
        Self {
            settings,
            history_ages: SharedHistoryAges::default(),
            trimmed: Duration::ZERO,
            has_more: false,
        }
    }

    pub(crate) fn settings(&self) -> StoreSettings {
        self.settings.lock().clone()
    }

    /// The ages of single topics, for a store's handle.
    pub(crate) fn history_ages(&self) -> SharedHistoryAges {
        self.history_ages.clone()
    }

    /// The step that is due, if any: of a new pass, or of the one under way. `elapsed` is the
    /// clock's.
    pub(crate) fn due_step(&mut self, elapsed: Duration) -> Option<TrimStep> {
        if elapsed.saturating_sub(self.trimmed) >= TRIM_EVERY {
            self.trimmed = elapsed;
            return Some(TrimStep::First);
        }
        self.has_more.then_some(TrimStep::Next)
    }

    /// Whether a pass is under way.
    pub(crate) const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Records whether a step has left rows to remove.
    pub(crate) const fn note_step(&mut self, has_more: bool) {
        self.has_more = has_more;
    }

    /// The rows that a pass at `now` would remove by age.
    pub(crate) fn expiring(
        &self,
        connection: &Connection,
        now: SystemTime,
    ) -> rusqlite::Result<ExpiringRows> {
        let settings = self.settings();
        let mut expiring = ExpiringRows {
            rows: 0,
            is_mass: false,
        };
        for (table, age) in [
            ("history", settings.history_age_max),
            ("quarantine", settings.quarantine_age_max),
            ("journal", settings.journal_age_max),
        ] {
            let count = |condition: &str, first: i64| -> rusqlite::Result<u64> {
                let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
                connection
                    .prepare_cached(&sql)?
                    .query_row([first], |row| row.get(0))
            };
            let old = count("id < ?", oldest_kept_by(now, age.duration()))?;
            let all = old + count("id >= ?", oldest_kept_by(now, age.duration()))?;
            expiring.rows += old;
            let share_max = u128::from(all) * u128::from(settings.clock_expiry_percent) / 100;
            expiring.is_mass |= old > settings.clock_expiry_rows && u128::from(old) > share_max;
        }
        Ok(expiring)
    }

    /// Removes some of the rows that are too old; returns whether there may be more. `now` is the
    /// age time, not the clock's; removed rows leave the sums in `kept`.
    pub(crate) fn trim(
        &self,
        connection: &Connection,
        now: SystemTime,
        kept: &mut KeptTotals,
    ) -> rusqlite::Result<bool> {
        let settings = self.settings();
        let mut has_more = false;
        for (table, age, kept) in [
            (
                &bounds::HISTORY,
                settings.history_age_max,
                &mut kept.history,
            ),
            (
                &bounds::QUARANTINE,
                settings.quarantine_age_max,
                &mut kept.quarantine,
            ),
            (
                &bounds::JOURNAL,
                settings.journal_age_max,
                &mut kept.journal,
            ),
        ] {
            let oldest = oldest_kept_by(now, age.duration());
            has_more |= table.delete_step(connection, "id < ?", &[&oldest], kept)?;
        }
        has_more |= self.trim_topics(connection, now, &mut kept.history)?;
        Ok(has_more)
    }

    /// Removes from the history what is older than its topic's own age, in the same way. Reads the
    /// topics of all rows that are older than the shortest of these ages.
    fn trim_topics(
        &self,
        connection: &Connection,
        now: SystemTime,
        kept: &mut TableTotals,
    ) -> rusqlite::Result<bool> {
        let ages = self.history_ages.lock().clone();
        let Some(shortest) = ages.iter().filter_map(|(_, age)| *age).min() else {
            return Ok(false);
        };
        let mut topics =
            connection.prepare_cached("SELECT DISTINCT topic FROM history WHERE id < ?")?;
        let topics = topics.query_map([oldest_kept_by(now, shortest)], |row| row.get(0))?;
        for topic in topics.collect::<rusqlite::Result<Vec<String>>>()? {
            let is_of_topic = |(filter, _): &&(TopicFilter, _)| filter.matches(&topic);
            let Some((_, Some(age))) = ages.iter().find(is_of_topic) else {
                continue;
            };
            let oldest = oldest_kept_by(now, *age);
            let condition = "id < ? AND topic = ?";
            if bounds::HISTORY.delete_step(connection, condition, &[&oldest, &topic], kept)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The first id at `now` that is not older than `age`.
fn oldest_kept_by(now: SystemTime, age: Duration) -> i64 {
    let time = now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    rows::id_to_row(MessageId::floor_at(time))
}

/// Shortens the file by its unused pages.
pub(crate) fn return_free_pages(connection: &Connection) -> rusqlite::Result<()> {
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    let returned = (free - FREE_PAGES_KEPT).min(PAGES_RETURNED_MAX);
    if returned <= 0 {
        return Ok(());
    }
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({returned})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_step_of_a_pass_decides_about_the_clock() {
        let mut trimmer = Trimmer::new(SharedSettings::default());
        assert_eq!(trimmer.due_step(Duration::ZERO), None);
        assert_eq!(trimmer.due_step(TRIM_EVERY), Some(TrimStep::First));
        assert_eq!(trimmer.due_step(TRIM_EVERY), None);
        trimmer.note_step(true);
        assert_eq!(trimmer.due_step(TRIM_EVERY), Some(TrimStep::Next));
        assert_eq!(trimmer.due_step(TRIM_EVERY * 2), Some(TrimStep::First));
        assert_eq!(trimmer.due_step(TRIM_EVERY * 2), Some(TrimStep::Next));
    }
}
