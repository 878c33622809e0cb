//! `[smarthost]`: the mail server that takes the server's own mail.

use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use crate::forward::{ForwardSettings, HopTls};

/// `[smarthost]`: the mail server that takes mail which the server itself sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmarthostSettings {
    /// Its address, as `smtp://HOST:PORT` (STARTTLS) or `smtps://HOST:PORT` (TLS from the start);
    /// empty sends nothing.
    pub server: String,
    /// Whether mail is sent to it encrypted: `off`, `opportunistic` or `required`, as in
    /// `listeners.smtp.forward.tls`. With a user, `opportunistic` means `required`.
    pub tls: HopTls,
    /// The authorities that may sign its certificate, in PEM; empty for the system's.
    pub tls_ca: PathBuf,
    /// The name of the user; empty for no login.
    pub user: String,
    /// The file whose first line is the password.
    pub password_file: PathBuf,
    /// Our name in the greeting.
    pub hostname: String,
    /// The time limit for connecting, greeting and the login.
    pub connect_timeout: Period,
    /// The time limit for a command, and for the reply to a whole mail.
    pub timeout: Period,
    /// The keys that mail is signed with (DKIM). Each signs what is from its domain or below it.
    pub dkim: Vec<DkimKeySettings>,
}

impl Default for SmarthostSettings {
    fn default() -> Self {
        Self {
            server: String::new(),
            tls: HopTls::default(),
            tls_ca: PathBuf::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            hostname: "localhost".to_owned(),
            connect_timeout: Period::seconds(30),
            timeout: Period::seconds(300),
            dkim: Vec::new(),
        }
    }
}

/// `[[smarthost.dkim]]`: a key that mail is signed with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DkimKeySettings {
    /// The domain that signs.
    pub domain: String,
    /// The selector: DNS has the key at `SELECTOR._domainkey.DOMAIN`.
    pub selector: String,
    /// The file of the private key in PEM, Ed25519 or RSA, which others may not read.
    pub key: PathBuf,
}

impl SmarthostSettings {
    /// Whether there is one.
    pub const fn is_on(&self) -> bool {
        !self.server.is_empty()
    }

    /// The files that it reads.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let keys = self.dkim.iter().map(|key| &key.key);
        [&self.tls_ca, &self.password_file].into_iter().chain(keys)
    }

    /// The paths that may be credentials.
    pub fn secret_files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let keys = self.dkim.iter_mut().map(|key| &mut key.key);
        [&mut self.password_file].into_iter().chain(keys)
    }

    /// The settings of its connections.
    pub(super) fn forward(&self) -> ForwardSettings {
        let must_be_verified = !self.user.is_empty() && self.tls == HopTls::Opportunistic;
        ForwardSettings {
            tls: if must_be_verified {
                HopTls::Required
            } else {
                self.tls
            },
            tls_ca: self.tls_ca.clone(),
            xforward: false,
            connect_timeout: self.connect_timeout,
            command_timeout: self.timeout,
            message_timeout: self.timeout,
            idle_connections_max: 1,
            ..ForwardSettings::default()
        }
    }
}
