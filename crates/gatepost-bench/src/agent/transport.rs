//! The connection to the broker of conductor and agents: TCP, or TLS over it.
//!
//! Unlike the connections of the load ([`crate::load`]), this one verifies the broker's
//! certificate: an agent obeys everybody who can pose as its broker, and sends it its password.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::BenchError;
use crate::target::Url;

/// The time limit of connecting, of a handshake's reads, and of each write.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected socket, with its session if it is encrypted.
pub(super) enum BrokerStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl BrokerStream {
    /// Connects; over TLS, the authorities of `cafile` are trusted, or those of the system.
    pub(super) fn open(url: &Url, cafile: Option<&Path>) -> Result<Self, BenchError> {
        // Read first: a mistake in the file must not seem to be the broker's.
        let config = if url.is_encrypted {
            Some(tls_config(cafile)?)
        } else {
            None
        };
        let failed = |error: io::Error| BenchError::server(url, error.to_string());
        let socket = TcpStream::connect_timeout(&url.address()?, PATIENCE).map_err(failed)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let Some(config) = config else {
            return Ok(Self::Plain(socket));
        };
        let host = url.host.trim_matches(['[', ']']).to_owned();
        let session = ServerName::try_from(host)
            .map_err(|error| BenchError::server(url, error.to_string()))
            .and_then(|name| {
                ClientConnection::new(Arc::new(config), name)
                    .map_err(|error| BenchError::server(url, error.to_string()))
            })?;
        let mut stream = StreamOwned::new(session, socket);
        handshake(&mut stream).map_err(failed)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Sets the time limit of the next read, above 0.
    pub(super) fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        };
        socket.set_read_timeout(Some(time))
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// Makes the whole handshake now, so that a certificate that is not trusted is reported as such.
fn handshake(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> io::Result<()> {
    stream.sock.set_read_timeout(Some(PATIENCE))?;
    while stream.conn.is_handshaking() {
        let done = stream.conn.complete_io(&mut stream.sock);
        done.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })?;
    }
    Ok(())
}

fn tls_config(cafile: Option<&Path>) -> Result<ClientConfig, BenchError> {
    let wrong = |error: rustls::Error| BenchError::Settings(format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let builder = match cafile {
        Some(file) => builder.with_root_certificates(authorities(file)?),
        None => builder.with_platform_verifier().map_err(wrong)?,
    };
    Ok(builder.with_no_client_auth())
}

fn authorities(file: &Path) -> Result<RootCertStore, BenchError> {
    let wrong = |reason: String| BenchError::Data {
        path: file.to_owned(),
        reason,
    };
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(wrong("it contains no certificate".into()));
    }
    Ok(roots)
}
