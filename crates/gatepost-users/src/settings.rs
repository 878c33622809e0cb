//! The settings under `[access]`.

use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

/// `[access]` of the config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessSettings {
    /// The permissions of a user that no rule mentions.
    pub default: DefaultPolicy,
    /// Whether setting a password also creates SCRAM-SHA-256 credentials, so that clients can log
    /// in without sending it. Stored SCRAM credentials are weaker than argon2: a thief of the
    /// database can guess faster.
    pub scram: bool,
    /// PBKDF2 iterations of SCRAM, which each client computes at its login. At least 4,096 (RFC
    /// 7677).
    pub scram_iterations: u32,
    /// Number of threads that check passwords; 0 for one per core.
    pub hashing_threads: usize,
    /// Number of logins that may wait for a password check; further ones are refused as busy.
    pub hashing_queue_max: usize,
    /// The time for which a correct password is recognised without hashing, counted from its last
    /// use; this serves a reconnect storm. `"0"` disables it.
    pub password_cache: Period,
    /// The number of failed logins for one user, from any address, after which logins by password
    /// must wait.
    pub failures_per_user: u32,
    /// The time after which one more attempt is permitted.
    pub failure_recovery: Period,
    /// The longest wait of a user, regardless of the number of failed logins. Peers on this machine
    /// wait at most a second.
    pub failure_wait_max: Period,
    /// The accounts of this machine, by name or number, whose programs count as local besides those
    /// of root, of the server and of people (1000 to 60513). Other accounts are services, which may
    /// act for clients of other machines, as reverse proxies do.
    pub local_accounts: Vec<String>,
    /// The prefix of the topics of each user who is no administrator, as in `"%u/"`, where `%u` is
    /// the user's name; empty for none. Clients of the user do not see it.
    pub mount: String,
    /// Users without this prefix: programs that serve all users.
    pub mount_except: Vec<String>,
    /// The minimum number of characters of a new password.
    pub password_length_min: usize,
    /// Sessions of browsers that log in at `/gatepost/login`.
    pub sessions: LoginSessionSettings,
    /// Trusted issuers of JSON Web Tokens.
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
            local_accounts: Vec::new(),
            mount: String::new(),
            mount_except: Vec::new(),
            password_length_min: 6,
            sessions: LoginSessionSettings::default(),
            jwt: Vec::new(),
        }
    }
}

/// `[access.sessions]`: what a browser holds after a login by the form at `/gatepost/login`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoginSessionSettings {
    /// The time without a request after which a session ends.
    pub idle_timeout: Period,
    /// The time after the login at which a session ends, however much it is used.
    pub lifetime: Period,
    /// The maximum number of sessions of one user; a further login ends the session that was unused
    /// for longest.
    pub per_user_max: usize,
    /// The maximum number of sessions of all users; a further login ends the session that was
    /// unused for longest.
    pub max: usize,
}

impl Default for LoginSessionSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Period::seconds(12 * 3_600),
            lifetime: Period::seconds(7 * 86_400),
            per_user_max: 20,
            max: 10_000,
        }
    }
}

/// The default if no rule applies. It never covers topics that begin with `$`: they are for
/// administrators and for the users that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultPolicy {
    /// A user without an allow rule may do everything that is not denied; a user with one may do
    /// only what is allowed.
    #[default]
    Auto,
    /// Everything that is not denied is allowed.
    Allow,
    /// Everything that is not granted is denied.
    Deny,
}

/// `[[access.jwt]]`: one issuer. The token's `sub` is the user; `exp` is required. The optional
/// claims `publish`, `subscribe` and `retain` (each a list of topic filters) grant permissions; the
/// user's own rules apply as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JwtSettings {
    /// The algorithm of the tokens' signatures; a token with another one is refused.
    pub algorithm: JwtAlgorithm,
    /// The file with the key: for HS256 the secret's bytes (at least 32), otherwise the public key
    /// in PEM.
    pub key: PathBuf,
    /// The required value of `iss`, if set.
    pub issuer: Option<String>,
    /// The required member of `aud`, if set.
    pub audience: Option<String>,
    /// The tolerated difference between clocks.
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
    /// HMAC with SHA-256: the issuer and this gateway share a secret.
    Hs256,
    /// RSA PKCS #1 with SHA-256, keys of 2,048 bits and more.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}
