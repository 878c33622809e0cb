//! Errors of changes to users.

use gatepost_message::TopicError;
use gatepost_store::StoreError;

use crate::MalformedName;

/// Why a change was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UsersError {
    /// The name is malformed.
    #[error(transparent)]
    Name(#[from] MalformedName),
    /// There is such a user already.
    #[error("there is a user '{0}' already")]
    Exists(String),
    /// There is no such user.
    #[error("there is no user '{0}'")]
    NoUser(String),
    /// There is no such rule.
    #[error("'{subject}' has no rule for '{filter}'")]
    NoRule {
        /// Whose.
        subject: String,
        /// Of which filter.
        filter: String,
    },
    /// There is no such token.
    #[error("there is no token '{0}'")]
    NoToken(String),
    /// The filter is none.
    #[error("'{filter}' is not a topic filter: {cause}")]
    Filter {
        /// As given.
        filter: String,
        /// Why not.
        cause: TopicError,
    },
    /// A password that is known to be weak.
    #[error(
        "a password has 1 to {} bytes and no control characters",
        crate::PASSWORD_BYTES_MAX
    )]
    Password,
    /// A password that is easily guessed.
    #[error(
        "the password is too weak: write at least {length_min} characters \
         (access.password_length_min), and not the user's name"
    )]
    WeakPassword {
        /// The fewest characters.
        length_min: usize,
    },
    /// The key of a JWT issuer cannot be used.
    #[error("{file}: {reason}")]
    Key {
        /// The configured file.
        file: String,
        /// The fault and its remedy.
        reason: String,
    },
    /// Hashing failed: out of memory.
    #[error("the password could not be hashed")]
    Hashing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
