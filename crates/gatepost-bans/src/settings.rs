//! The settings under `[bans]`.

use gatepost_settings::{PeerNetwork, Period};
use serde::{Deserialize, Serialize};

/// `[bans]` of the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BansSettings {
    /// Whether offences lead to bans. Bans by an operator hold in any case.
    pub enabled: bool,
    /// The weight of each kind of offence.
    pub points: OffencePoints,
    /// The points at which a network is banned.
    pub points_max: u32,
    /// The time in which that many points expire: `points_max` evenly spread offences of one point
    /// each are permitted in each such time.
    pub window: Period,
    /// The duration of the first ban; each further ban lasts twice as long as the previous one.
    pub time: Period,
    /// The longest ban. A network without an offence for this long after a ban starts again with
    /// `time`.
    pub time_max: Period,
    /// The number of leading bits of an IPv4 address that identify a client: 32 for each single
    /// address, 24 for a whole /24. IPv6 clients are identified by their /64.
    pub ipv4_bits: u8,
    /// Networks that are never banned and have no limit on the rate or number of connections.
    pub allowed: Vec<PeerNetwork>,
    /// Whether this machine is exempt in the same way.
    pub exempt_local: bool,
    /// The maximum number of networks with offences, and of networks with bans, that are kept.
    pub networks_max: usize,
    /// New connections per second from one network, at each listener; 0 for no limit.
    pub connects_per_second: u32,
    /// The number of additional connections that may arrive at once.
    pub connects_burst: u32,
}

/// `[bans.points]`: the weight of each offence; 0 ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OffencePoints {
    /// A failed login, in any protocol.
    pub login: u32,
    /// A recipient that does not exist.
    pub unknown_recipient: u32,
    /// A connection that is closed for violating its protocol.
    pub protocol_fault: u32,
    /// A mail that is found to be spam, received over SMTP without a login.
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
