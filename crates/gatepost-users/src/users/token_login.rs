//! Logins by a token of this server's own, or by one of an issuer (JSON Web Tokens).

use std::sync::Arc;

use super::Users;
use crate::login_basis::LoginBasis;
use crate::names::fold;
use crate::{Identity, LoginOrigin, LoginRefusal, Secret, token};

impl Users {
    /// `name` is the user name that accompanied the token, if the protocol has one.
    pub(super) fn by_token(
        &self,
        secret: &Secret,
        name: Option<&str>,
        origin: &LoginOrigin,
    ) -> Result<Identity, LoginRefusal> {
        let source = origin.source();
        // A token cannot be guessed, so on this machine a program with a wrong one delays no other.
        if !source.is_local {
            self.may_try(source, None)?;
        }
        let outcome = if secret.expose().starts_with(token::PREFIX) {
            self.by_own_token(secret, name, origin)
        } else {
            self.by_jwt(secret, origin)
        };
        if matches!(outcome, Err(LoginRefusal::Credentials)) && !source.is_local {
            self.shared.failure_limits.failed(source, None);
        }
        outcome
    }

    fn by_own_token(
        &self,
        secret: &Secret,
        name: Option<&str>,
        origin: &LoginOrigin,
    ) -> Result<Identity, LoginRefusal> {
        let hash = token::hash(secret);
        let token = self.shared.live.load().tokens.get(&hash).cloned();
        let token = token.ok_or(LoginRefusal::Credentials)?;
        if name.is_some_and(|name| !name.is_empty() && fold(name) != fold(&token.user)) {
            return Err(LoginRefusal::Credentials);
        }
        let expires = token.expires;
        let identity = self.identity(
            Some(token.user.clone()),
            origin,
            LoginBasis::Token(hash),
            expires,
        );
        if identity.is_revoked() {
            return Err(LoginRefusal::Credentials);
        }
        Ok(identity)
    }

    fn by_jwt(&self, secret: &Secret, origin: &LoginOrigin) -> Result<Identity, LoginRefusal> {
        let vouched = self.shared.issuers.load().verify(secret)?;
        // Letter case does not distinguish users: rules and topics see one spelling of the name.
        let name: Arc<str> = match self.user(&vouched.user) {
            Some(known) => Arc::clone(&known.name),
            // Neither a user record nor a claim grants anything.
            None if vouched.scope.is_none() => return Err(LoginRefusal::Credentials),
            None => fold(&vouched.user).into(),
        };
        let (scope, expires) = (vouched.scope, vouched.expires);
        let basis = LoginBasis::Issuer { scope, expires };
        let identity = self.identity(Some(name), origin, basis, Some(expires));
        if identity.is_revoked() {
            return Err(LoginRefusal::Disabled);
        }
        Ok(identity)
    }
}
