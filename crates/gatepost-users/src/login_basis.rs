//! The conditions under which logins are valid.

use crate::credentials::AnonymousAccess;
use crate::rules::Rule;
use crate::token::TokenHash;

/// The condition under which a login is valid. The identity is revoked once it no longer holds.
pub(crate) enum LoginBasis {
    /// No login: valid while the listener grants anonymous access.
    Anonymous(AnonymousAccess, bool),
    /// A password or a certificate: valid while the user exists with this epoch.
    User(u64),
    /// A token of this gateway: valid while it exists. Changing its user's password does not revoke
    /// it.
    Token(TokenHash),
    /// A JWT of a trusted issuer: valid until it expires and, if it has no claims that grant
    /// topics, while its user has a record.
    Issuer {
        scope: Option<Vec<Rule>>,
        /// Unix seconds.
        expires: u64,
    },
    /// Not a login: the owner of data that an earlier process of the server stored. The flag states
    /// whether a name without a record may belong to a user of a trusted issuer.
    Owner(bool),
}
