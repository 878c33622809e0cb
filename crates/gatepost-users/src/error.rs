//! Errors of changes to users.

use gatepost_message::TopicError;
use gatepost_store::StoreError;

use crate::MalformedName;

/// The reason why a change was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UsersError {
    /// The name is malformed.
    #[error(transparent)]
    Name(#[from] MalformedName),
    /// The user already exists.
    #[error("there is a user '{0}' already")]
    Exists(String),
    /// The user does not exist.
    #[error("there is no user '{0}'")]
    NoUser(String),
    /// The rule does not exist.
    #[error("'{subject}' has no rule for '{filter}'")]
    NoRule {
        /// The subject of the rule.
        subject: String,
        /// The filter of the rule.
        filter: String,
    },
    /// The token does not exist.
    #[error("there is no token '{0}'")]
    NoToken(String),
    /// The filter is invalid.
    #[error("'{filter}' is not a topic filter: {cause}")]
    Filter {
        /// The filter as given.
        filter: String,
        /// The reason why it is invalid.
        cause: TopicError,
    },
    /// A password that is known to be weak.
    #[error(
        "a password has 1 to {} bytes and no control characters",
        crate::PASSWORD_BYTES_MAX
    )]
    Password,
    /// A password that is easy to guess.
    #[error(
        "the password is too weak: write at least {length_min} characters \
         (access.password_length_min), and not the user's name"
    )]
    WeakPassword {
        /// The minimum number of characters.
        length_min: usize,
    },
    /// The key of a JWT issuer cannot be used.
    #[error("{file}: {reason}")]
    Key {
        /// The configured file.
        file: String,
        /// The problem and a suggested fix.
        reason: String,
    },
    /// The hash of a password is of an unknown kind.
    #[error("the password hash of '{0}' is of an unknown kind")]
    Hash(String),
    /// Hashing failed: out of memory.
    #[error("the password could not be hashed")]
    Hashing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
