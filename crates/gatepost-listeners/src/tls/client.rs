//! TLS for connections to other servers: the next hop of mail.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::error::TlsError;
use super::server_verifier::any_certificate;
use super::{TlsFileStamp, pem, stamp};
use crate::stream::{Stream, TlsSession, TransportSocket};

/// The files in which distributions keep the trusted authorities.
pub const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The certificates of servers that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateTrust {
    /// All certificates: the connection is encrypted, but the server's identity is not checked.
    All,
    /// Certificates for the server's name that an authority of this file has signed; an empty path
    /// stands for the system's authorities.
    Authorities(PathBuf),
}

/// The client side of TLS. The file of authorities is read at its first use, and again when it
/// changes.
pub struct ClientTls {
    trust: CertificateTrust,
    read: Mutex<Option<(TlsFileStamp, Arc<ClientConfig>)>>,
}

impl ClientTls {
    /// Creates a client without reading any file.
    pub const fn new(trust: CertificateTrust) -> Self {
        Self {
            trust,
            read: Mutex::new(None),
        }
    }

    /// Reads the files that a connection would need.
    pub fn check(&self) -> Result<(), TlsError> {
        self.config().map(drop)
    }

    fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let file = match &self.trust {
            CertificateTrust::All => None,
            CertificateTrust::Authorities(file) => Some(authorities_file(file)?),
        };
        let present = file.and_then(stamp);
        let mut read = self.read.lock();
        if let Some((known, config)) = &*read
            && *known == present
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config(file)?);
        *read = Some((present, Arc::clone(&config)));
        Ok(config)
    }

    /// Does the handshake with the server of this name, within `limit`.
    pub async fn connect(&self, stream: Stream, name: &str, limit: Duration) -> io::Result<Stream> {
        let config = self.config().map_err(io::Error::other)?;
        connect(config, stream, name, limit).await
    }

    /// The trusted authorities; `None` trusts every certificate.
    pub fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        match &self.trust {
            CertificateTrust::All => Ok(Vec::new()),
            CertificateTrust::Authorities(file) => pem::certificates(authorities_file(file)?),
        }
    }
}

/// Does the handshake with the server of this name with this configuration, within `limit`.
pub async fn connect(
    config: Arc<ClientConfig>,
    stream: Stream,
    name: &str,
    limit: Duration,
) -> io::Result<Stream> {
    let socket = match stream {
        Stream::Tcp(stream) => TransportSocket::Tcp(stream),
        Stream::Unix(stream) => TransportSocket::Unix(stream),
        Stream::Tls(_) => return Err(io::ErrorKind::AlreadyExists.into()),
    };
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let session = TlsSession::new(socket, connection.into(), false);
    let handshake = poll_fn(|context| session.poll_handshake(context));
    match tokio::time::timeout(limit, handshake).await {
        Ok(done) => done?,
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
    }
    Ok(Stream::Tls(Box::new(session)))
}

fn authorities_file(file: &Path) -> Result<&Path, TlsError> {
    if !file.as_os_str().is_empty() {
        return Ok(file);
    }
    let mut systems = SYSTEM_AUTHORITIES.iter().map(Path::new);
    systems.find(|file| file.exists()).ok_or(TlsError::Setting(
        "the system's authorities are not found; fix: name a file of authorities",
    ))
}

fn config(authorities: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let Some(file) = authorities else {
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(any_certificate(provider));
        return Ok(builder.with_no_client_auth());
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(pem::certificates(file)?);
    if added == 0 {
        return Err(TlsError::file(
            file,
            0,
            "the file contains no certificate of an authority",
        ));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
