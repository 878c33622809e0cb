//! The reasons why a ban was not changed.

use gatepost_settings::PeerNetwork;
use gatepost_store::StoreError;

/// The reason why a ban was not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BanError {
    /// The network is exempt by the settings.
    #[error("{0} holds addresses that are never banned: this machine's, or those of bans.allowed")]
    Exempt(PeerNetwork),
    /// A Unix socket's peers have no address.
    #[error("write an address or a network, such as 192.0.2.1 or 192.0.2.0/24")]
    NoAddress,
    /// The network is larger than any attacker's.
    #[error("{0} is too large: at most a /8 of IPv4, or a /16 of IPv6, can be banned")]
    TooLarge(PeerNetwork),
    /// The table is full of bans by operators.
    #[error("there are as many bans as bans.networks_max allows; lift one or raise the setting")]
    Full,
    /// The network is not banned.
    #[error("{0} is not banned")]
    NotBanned(PeerNetwork),
    /// The user is not banned.
    #[error("the user {0} is not banned")]
    UserNotBanned(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
