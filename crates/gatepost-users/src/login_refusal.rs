//! Reasons for refused logins.

use std::time::Duration;

/// The reason for a refused login. The text is for logs. A peer receives only the protocol's code,
/// which is the same for an unknown name and for a wrong password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// The peer offered no credentials, and the listener requires a login.
    #[error("this listener requires a login")]
    Anonymous,
    /// Unknown user, wrong password, unknown or expired token: deliberately not distinguished.
    #[error("wrong user, password or token")]
    Credentials,
    /// Valid credentials of a disabled user.
    #[error("the user is switched off")]
    Disabled,
    /// Valid credentials of a user that an operator has banned.
    #[error("the user is banned")]
    Banned {
        /// After this time it may log in again.
        retry_after: Duration,
    },
    /// Too many failures from this address or for this user.
    #[error("too many failed logins; try again in {} s", .retry_after.as_secs().max(1))]
    TooMany {
        /// The time after which another attempt is accepted.
        retry_after: Duration,
    },
    /// The queue of password checks is full, or the sessions of an earlier user of the name are
    /// being removed.
    #[error("too many logins at once")]
    Busy,
    /// The peer violated the mechanism's syntax (SCRAM, Basic).
    #[error("malformed login: {0}")]
    Malformed(&'static str),
}
