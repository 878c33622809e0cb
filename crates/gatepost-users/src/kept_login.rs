//! The login by which a user left something that acts later, without a connection: a subscription
//! to notifications. It is stored with that, which so ends when the login does: with the user, with
//! a revoked token, or when a JWT expires.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::login_basis::LoginBasis;
use crate::record::ScopeRecord;
use crate::snapshot::Snapshot;
use crate::token::TokenHash;

/// The stored form of a login.
#[derive(Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub(crate) enum KeptLogin {
    /// A password or a certificate: valid while the user has a record, also with a later password.
    /// A peer that did not log in has this form too.
    Record,
    /// A token of this gateway, by its hash in base64.
    Token { hash: String },
    /// A JWT of a trusted issuer.
    Issuer {
        /// Unix seconds.
        expires: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Vec<ScopeRecord>>,
    },
}

impl KeptLogin {
    /// A login that is over: one that this version cannot read.
    const OVER: Self = Self::Issuer {
        expires: 0,
        scope: None,
    };

    pub(crate) fn of(basis: &LoginBasis) -> Self {
        match basis {
            LoginBasis::Anonymous(..) | LoginBasis::User(_) | LoginBasis::Owner(_) => Self::Record,
            LoginBasis::Token(hash) => Self::Token {
                hash: BASE64.encode(hash),
            },
            LoginBasis::Issuer { scope, expires } => Self::Issuer {
                expires: *expires,
                scope: scope
                    .as_ref()
                    .map(|rules| rules.iter().map(ScopeRecord::of).collect()),
            },
        }
    }

    pub(crate) fn to_value(&self) -> serde_json::Value {
        // Texts and numbers always serialise.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(crate) fn of_value(value: &serde_json::Value) -> Self {
        Self::deserialize(value).unwrap_or(Self::OVER)
    }

    /// The condition under which the login is valid, and the time at which it expires.
    pub(crate) fn basis(self, snapshot: &Snapshot) -> (LoginBasis, Option<u64>) {
        match self {
            Self::Record => (LoginBasis::Owner(false), None),
            Self::Token { hash } => {
                let hash = BASE64.decode(hash).unwrap_or_default();
                let Ok(hash) = TokenHash::try_from(hash) else {
                    return Self::OVER.basis(snapshot);
                };
                let expires = snapshot.tokens.get(&hash).and_then(|token| token.expires);
                (LoginBasis::Token(hash), expires)
            }
            Self::Issuer { expires, scope } => {
                let scope = scope.map(|scope| scope.into_iter().map(ScopeRecord::rule).collect());
                (LoginBasis::Issuer { scope, expires }, Some(expires))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identity::unix_seconds;
    use crate::{AccessSettings, Users};

    fn users() -> Users {
        let store = gatepost_store::Store::in_memory().expect("a store");
        Users::open(store, &AccessSettings::default()).expect("users")
    }

    #[test]
    fn a_login_by_jwt_keeps_its_scope_and_ends_with_its_token() {
        let users = users();
        let permitted = ScopeRecord {
            filter: "alarms/#".to_owned(),
            access: crate::Access::Subscribe.into(),
        };
        let login = LoginBasis::Issuer {
            scope: Some(vec![permitted.rule()]),
            expires: unix_seconds() + 600,
        };
        let mut kept = KeptLogin::of(&login).to_value();
        let owner = |kept: &_| users.owner_by_login(Some("stranger"), "c1", Some(kept));
        assert!(owner(&kept).may_subscribe("alarms/fire").is_allowed());
        assert!(!owner(&kept).may_subscribe("other").is_allowed());
        kept["expires"] = json!(unix_seconds());
        assert!(owner(&kept).is_revoked());
    }

    #[test]
    fn without_a_readable_login_a_stranger_has_no_rights() {
        let users = users();
        let owner = |kept: Option<&_>| users.owner_by_login(Some("stranger"), "c1", kept);
        assert!(owner(None).is_revoked());
        for kept in [
            json!({"by": "record"}),
            json!({"by": "token", "hash": "AAAA"}),
            json!({"by": "another"}),
            json!(null),
        ] {
            assert!(owner(Some(&kept)).is_revoked(), "{kept}");
        }
    }
}
