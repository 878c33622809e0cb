//! The settings under `[bans]`.

use gatepost_settings::{PeerNetwork, Period};
use serde::{Deserialize, Serialize};

/// `[bans]` of the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BansSettings {
    /// Whether offences lead to bans. Bans by an operator hold in any case.
    pub enabled: bool,
    /// How much each kind of offence weighs.
    pub points: OffencePoints,
    /// The points at which a network is banned.
    pub points_max: u32,
    /// The time in which that many points are forgotten: `points_max` offences of one point each
    /// are free in each such time, if they come evenly.
    pub window: Period,
    /// How long the first ban lasts; each further one lasts twice as long as the one before.
    pub time: Period,
    /// The longest ban. A network that stays out of trouble for so long after a ban starts again
    /// with `time`.
    pub time_max: Period,
    /// How many leading bits of an IPv4 address make a client: 32 for each address, 24 for its
    /// neighbours too. IPv6 clients are counted by their /64.
    pub ipv4_bits: u8,
    /// Networks that are never banned, and that may connect as fast and as often as they like.
    pub allowed: Vec<PeerNetwork>,
    /// Whether the same holds for this machine.
    pub exempt_local: bool,
    /// How many networks are remembered with offences, and how many with bans.
    pub networks_max: usize,
    /// New connections of one network in a second, at each listener; 0 for any number.
    pub connects_per_second: u32,
    /// How many more may come at once.
    pub connects_burst: u32,
}

/// `[bans.points]`: what an offence weighs; 0 does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OffencePoints {
    /// A failed login, in any protocol.
    pub login: u32,
    /// A recipient that does not exist.
    pub unknown_recipient: u32,
    /// A connection that is ended for violations of its protocol.
    pub protocol_fault: u32,
    /// A mail that is found to be spam, over SMTP and without a login.
    pub spam: u32,
}

impl Default for BansSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            points: OffencePoints::default(),
            points_max: 60,
            window: Period::seconds(600),
            time: Period::seconds(300),
            time_max: Period::seconds(86_400),
            ipv4_bits: 32,
            allowed: Vec::new(),
            exempt_local: true,
            networks_max: 65_536,
            connects_per_second: 100,
            connects_burst: 1_000,
        }
    }
}

impl Default for OffencePoints {
    fn default() -> Self {
        Self {
            login: 3,
            unknown_recipient: 2,
            protocol_fault: 2,
            spam: 1,
        }
    }
}
