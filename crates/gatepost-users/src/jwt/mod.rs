//! JSON Web Tokens of configured issuers (RFC 7519, RFC 8725).
//!
//! Each issuer has one key and one algorithm, and a token is tried only with issuers whose
//! algorithm it names: a public key is never used as an HMAC secret, and `none` is not accepted.

mod provider;

use gatepost_message::TopicFilter;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::rules::Rule;
use crate::{
    Access, Effect, JwtAlgorithm, JwtSettings, LoginRefusal, Secret, UsersError, check_user_name,
};

/// Longer tokens are refused before they are parsed.
const TOKEN_BYTES_MAX: usize = 16 * 1_024;
/// The maximum number of filters in one token.
const FILTERS_MAX: usize = 256;
/// RFC 7518, section 3.2: an HS256 key has at least the hash's size.
const SECRET_BYTES_MIN: usize = 32;

/// The claims of a token.
#[derive(Debug)]
pub(crate) struct VerifiedClaims {
    pub(crate) user: String,
    /// Unix seconds.
    pub(crate) expires: u64,
    /// `None`: the token contains no topics.
    pub(crate) scope: Option<Vec<Rule>>,
}

#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
    /// NumericDate may have a fraction (RFC 7519, section 2).
    exp: f64,
    #[serde(default)]
    publish: Option<Vec<String>>,
    #[serde(default)]
    subscribe: Option<Vec<String>>,
    #[serde(default)]
    retain: Option<Vec<String>>,
}

/// The trusted issuers.
#[derive(Default)]
pub(crate) struct Issuers(Vec<Issuer>);

struct Issuer {
    key: DecodingKey,
    validation: Validation,
}

/// Whether a password could be a JWT: its header is a JSON object, `{"`, in base64.
pub(crate) fn has_jwt_form(token: &Secret) -> bool {
    /// The shortest accepted signature has 32 bytes, 43 characters.
    const CHARACTERS_MIN: usize = 64;
    let token = token.expose();
    token.len() >= CHARACTERS_MIN
        && token.starts_with("eyJ")
        && token.bytes().filter(|&byte| byte == b'.').count() == 2
}

impl Issuers {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn load(settings: &[JwtSettings]) -> Result<Self, UsersError> {
        provider::install();
        settings
            .iter()
            .map(Issuer::load)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn verify(&self, token: &Secret) -> Result<VerifiedClaims, LoginRefusal> {
        let token = token.expose();
        if token.len() > TOKEN_BYTES_MAX {
            return Err(LoginRefusal::Credentials);
        }
        let vouched = self.0.iter().find_map(|issuer| {
            let decoded =
                jsonwebtoken::decode::<TokenClaims>(token, &issuer.key, &issuer.validation);
            verified_claims(decoded.ok()?.claims, issuer.validation.leeway)
        });
        vouched.ok_or(LoginRefusal::Credentials)
    }
}

impl Issuer {
    fn load(settings: &JwtSettings) -> Result<Self, UsersError> {
        let wrong = |reason: String| UsersError::Key {
            file: settings.key.display().to_string(),
            reason,
        };
        let bytes = std::fs::read(&settings.key).map_err(|error| wrong(error.to_string()))?;
        let no_key = |kind| {
            wrong(format!(
                "this is not a {kind} public key in PEM (-----BEGIN PUBLIC KEY-----)"
            ))
        };
        let (algorithm, key) = match settings.algorithm {
            JwtAlgorithm::Hs256 => {
                // A final newline was added by an editor and is not part of the secret.
                let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                if secret.len() < SECRET_BYTES_MIN {
                    return Err(wrong(format!(
                        "the secret has {} bytes; fix: use at least {SECRET_BYTES_MIN} random ones",
                        secret.len()
                    )));
                }
                if secret.starts_with(b"-----BEGIN") {
                    return Err(wrong(
                        "this is a key in PEM; fix: algorithm = \"ES256\" or \"RS256\"".to_owned(),
                    ));
                }
                (Algorithm::HS256, DecodingKey::from_secret(secret))
            }
            JwtAlgorithm::Rs256 => {
                let key = DecodingKey::from_rsa_pem(&bytes).map_err(|_| no_key("RSA"))?;
                (Algorithm::RS256, key)
            }
            JwtAlgorithm::Es256 => {
                let key = DecodingKey::from_ec_pem(&bytes).map_err(|_| no_key("P-256"))?;
                (Algorithm::ES256, key)
            }
        };
        Ok(Self {
            key,
            validation: validation(algorithm, settings),
        })
    }
}

fn validation(algorithm: Algorithm, settings: &JwtSettings) -> Validation {
    let mut validation = Validation::new(algorithm);
    let mut required = vec!["exp", "sub"];
    validation.leeway = settings.leeway.duration().as_secs();
    validation.validate_nbf = true;
    // A token for another audience is not valid here: one with `aud` is refused if none is
    // configured (RFC 7519, section 4.1.3).
    if let Some(audience) = &settings.audience {
        required.push("aud");
        validation.set_audience(&[audience]);
    }
    if let Some(issuer) = &settings.issuer {
        required.push("iss");
        validation.set_issuer(&[issuer]);
    }
    validation.set_required_spec_claims(&required);
    validation
}

fn verified_claims(claims: TokenClaims, leeway_seconds: u64) -> Option<VerifiedClaims> {
    check_user_name(&claims.sub).ok()?;
    let named = [
        (Access::Publish, claims.publish),
        (Access::Subscribe, claims.subscribe),
        (Access::Retain, claims.retain),
    ];
    let mut scope = None;
    for (access, filters) in named {
        let Some(filters) = filters else { continue };
        let rules: &mut Vec<Rule> = scope.get_or_insert_default();
        for filter in filters {
            // The claims are exact: the issuer knows the user that it names, so there are no
            // placeholders for names here.
            TopicFilter::new(&filter)
                .ok()
                .filter(|_| !filter.contains('%'))?;
            rules.push(Rule {
                effect: Effect::Allow,
                access: access.into(),
                filter: filter.into(),
            });
        }
        if rules.len() > FILTERS_MAX {
            return None;
        }
    }
    Some(VerifiedClaims {
        user: claims.sub,
        expires: (claims.exp as u64).saturating_add(leeway_seconds),
        scope,
    })
}

#[cfg(test)]
mod tests;
