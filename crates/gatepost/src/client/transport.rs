//! The transport to a server: TCP, a Unix socket, or TLS over TCP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatepost_listeners::tls::{SYSTEM_AUTHORITIES, any_certificate};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{BrokerAddress, CertificateOptions, ClientError};

/// The time limit of a connection, and of the server's silence in a TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// A connected socket.
pub(super) enum BrokerTransport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl BrokerTransport {
    pub(super) fn open(
        address: &BrokerAddress,
        options: &CertificateOptions,
    ) -> Result<Self, ClientError> {
        let port = address.port();
        let place = format!("{}:{port}", address.host);
        let unreachable = |cause| ClientError::Unreachable {
            address: place.clone(),
            cause,
        };
        if address.host.starts_with('/') {
            return UnixStream::connect(&address.host)
                .map(Self::Unix)
                .map_err(unreachable);
        }
        let stream = connect(&address.host, port).map_err(unreachable)?;
        if !address.tls {
            return Ok(Self::Tcp(stream));
        }
        let config = tls_config(options)?;
        let name = ServerName::try_from(address.host.clone())
            .map_err(|error| ClientError::Usage(format!("{}: {error}", address.host)))?;
        let connection = ClientConnection::new(Arc::new(config), name)
            .map_err(|error| unreachable(io::Error::other(error)))?;
        let mut stream = StreamOwned::new(connection, stream);
        handshake(&mut stream, CONNECT_TIMEOUT).map_err(unreachable)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    const fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(&stream.sock),
            Self::Unix(_) => None,
        }
    }

    /// The time limit of the next read.
    pub(super) fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        // Zero would mean no limit.
        let time = Some(time.max(Duration::from_millis(1)));
        match (self, self.socket()) {
            (Self::Unix(stream), _) => stream.set_read_timeout(time),
            (_, Some(stream)) => stream.set_read_timeout(time),
            _ => Ok(()),
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// Makes the handshake with a server that is not silent for longer than this.
fn handshake(
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
    silence_max: Duration,
) -> io::Result<()> {
    stream.sock.set_read_timeout(Some(silence_max))?;
    while stream.conn.is_handshaking() {
        let done = stream.conn.complete_io(&mut stream.sock);
        done.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
    }
    stream.sock.set_read_timeout(None)
}

/// Tries each address of a name in turn.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tls_config(options: &CertificateOptions) -> Result<ClientConfig, ClientError> {
    let wrong = |error: rustls::Error| ClientError::Usage(format!("TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let builder = if options.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(any_certificate(provider))
    } else {
        builder.with_root_certificates(authorities(options)?)
    };
    match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| ClientError::Usage(format!("{}: {error}", key.display())))?;
            builder.with_client_auth_cert(chain, key).map_err(wrong)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let wrong = |error| ClientError::Usage(format!("{}: {error}", file.display()));
    CertificateDer::pem_file_iter(file)
        .map_err(wrong)?
        .collect::<Result<_, _>>()
        .map_err(wrong)
}

fn authorities(options: &CertificateOptions) -> Result<RootCertStore, ClientError> {
    let mut systems = SYSTEM_AUTHORITIES.iter().map(Path::new);
    let file = match &options.cafile {
        Some(file) => file.as_path(),
        None => systems.find(|file| file.exists()).ok_or_else(|| {
            let fix = "name them by --cafile";
            ClientError::Usage(format!("the system's authorities are not found; {fix}"))
        })?,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(file)?);
    if added == 0 {
        let text = format!("{}: the file contains no certificate", file.display());
        return Err(ClientError::Usage(text));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_handshake_with_a_silent_server_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let socket = connect("127.0.0.1", at.port()).expect("connected");
        let _silent = listener.accept().expect("a client");
        let options = CertificateOptions {
            cafile: None,
            cert: None,
            key: None,
            insecure: true,
        };
        let config = Arc::new(tls_config(&options).expect("a config"));
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client");
        let mut stream = StreamOwned::new(connection, socket);
        let done = handshake(&mut stream, Duration::from_millis(20));
        let kind = done.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::TimedOut));
    }
}
