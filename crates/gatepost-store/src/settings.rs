//! How much the database keeps.

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// `[store]` of the config.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// Changes waiting for the disk may take this much memory; beyond it new ones are refused
    /// with the protocol's "try again later".
    pub waiting_max: ByteSize,
    /// Messages in the history, over all topics; the oldest go first. With 0 none is kept, and an
    /// acknowledgement waits only for sessions that outlive their connection, for what is retained,
    /// for mailboxes and for the quarantine.
    pub history_messages_max: u64,
    /// Messages of the history older than this go.
    pub history_age_max: Period,
    /// Entries of the journal of verdicts; the oldest go first.
    pub journal_entries_max: u64,
    /// Entries of the journal older than this go.
    pub journal_age_max: Period,
    /// Whether the journal also has what no procedure judged and is no mail: each web request that
    /// publishes, each reading of a sensor.
    pub journal_unjudged: bool,
    /// Messages in quarantine older than this go.
    pub quarantine_age_max: Period,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            waiting_max: ByteSize::mebibytes(256),
            history_messages_max: 100_000,
            history_age_max: Period::seconds(7 * 86_400),
            journal_entries_max: 100_000,
            journal_age_max: Period::seconds(30 * 86_400),
            journal_unjudged: false,
            quarantine_age_max: Period::seconds(30 * 86_400),
        }
    }
}
