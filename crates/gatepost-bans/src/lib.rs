//! Bans: the addresses that are refused, and for how long.
//!
//! Listeners and users report the [`Offence`]s of a peer: failed logins, unknown recipients,
//! violations of a protocol, spam. The offences of a client network add up over all protocols; a
//! network with too many of them within a time is banned for a while, longer each time. An operator
//! can ban and pardon networks too, and users ([`UserBans`]). Bans are kept in the store.
//!
//! ```
//! use gatepost_bans::{Bans, BansSettings, Offence};
//! use gatepost_message::Peer;
//!
//! let bans = Bans::new(&BansSettings {
//!     points_max: 6,
//!     ..BansSettings::default()
//! });
//! let guesser = Peer::Address("192.0.2.1:4711".parse()?);
//!
//! // Each failed login weighs three points.
//! bans.note(guesser, Offence::Login);
//! assert!(!bans.refuses(guesser));
//! bans.note(guesser, Offence::Login);
//! assert!(bans.refuses(guesser));
//! assert!(!bans.refuses(Peer::Address("192.0.2.2:4711".parse()?)));
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
//!
//! Invariants:
//! - Only the address of a peer that completed a TCP handshake counts, or the client that a trusted
//!   proxy named, so an attacker cannot have another address banned by spoofing it.
//! - This machine and the allowed networks are never banned, unless a setting permits it for this
//!   machine.
//! - Both tables, of scores and of bans, are bounded.
//! - While nothing is banned, [`Bans::refuses`] costs one load of an atomic.

mod bans;
mod error;
mod offence;
mod record;
mod scores;
mod settings;
mod summary;
mod table;
mod user_bans;

pub use bans::{BanTotals, Bans};
pub use error::BanError;
pub use offence::Offence;
pub use settings::{BansSettings, OffencePoints};
pub use summary::{BanSummary, USER_PREFIX};
pub use user_bans::UserBans;
