//! The row that stores the highest message id and the age time.
//!
//! It is written with a commit, at most about once a second: the stored id is a second ahead of the
//! highest, so that no committed row ever has a higher one. A clean stop stores the exact id.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatepost_message::MessageId;
use gatepost_settings::Period;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::{AgeTime, ClockDrift, ClockSource};
use crate::rows;

/// The lead of the stored id before the highest one, in time of arrival.
const LEAD: Duration = Duration::from_secs(1);
/// The interval of log lines that report a wrong clock.
const WARN_EVERY: Duration = Duration::from_hours(1);

const DAY: Duration = Duration::from_hours(24);
const HOUR_SECONDS: u64 = 3_600;

/// The age time, for all code that removes rows by age. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SharedAgeTime(Arc<Mutex<AgeTime>>);

impl SharedAgeTime {
    pub(crate) fn new(age: AgeTime) -> Self {
        Self(Arc::new(Mutex::new(age)))
    }

    pub(crate) fn now(&self) -> (SystemTime, ClockDrift) {
        self.0.lock().now()
    }

    /// See [`AgeTime::accept_clock`].
    pub(crate) fn accept_clock(&self) {
        self.0.lock().accept_clock();
    }

    /// The latest trusted time, or the clock's time if that is later.
    pub(crate) fn latest(&self) -> SystemTime {
        let mut age = self.0.lock();
        age.now();
        age.accepted().max(age.clock_time())
    }
}

/// Rows that would expire at once because the clock is ahead. They are kept until an administrator
/// accepts or corrects the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldExpiry {
    /// Rows of the history, the quarantine and the journal.
    pub rows: u64,
    /// The difference between the clock and the age time.
    pub ahead: Duration,
}

/// The rows that would be removed by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpiringRows {
    pub(crate) rows: u64,
    /// Whether these are too many to be removed merely because of a jump of the clock.
    pub(crate) is_mass: bool,
}

pub(crate) struct StoredClock {
    age: SharedAgeTime,
    /// The id in the row, as it was committed.
    stored: MessageId,
    /// The id of a row that was written and is not yet known to be committed.
    written: Option<MessageId>,
    warned: Option<Instant>,
}

impl StoredClock {
    /// Reads the row, and makes new ids continue after the highest of earlier runs.
    pub(crate) fn open(
        connection: &Connection,
        clock: Arc<dyn ClockSource>,
        jump_max: Duration,
    ) -> rusqlite::Result<Self> {
        let row: Option<(i64, Option<i64>)> = connection
            .query_row("SELECT highest_id, accepted_ms FROM clock", [], |row| {
                row.try_into()
            })
            .optional()?;
        let (highest, accepted_ms) = row.unwrap_or_default();
        let highest = MessageId::from_number(u64::try_from(highest).unwrap_or_default());
        if !MessageId::continue_after(highest) {
            tracing::warn!(
                target: "store",
                "the highest message id that was stored is not an id; ignored",
            );
        }
        let accepted = accepted_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
        Ok(Self {
            age: SharedAgeTime::new(AgeTime::new(clock, accepted, jump_max)),
            stored: highest,
            written: None,
            warned: None,
        })
    }

    /// The clock's time since some moment.
    pub(crate) fn elapsed(&self) -> Duration {
        self.age.0.lock().elapsed()
    }

    pub(crate) fn age_time(&self) -> SharedAgeTime {
        self.age.clone()
    }

    /// The age time, and the rows that wait for an administrator, if any. `expiring` finds the rows
    /// that would be removed if the clock were trusted; it is called only if the clock is ahead.
    /// Logs a warning if the clock is not trusted.
    pub(crate) fn time_for_ages(
        &mut self,
        expiring: impl FnOnce(SystemTime) -> rusqlite::Result<ExpiringRows>,
    ) -> rusqlite::Result<(SystemTime, Option<HeldExpiry>)> {
        let mut held = None;
        if let (_, ClockDrift::Ahead(ahead)) = self.age.now() {
            let clock_time = self.age.0.lock().clock_time();
            let expiring = expiring(clock_time)?;
            if self.age.0.lock().decide(expiring.is_mass) {
                let rows = expiring.rows;
                held = Some(HeldExpiry { rows, ahead });
            }
        }
        let (now, drift) = self.age.now();
        let is_recent = |warned: Instant| warned.elapsed() < WARN_EVERY;
        if drift == ClockDrift::None {
            self.warned = None;
        } else if !self.warned.is_some_and(is_recent) {
            self.warned = Some(Instant::now());
            warn(drift, held);
        }
        Ok((now, held))
    }

    /// Writes the row, unless its id is still higher than all ids so far. Until
    /// [`StoredClock::committed`] is called, the row counts as not written: a commit may fail.
    pub(crate) fn keep(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let highest = MessageId::highest();
        self.written = None;
        if highest <= self.stored {
            return Ok(());
        }
        self.write(connection, MessageId::floor_at(highest.time() + LEAD))
    }

    /// Writes the row with the highest id itself.
    pub(crate) fn keep_exactly(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.write(connection, MessageId::highest())
    }

    fn write(&mut self, connection: &Connection, id: MessageId) -> rusqlite::Result<()> {
        let accepted = self.age.0.lock().accepted();
        let accepted_ms = accepted.duration_since(UNIX_EPOCH).unwrap_or_default();
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO clock (number, highest_id, accepted_ms) VALUES (1, ?, ?)",
            )?
            .execute(params![
                rows::id_to_row(id),
                i64::try_from(accepted_ms.as_millis()).unwrap_or(i64::MAX)
            ])?;
        self.written = Some(id);
        Ok(())
    }

    /// Records that the commit with [`StoredClock::keep`]'s change has succeeded.
    pub(crate) fn committed(&mut self) {
        if let Some(id) = self.written.take() {
            self.stored = id;
        }
    }
}

fn warn(drift: ClockDrift, held: Option<HeldExpiry>) {
    // Rounded, for people.
    let seconds = |by: Duration| {
        let unit = if by >= DAY { HOUR_SECONDS } else { 1 };
        Period::seconds(by.as_secs() / unit * unit)
    };
    match (drift, held) {
        (ClockDrift::None, _) => {}
        (ClockDrift::Ahead(by), Some(HeldExpiry { rows, .. })) => tracing::warn!(
            target: "store", rows,
            "the clock is {} ahead of the last run: the server was off, or the clock is wrong. If \
             it is right, {rows} rows of history, quarantine and journal have expired; they are \
             kept until the clock is corrected or accepted (`gatepost clock accept`)",
            seconds(by)
        ),
        (ClockDrift::Ahead(by), None) => tracing::warn!(
            target: "store",
            "the clock is {} ahead of the last run: the server was off, or the clock is wrong. \
             Ages follow slowly; to trust the clock now: `gatepost clock accept`",
            seconds(by)
        ),
        (ClockDrift::Behind(by), _) => tracing::warn!(
            target: "store",
            "the clock is {} behind an earlier run; message ids continue from there",
            seconds(by)
        ),
    }
}
