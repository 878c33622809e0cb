//! TLS for every listener, by rustls.
//!
//! [`ServerTls`] is one listener's certificates and requirements for clients; [`ServerTls::accept`]
//! turns a plain [`Stream`] into an encrypted one, immediately or after STARTTLS. Certificates are
//! read again when their files change and on SIGHUP; open connections keep the certificates that
//! they began with, and an unusable file changes nothing. [`ClientTls`] is TLS as a client, for
//! connections to other servers.

mod certificates;
mod client;
pub mod dane;
mod error;
mod pem;
mod server_verifier;
mod settings;
mod validity;

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection};

pub use client::{CertificateTrust, ClientTls, SYSTEM_AUTHORITIES, connect};
pub use error::TlsError;
pub use server_verifier::any_certificate;
pub use settings::{CertificateFiles, TlsSettings};
pub use validity::CertificateFacts;

use crate::stream::{Stream, TlsSession, TransportSocket};

/// One listener's side of TLS. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    inner: Arc<TlsShared>,
}

struct TlsShared {
    settings: TlsSettings,
    /// The protocols that ALPN offers, best first; empty offers nothing and accepts every client.
    protocols: Vec<Vec<u8>>,
    config: ArcSwap<ServerConfig>,
    /// The files as they were when they were last read with success.
    read: Mutex<Vec<TlsFileStamp>>,
}

/// The attributes of a file that reveal a change.
type TlsFileStamp = Option<(SystemTime, u64, u64)>;

impl ServerTls {
    /// Reads the certificates. `protocols` are ALPN's names, such as `http/1.1`.
    pub fn open(settings: &TlsSettings, protocols: &[&str]) -> Result<Self, TlsError> {
        let protocols: Vec<Vec<u8>> = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let stamps = stamps(settings);
        let config = certificates::config(settings, &protocols)?;
        Ok(Self {
            inner: Arc::new(TlsShared {
                settings: settings.clone(),
                protocols,
                config: ArcSwap::from_pointee(config),
                read: Mutex::new(stamps),
            }),
        })
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &TlsSettings {
        &self.inner.settings
    }

    /// Does the handshake on a plain stream. A caller that upgrades a connection must have
    /// discarded its unread input: plain text before the handshake may be an attacker's.
    pub async fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let socket = match stream {
            Stream::Tcp(stream) => TransportSocket::Tcp(stream),
            Stream::Unix(stream) => TransportSocket::Unix(stream),
            Stream::Tls(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        };
        let config = self.inner.config.load_full();
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let session = TlsSession::new(
            socket,
            connection.into(),
            self.inner.settings.client_is_user,
        );
        let limit = self.inner.settings.handshake_timeout.duration();
        let handshake = poll_fn(|context| session.poll_handshake(context));
        match tokio::time::timeout(limit, handshake).await {
            Ok(done) => done?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
        Ok(Stream::Tls(Box::new(session)))
    }

    /// Reads the files again (SIGHUP). On an error the previous certificates remain in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let inner = &self.inner;
        // Taken before reading: a change meanwhile is detected at the next check.
        let stamps = stamps(&inner.settings);
        let config = certificates::config(&inner.settings, &inner.protocols)?;
        inner.config.store(Arc::new(config));
        *inner.read.lock() = stamps;
        Ok(())
    }

    /// Reads the files again whenever they change; runs until dropped.
    pub async fn follow(&self) {
        loop {
            tokio::time::sleep(self.inner.settings.recheck.duration()).await;
            let tls = self.clone();
            let looked = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
            match looked {
                Ok(Ok(true)) => tracing::info!(target: "tls", "certificates were read again"),
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => {
                    tracing::error!(target: "tls", %error, "the certificates cannot be reloaded; \
                        the previous ones remain in use");
                }
            }
        }
    }

    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        if *self.inner.read.lock() == stamps(&self.inner.settings) {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }
}

fn stamps(settings: &TlsSettings) -> Vec<TlsFileStamp> {
    let more = settings
        .more
        .iter()
        .flat_map(|files| [&files.cert, &files.key]);
    [&settings.cert, &settings.key]
        .into_iter()
        .chain(more)
        .chain(&settings.client_ca)
        .map(|file| stamp(file))
        .collect()
}

fn stamp(file: &Path) -> TlsFileStamp {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

#[cfg(test)]
mod tests;
