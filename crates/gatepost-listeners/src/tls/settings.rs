//! `listeners.NAME.tls`: the same for every listener.

use std::path::{Path, PathBuf};

use gatepost_settings::{Bind, Period};
use serde::{Deserialize, Serialize};

/// Encryption of one listener. Without `bind`, setting `cert` and `key` makes all addresses of
/// the listener speak TLS from the first byte; those of smtp, lmtp and pop3 stay plain and offer
/// STARTTLS (STLS). With `bind`, these further addresses speak TLS and the others stay plain.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// Addresses that speak TLS from the first byte, besides the listener's own `bind`.
    pub bind: Vec<Bind>,
    /// The certificate and those that sign it, in PEM, the server's own first.
    pub cert: PathBuf,
    /// Its private key, in PEM (PKCS #8, PKCS #1 or SEC1), not encrypted.
    pub key: PathBuf,
    /// More certificates; the client's server name (SNI) chooses. Without a match the first is
    /// shown.
    pub more: Vec<CertificateFiles>,
    /// The authorities whose client certificates are accepted, in PEM. Without it no client
    /// certificate is requested.
    pub client_ca: Option<PathBuf>,
    /// Whether a client must show a certificate.
    pub client_required: bool,
    /// Whether the common name of a client's certificate logs it in as the user of that name.
    pub client_is_user: bool,
    /// The time limit of a handshake.
    pub handshake_timeout: Period,
    /// The interval at which the files are checked for changes; SIGHUP checks them immediately.
    pub recheck: Period,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            bind: Vec::new(),
            cert: PathBuf::new(),
            key: PathBuf::new(),
            more: Vec::new(),
            client_ca: None,
            client_required: false,
            client_is_user: false,
            handshake_timeout: Period::seconds(10),
            recheck: Period::seconds(30),
        }
    }
}

impl TlsSettings {
    /// The private keys that are named here.
    pub fn key_files(&self) -> impl Iterator<Item = &Path> {
        let more = self.more.iter().map(|files| &files.key);
        std::iter::once(&self.key)
            .chain(more)
            .map(PathBuf::as_path)
            .filter(|path| !path.as_os_str().is_empty())
    }

    /// Every file that is named here.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let more = self.more.iter().flat_map(|files| [&files.cert, &files.key]);
        [&self.cert, &self.key]
            .into_iter()
            .chain(more)
            .chain(&self.client_ca)
            .map(PathBuf::as_path)
            .filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether any key is set: a listener without `tls` offers plain text only.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// One certificate with its key.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate and those that sign it, in PEM.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}
