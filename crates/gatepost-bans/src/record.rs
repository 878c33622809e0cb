//! Storage of bans: spaces `ban` and `user_ban`, the network or the user's name as key, and a value
//! in JSON.

use std::time::{Duration, Instant};

use gatepost_settings::PeerNetwork;
use gatepost_store::{Store, StoreChange, StoreError, Ticket};
use serde::{Deserialize, Serialize};

use crate::error::BanError;
use crate::table::{Ban, BanEnd};

const SPACE: &str = "ban";
const USER_SPACE: &str = "user_ban";

#[derive(Debug, Serialize, Deserialize)]
struct BanRecord {
    /// Unix seconds.
    since: u64,
    /// Unix seconds; absent if the ban holds until it is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<u64>,
    times: u32,
    reason: String,
    #[serde(default)]
    by_operator: bool,
}

impl BanRecord {
    fn into_ban(self, ends: Option<BanEnd>) -> Ban {
        Ban {
            ends,
            since: self.since,
            times: self.times,
            reason: self.reason.into(),
            by_operator: self.by_operator,
        }
    }
}

/// The present moment on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReadings {
    pub(crate) instant: Instant,
    /// Unix seconds.
    pub(crate) unix: u64,
}

impl ClockReadings {
    pub(crate) fn read() -> Self {
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            instant: Instant::now(),
            unix: unix.unwrap_or_default().as_secs(),
        }
    }

    /// A ban by an operator from now on; without a time it holds until it is lifted.
    pub(crate) fn operators_ban(self, time: Option<Duration>, reason: &str) -> Ban {
        Ban {
            ends: time.and_then(|time| self.end_in(time)),
            since: self.unix,
            times: 1,
            reason: reason.into(),
            by_operator: true,
        }
    }

    /// The end of a ban of this duration; `None` beyond the range of the clock.
    pub(crate) fn end_in(self, time: Duration) -> Option<BanEnd> {
        Some(BanEnd {
            instant: self.instant.checked_add(time)?,
            unix: self.unix.checked_add(time.as_secs())?,
        })
    }

    /// The end of a ban at this Unix time, which may have passed.
    fn end_at(self, unix: u64) -> Option<BanEnd> {
        let left = Duration::from_secs(unix.saturating_sub(self.unix));
        let passed = Duration::from_secs(self.unix.saturating_sub(unix));
        // If the machine has been running for a shorter time than that, the ban ended just now.
        let past = self.instant.checked_sub(passed).unwrap_or(self.instant);
        let instant = past.checked_add(left)?;
        Some(BanEnd { instant, unix })
    }
}

pub(crate) fn put(network: PeerNetwork, ban: &Ban) -> StoreChange {
    put_in(SPACE, network.to_string(), ban)
}

/// The same for a user.
pub(crate) fn put_user(name: &str, ban: &Ban) -> StoreChange {
    put_in(USER_SPACE, name.to_owned(), ban)
}

fn put_in(space: &'static str, key: String, ban: &Ban) -> StoreChange {
    let record = BanRecord {
        since: ban.since,
        ends: ban.ends.map(|end| end.unix),
        times: ban.times,
        reason: ban.reason.to_string(),
        by_operator: ban.by_operator,
    };
    StoreChange::PutRecord {
        space,
        key: key.into(),
        // Texts and numbers always serialise.
        value: serde_json::to_vec(&record).unwrap_or_default().into(),
    }
}

pub(crate) fn delete(network: PeerNetwork) -> StoreChange {
    StoreChange::DeleteRecord {
        space: SPACE,
        key: network.to_string().into(),
    }
}

/// The same for a user.
pub(crate) fn delete_user(name: &str) -> StoreChange {
    StoreChange::DeleteRecord {
        space: USER_SPACE,
        key: name.to_owned().into(),
    }
}

/// The bans of users of an earlier run.
pub(crate) fn load_users(
    store: &Store,
    now: ClockReadings,
) -> Result<Vec<(Box<str>, Ban)>, StoreError> {
    let records = store.records(USER_SPACE, b"")?;
    let read = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        let name: Box<str> = std::str::from_utf8(&key).ok()?.into();
        let record: BanRecord = serde_json::from_slice(&value).ok()?;
        let ends = record.ends.and_then(|unix| now.end_at(unix));
        Some((name, record.into_ban(ends)))
    };
    Ok(records.into_iter().filter_map(read).collect())
}

/// The bans of an earlier run. A record that this version cannot read is skipped. `time_max` bounds
/// the bans that were not imposed by an operator: a clock that was wrong must not lengthen them.
pub(crate) fn load(
    store: &Store,
    now: ClockReadings,
    time_max: Duration,
) -> Result<Vec<(PeerNetwork, Ban)>, StoreError> {
    let records = store.records(SPACE, b"")?;
    let read = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        let network: PeerNetwork = std::str::from_utf8(&key).ok()?.parse().ok()?;
        let record: BanRecord = serde_json::from_slice(&value).ok()?;
        let mut ends = record.ends.and_then(|unix| now.end_at(unix));
        let latest = now.end_in(time_max).filter(|_| !record.by_operator);
        if let Some(latest) = latest
            && ends.is_none_or(|end| end.instant > latest.instant)
        {
            ends = Some(latest);
        }
        Some((network, record.into_ban(ends)))
    };
    Ok(records.into_iter().filter_map(read).collect())
}

/// Changes that were submitted to the store, if there is one.
pub(crate) type Submitted = Option<Result<Ticket, StoreError>>;

/// Submits changes of a table of bans. To be called while the table is locked, so that the store
/// has them in the same order.
pub(crate) fn submit(store: Option<&Store>, changes: Vec<StoreChange>) -> Submitted {
    let store = store.filter(|_| !changes.is_empty())?;
    Some(store.submit(changes))
}

/// Waits until the changes are durable.
pub(crate) async fn settled(submitted: Submitted) -> Result<(), BanError> {
    if let Some(ticket) = submitted {
        ticket?.committed().await?;
    }
    Ok(())
}
