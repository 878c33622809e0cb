//! Access control: users, their credentials, and rules by topic filter.
//!
//! A listener passes [`Credentials`] and their [`LoginOrigin`] to [`Users::authenticate`] and
//! receives an [`Identity`] or a [`LoginRefusal`]; from then on it calls [`Identity::may`] before
//! each publish and each subscription. Everything is kept in the store and held in memory as one
//! snapshot that is replaced as a whole, so a change by `gatepost user …` or by the admin API
//! reaches open connections without disturbing those that it does not concern.
//!
//! Invariants:
//! - A secret is never stored in clear text, never logged and never shown by `Debug`.
//! - An unauthenticated client cannot distinguish a wrong name from a wrong password, neither by
//!   the reply nor by its timing.
//! - Slow hashing never runs on a thread that serves connections, and its queue is bounded.
//! - [`Identity::may`] takes no lock and does not allocate.

mod access;
mod access_generation;
mod credentials;
mod decision_cache;
mod decoy_hashes;
mod error;
mod failure_limits;
mod foreign_hash;
mod identity;
mod jwt;
mod kept_login;
mod listener_auth;
mod live_snapshot;
mod local_accounts;
mod login_basis;
mod login_refusal;
mod login_sessions;
mod mount;
mod names;
mod password;
mod password_checker;
mod pattern;
mod peer_account;
mod peer_origin;
mod random;
mod record;
mod refusal_counters;
mod rules;
mod scram;
mod secret;
mod settings;
mod snapshot;
mod token;
mod users;

pub use access::{Access, AccessDecision, AccessSet, Effect, UnknownAccess};
pub use access_generation::AccessGeneration;
pub use credentials::{AnonymousAccess, Credentials, LoginOrigin};
pub use error::UsersError;
pub use foreign_hash::is_known as is_foreign_hash;
pub use identity::Identity;
pub use listener_auth::ListenerAuth;
pub use login_refusal::LoginRefusal;
pub use mount::mount_mistake;
pub use names::{ANONYMOUS, EVERYONE, MalformedName, USER_NAME_BYTES_MAX, check_user_name};
pub use peer_account::{PeerAccount, accounts_are_known};
pub use record::{SHARED_ACCESS, SHARED_PEPPER};
pub use refusal_counters::Refusals;
pub use secret::Secret;
pub use settings::{
    AccessSettings, DefaultPolicy, JwtAlgorithm, JwtSettings, LoginSessionSettings,
};
pub use users::{
    AccessRuleSummary, RemovedUsers, ScramLogin, ScramStep, TokenSummary, UserSummary, Users,
};

/// Longer passwords are refused before they are hashed.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
