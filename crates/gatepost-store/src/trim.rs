//! Removal of rows beyond the limits of age and number, and return of their space.

use std::time::{Duration, SystemTime};

use gatepost_message::{MessageId, TopicFilter};
use rusqlite::{Connection, OptionalExtension};

use crate::bounds::{self, KeptBytes};
use crate::settings::{SharedHistoryAges, SharedSettings};
use crate::stored_clock::ExpiringRows;
use crate::{StoreSettings, rows};

/// The interval at which expired rows are removed. Each pass deletes by index, once for each table.
const TRIM_EVERY: Duration = Duration::from_mins(1);
/// Free pages that are kept in the file, for new rows.
const FREE_PAGES_KEPT: i64 = 1_024;
/// Pages returned to the file system in one pass, so that commits do not wait for long.
const PAGES_RETURNED_MAX: i64 = 4_096;

pub(crate) struct Trimmer {
    settings: SharedSettings,
    history_ages: SharedHistoryAges,
    /// The clock's elapsed time at the last pass.
    trimmed: Duration,
}

impl Trimmer {
    pub(crate) fn new(settings: SharedSettings) -> Self {
        Self {
            settings,
            history_ages: SharedHistoryAges::default(),
            trimmed: Duration::ZERO,
        }
    }

    pub(crate) fn settings(&self) -> StoreSettings {
        self.settings.lock().clone()
    }

    /// The ages of single topics, for a store's handle.
    pub(crate) fn history_ages(&self) -> SharedHistoryAges {
        self.history_ages.clone()
    }

    /// Whether a pass is due; `elapsed` is the clock's.
    pub(crate) fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed.saturating_sub(self.trimmed) >= TRIM_EVERY;
        if is_due {
            self.trimmed = elapsed;
        }
        is_due
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

    /// `now` is the age time, not the clock's; the bytes of removed rows leave the sums in `kept`.
    pub(crate) fn trim(
        &self,
        connection: &Connection,
        now: SystemTime,
        kept: &mut KeptBytes,
    ) -> rusqlite::Result<()> {
        let settings = self.settings();
        let before = |age: Duration| oldest_kept_by(now, age);
        let oldest_kept = |table: &str, count: u64| -> rusqlite::Result<Option<i64>> {
            connection
                .prepare_cached(&format!(
                    "SELECT id FROM {table} ORDER BY id DESC LIMIT 1 OFFSET ?"
                ))?
                .query_row([i64::try_from(count).unwrap_or(i64::MAX)], |row| row.get(0))
                .optional()
        };
        for (table, age, count, bytes) in [
            (
                &bounds::HISTORY,
                settings.history_age_max,
                settings.history_messages_max,
                &mut kept.history,
            ),
            (
                &bounds::QUARANTINE,
                settings.quarantine_age_max,
                settings.quarantine_messages_max,
                &mut kept.quarantine,
            ),
        ] {
            let mut removed = table.delete(connection, "id < ?", [before(age.duration())])?;
            if let Some(last) = oldest_kept(table.table, count)? {
                removed += table.delete(connection, "id <= ?", [last])?;
            }
            *bytes = bytes.saturating_sub(removed);
        }
        self.trim_topics(connection, now, kept)?;
        connection
            .prepare_cached("DELETE FROM journal WHERE id < ?")?
            .execute([before(settings.journal_age_max.duration())])?;
        if let Some(last) = oldest_kept("journal", settings.journal_entries_max)? {
            connection
                .prepare_cached("DELETE FROM journal WHERE id <= ?")?
                .execute([last])?;
        }
        Ok(())
    }
}

impl Trimmer {
    /// Removes from the history what is older than its topic's own age. Reads the topics of all
    /// rows that are older than the shortest of these ages.
    fn trim_topics(
        &self,
        connection: &Connection,
        now: SystemTime,
        kept: &mut KeptBytes,
    ) -> rusqlite::Result<()> {
        let ages = self.history_ages.lock().clone();
        let Some(shortest) = ages.iter().filter_map(|(_, age)| *age).min() else {
            return Ok(());
        };
        let mut topics =
            connection.prepare_cached("SELECT DISTINCT topic FROM history WHERE id < ?")?;
        let topics = topics.query_map([oldest_kept_by(now, shortest)], |row| row.get(0))?;
        for topic in topics.collect::<rusqlite::Result<Vec<String>>>()? {
            let is_of_topic = |(filter, _): &&(TopicFilter, _)| filter.matches(&topic);
            let Some((_, Some(age))) = ages.iter().find(is_of_topic) else {
                continue;
            };
            let removed = bounds::HISTORY.delete(
                connection,
                "id < ?1 AND topic = ?2",
                rusqlite::params![oldest_kept_by(now, *age), topic],
            )?;
            kept.history = kept.history.saturating_sub(removed);
        }
        Ok(())
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
