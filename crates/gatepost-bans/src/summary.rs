//! Bans as they are listed.

use serde::Serialize;

use crate::table::Ban;

/// The prefix of a banned user's name in lists.
pub const USER_PREFIX: &str = "user:";

/// One ban in force, for lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BanSummary {
    /// The address or network, or [`USER_PREFIX`] and a user's name.
    pub network: String,
    /// The beginning, in Unix seconds.
    pub since: u64,
    /// The end, in Unix seconds; `None` when it is lifted.
    pub ends: Option<u64>,
    /// The number of bans of this network in a row, with this one.
    pub times: u32,
    /// The offences, or the operator's words.
    pub reason: String,
    /// Whether an operator imposed it.
    pub by_operator: bool,
}

impl BanSummary {
    pub(crate) fn new(banned: String, ban: &Ban) -> Self {
        Self {
            network: banned,
            since: ban.since,
            ends: ban.ends.map(|end| end.unix),
            times: ban.times,
            reason: ban.reason.to_string(),
            by_operator: ban.by_operator,
        }
    }

    pub(crate) fn of_user(name: &str, ban: &Ban) -> Self {
        Self::new(format!("{USER_PREFIX}{name}"), ban)
    }
}
