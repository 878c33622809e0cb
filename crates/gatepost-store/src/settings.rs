//! Limits on the contents of the database.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::TopicFilter;
use gatepost_settings::{ByteSize, Period};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::reserve::DiskReserve;
use crate::series::SeriesResolution;

/// The shortest interval of samples.
const SERIES_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The largest number of samples of one resolution, about 600 bytes each.
const SERIES_ROWS_MAX: u64 = 100_000;

/// The action of a start on a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDamage {
    /// Refuses to start, and changes nothing.
    #[default]
    Refuse,
    /// Keeps a copy of the damaged file, and continues with every row that can be read.
    Recover,
}

/// The settings of a running store, which a reload may change.
pub(crate) type SharedSettings = Arc<Mutex<StoreSettings>>;

/// The ages at which the publications of certain topics are removed from the history, if that is
/// earlier than [`StoreSettings::history_age_max`]. The first filter that matches a topic counts.
pub(crate) type SharedHistoryAges = Arc<Mutex<Vec<(TopicFilter, Option<Duration>)>>>;

/// `[store]` of the config.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// The action of a start on a damaged database.
    pub on_damage: OnDamage,
    /// New messages are refused while the file system has less space left: a share of it, at most 1
    /// GiB, or a size. `0B` refuses nothing before the disk is full.
    pub reserve: DiskReserve,
    /// The time by which the clock may be ahead of the last run, or jump, and be trusted
    /// immediately. Beyond it, rows grow old more slowly until the time has passed.
    pub clock_jump_max: Period,
    /// Rows of the history, the quarantine or the journal that may expire at once because the clock
    /// is suddenly ahead. If more rows expire, and they are also more than `clock_expiry_percent`
    /// of the table, they are kept until an administrator accepts the clock.
    pub clock_expiry_rows: u64,
    /// The same as a share of the table's rows.
    pub clock_expiry_percent: u8,
    /// Changes waiting for the disk may take this much memory; beyond it new ones are refused
    /// with the protocol's "try again later".
    pub waiting_max: ByteSize,
    /// Messages in the history, over all topics; the oldest are removed first. With 0 none is kept,
    /// and an acknowledgement waits only for persistent sessions, retained messages, mailboxes and
    /// the quarantine.
    pub history_messages_max: u64,
    /// Bytes of the history: topics, payloads and properties. The oldest messages are removed
    /// first.
    pub history_bytes_max: ByteSize,
    /// The age at which messages are removed from the history.
    pub history_age_max: Period,
    /// Entries of the journal of verdicts; the oldest are removed first.
    pub journal_entries_max: u64,
    /// The age at which entries are removed from the journal.
    pub journal_age_max: Period,
    /// Whether the journal also records messages that are not mail and that no procedure judged:
    /// each web request that publishes, each reading of a sensor.
    pub journal_unjudged: bool,
    /// Messages in quarantine; the oldest are removed first.
    pub quarantine_messages_max: u64,
    /// Bytes of the messages in quarantine; the oldest are removed first. The newest is always
    /// kept.
    pub quarantine_bytes_max: ByteSize,
    /// The age at which messages are removed from quarantine.
    pub quarantine_age_max: Period,
    /// The interval of the samples of the figures that the dashboard shows over time. 0 keeps no
    /// figures.
    pub series_interval: Period,
    /// The time for which these samples are kept: so many intervals, at most 100,000.
    pub series_age_max: Period,
    /// The interval of the averages of these samples, which are kept for longer.
    pub series_averages_interval: Period,
    /// The time for which the averages are kept: so many intervals, at most 100,000.
    pub series_averages_age_max: Period,
}

impl StoreSettings {
    /// Returns the number of samples of this resolution that are kept.
    pub fn series_rows_max(&self, resolution: SeriesResolution) -> u64 {
        let interval = self.series_interval_of(resolution).as_millis().max(1);
        let age = match resolution {
            SeriesResolution::Samples => self.series_age_max,
            SeriesResolution::Averages => self.series_averages_age_max,
        };
        let rows = age.duration().as_millis() / interval;
        u64::try_from(rows).unwrap_or(u64::MAX).min(SERIES_ROWS_MAX)
    }

    /// Returns the interval of this resolution, in whole samples.
    pub fn series_interval_of(&self, resolution: SeriesResolution) -> Duration {
        let samples = self.series_interval.duration().max(SERIES_INTERVAL_MIN);
        match resolution {
            SeriesResolution::Samples => samples,
            SeriesResolution::Averages => {
                let averages = self.series_averages_interval.duration().as_millis();
                let count = averages.div_ceil(samples.as_millis()).max(1);
                samples.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
            }
        }
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            on_damage: OnDamage::Refuse,
            reserve: DiskReserve::Percent(5),
            clock_jump_max: Period::seconds(86_400),
            clock_expiry_rows: 100,
            // A clock jump of a day, which is trusted, expires a seventh of a history of a week.
            clock_expiry_percent: 25,
            waiting_max: ByteSize::mebibytes(256),
            history_messages_max: 100_000,
            history_bytes_max: ByteSize::mebibytes(1024),
            history_age_max: Period::seconds(7 * 86_400),
            journal_entries_max: 100_000,
            journal_age_max: Period::seconds(30 * 86_400),
            journal_unjudged: false,
            quarantine_messages_max: 100_000,
            quarantine_bytes_max: ByteSize::mebibytes(4096),
            quarantine_age_max: Period::seconds(30 * 86_400),
            series_interval: Period::seconds(10),
            series_age_max: Period::seconds(86_400),
            series_averages_interval: Period::seconds(300),
            series_averages_age_max: Period::seconds(30 * 86_400),
        }
    }
}
