//! The settings under `[access]`.

use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

/// `[access]` of the config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessSettings {
    /// What a user may do that no rule mentions.
    pub default: DefaultPolicy,
    /// Whether passwords also give SCRAM-SHA-256 credentials, so that clients can log in without
    /// sending them. These are weaker at rest than argon2: a thief of the database guesses faster.
    pub scram: bool,
    /// PBKDF2 iterations of SCRAM; each client pays them at its login. At least 4,096 (RFC 7677).
    pub scram_iterations: u32,
    /// Threads that check passwords; 0 for one per core.
    pub hashing_threads: usize,
    /// Logins that may wait for a password check; further ones are refused as busy.
    pub hashing_queue_max: usize,
    /// A password that was right is known again for so long without hashing, counted from its
    /// last use; a reconnect storm is served from this. `"0"` switches it off.
    pub password_cache: Period,
    /// Failed logins for one user, from wherever, before logins by password must wait.
    pub failures_per_user: u32,
    /// The time after which one more attempt is free again.
    pub failure_recovery: Period,
    /// The longest that a user must wait, however many logins failed. Peers on this machine wait at
    /// most a second.
    pub failure_wait_max: Period,
    /// The fewest characters of a new password.
    pub password_length_min: usize,
    /// Issuers of JSON Web Tokens that are believed.
    pub jwt: Vec<JwtSettings>,
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            default: DefaultPolicy::Auto,
            scram: true,
            scram_iterations: 100_000,
            hashing_threads: 0,
            hashing_queue_max: 1_024,
            password_cache: Period::seconds(600),
            failures_per_user: 50,
            failure_recovery: Period::seconds(6),
            failure_wait_max: Period::seconds(300),
            password_length_min: 6,
            jwt: Vec::new(),
        }
    }
}

/// The default where no rule applies. Topics that begin with `$` are never covered by it: they are
/// for administrators and the users that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultPolicy {
    /// A user without any allow rule may do everything that is not denied; a user with one may do
    /// only what is allowed.
    #[default]
    Auto,
    /// Everything that is not denied.
    Allow,
    /// Nothing that is not granted.
    Deny,
}

/// `[[access.jwt]]`: one issuer. The token's `sub` is the user; `exp` is required. The optional
/// claims `publish`, `subscribe` and `retain` (each a list of topic filters) say what it may do;
/// the user's own rules hold besides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JwtSettings {
    /// How tokens are signed; a token that says otherwise is refused.
    pub algorithm: JwtAlgorithm,
    /// The file with the key: for HS256 the secret's bytes (at least 32), else the public key in
    /// PEM.
    pub key: PathBuf,
    /// What `iss` must be, if set.
    pub issuer: Option<String>,
    /// What `aud` must hold, if set.
    pub audience: Option<String>,
    /// How far clocks may differ.
    pub leeway: Period,
}

impl Default for JwtSettings {
    fn default() -> Self {
        Self {
            algorithm: JwtAlgorithm::Es256,
            key: PathBuf::new(),
            issuer: None,
            audience: None,
            leeway: Period::seconds(30),
        }
    }
}

/// A signature algorithm of RFC 7518.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256: the issuer's secret is ours too.
    Hs256,
    /// RSA PKCS #1 with SHA-256, keys of 2,048 bits and more.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}
