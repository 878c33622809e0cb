//! One connection's bytes, plain or encrypted.
//!
//! The generator checks no certificate: it measures a server that the bench started or the user
//! named, and the check would be the generator's cost. Each connection makes a whole handshake of
//! TLS 1.3, since no session is kept. Its plaintext waits in the session until the handshake is
//! complete, so conversations need not know of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// The settings of all encrypted connections.
static CLIENT_CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(UncheckedCertificate(provider.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has the ciphers of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
});

/// Accepts every certificate.
#[derive(Debug)]
struct UncheckedCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for UncheckedCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn new_session(server: IpAddr) -> Result<ClientConnection, Errno> {
    let name = ServerName::IpAddress(server.into());
    ClientConnection::new(CLIENT_CONFIG.clone(), name).map_err(|_| Errno::PROTO)
}

/// Encrypts a connection that waits for its answers, as those of checks before a measurement do.
pub fn encrypted(stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let session = new_session(stream.peer_addr()?.ip())?;
    Ok(StreamOwned::new(session, stream))
}

/// A socket, and its session if it is encrypted.
pub struct Channel {
    socket: OwnedFd,
    session: Option<Box<ClientConnection>>,
}

/// Bytes that a connection has read.
pub(super) struct ReceivedBytes {
    /// The number of bytes; 0 at the end of the stream.
    pub(super) count: usize,
    /// Whether later bytes cause a new event.
    pub(super) is_drained: bool,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd, encrypted_for: Option<IpAddr>) -> Result<Self, Errno> {
        let session = encrypted_for.map(new_session).transpose()?;
        Ok(Self {
            socket,
            session: session.map(Box::new),
        })
    }

    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The error of connecting, if any.
    pub(super) fn socket_error(&self) -> Option<Errno> {
        sockopt::socket_error(&self.socket).ok()?.err()
    }

    /// Reads bytes of the conversation; `AGAIN` if there are none.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<ReceivedBytes, Errno> {
        let Some(session) = &mut self.session else {
            let (count, _) = recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
            let is_drained = count < buffer.len();
            return Ok(ReceivedBytes { count, is_drained });
        };
        loop {
            match session.reader().read(buffer) {
                Ok(count) => {
                    let is_drained = false;
                    return Ok(ReceivedBytes { count, is_drained });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(errno(&error)),
            }
            session
                .read_tls(&mut Socket(&self.socket))
                .map_err(|error| errno(&error))?;
            session.process_new_packets().map_err(|_| Errno::PROTO)?;
            drain(session, &self.socket)?;
        }
    }

    /// Sends as many of these bytes as possible, and removes them.
    pub(super) fn send(&mut self, outgoing: &mut Vec<u8>) -> Result<(), Errno> {
        if let Some(session) = &mut self.session {
            let taken = session.writer().write(outgoing);
            outgoing.drain(..taken.map_err(|error| errno(&error))?);
            return drain(session, &self.socket);
        }
        let mut sent = 0;
        while sent < outgoing.len() {
            match send(&self.socket, &outgoing[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        outgoing.drain(..sent);
        Ok(())
    }

    /// Whether sealed bytes, or a handshake's, wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.wants_write())
    }
}

/// Writes sealed bytes until none are left or the socket refuses them.
fn drain(session: &mut ClientConnection, socket: &OwnedFd) -> Result<(), Errno> {
    while session.wants_write() {
        match session.write_tls(&mut Socket(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(errno(&error)),
        }
    }
    Ok(())
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(if error.kind() == ErrorKind::WouldBlock {
        Errno::AGAIN
    } else {
        Errno::PROTO
    })
}

/// The socket as rustls reads and writes it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = recv(self.0, buffer, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
