//! TLS with the clients of rustls, OpenSSL and Python.

mod certificates;
mod peers;
mod records;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gatepost_settings::{Bind, Period};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::acceptor::Acceptor;

/// An authority with a folder for its certificates.
struct Authority {
    folder: tempfile::TempDir,
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "the tests' own authority");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("written");
        Self {
            folder,
            certificate,
            issuer: rcgen::Issuer::new(parameters, key),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key`; gives the certificate.
    fn sign(&self, name: &str) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = parameters.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.path(&format!("{name}.pem")), signed.pem()).expect("written");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("written");
        signed.der().to_vec()
    }

    fn settings(&self, name: &str) -> TlsSettings {
        TlsSettings {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            recheck: Period::milliseconds(20),
            ..TlsSettings::default()
        }
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::new(self.client_builder().with_no_client_auth())
    }

    fn client_with(&self, name: &str) -> Arc<ClientConfig> {
        let chain = pem::certificates(&self.path(&format!("{name}.pem"))).expect("a certificate");
        let key = pem::private_key(&self.path(&format!("{name}.key"))).expect("a key");
        let config = self.client_builder().with_client_auth_cert(chain, key);
        Arc::new(config.expect("a pair"))
    }

    fn client_builder(
        &self,
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.der().clone())
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
    }
}

type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

fn connect(port: u16, config: &Arc<ClientConfig>, name: &str) -> io::Result<Client> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_mins(1)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// The certificate that the server presented.
fn presented_certificate(client: &Client) -> Option<CertificateDer<'static>> {
    Some(
        client
            .conn
            .peer_certificates()?
            .first()?
            .clone()
            .into_owned(),
    )
}

fn acceptor() -> (Acceptor, u16) {
    let bind: Bind = "127.0.0.1:0".parse().expect("an address");
    let acceptor = Acceptor::bind(&bind).expect("a free port");
    let Bind::Tcp(address) = acceptor.local().clone() else {
        panic!("not TCP");
    };
    (acceptor, address.port())
}

/// Answers each connection's bytes with `NAME: BYTES`, where NAME is the client certificate's.
fn echo_server(tls: ServerTls) -> u16 {
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    tokio::spawn(async move {
        while let Ok((accepted, peer)) = listening.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = tls.accept(accepted.open(peer).await?.0).await else {
                    return Ok(());
                };
                let name = stream.tls().and_then(TlsSession::client_name);
                let name = name.unwrap_or_else(|| "nobody".to_owned());
                let mut buffer = [0; 4_096];
                loop {
                    let count = stream.read(&mut buffer).await?;
                    if count == 0 {
                        return stream.shutdown().await;
                    }
                    stream.write_all(format!("{name}: ").as_bytes()).await?;
                    stream.write_all(&buffer[..count]).await?;
                    stream.flush().await?;
                }
            });
        }
    });
    port
}

/// Runs blocking code in parallel to the server.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

fn exchange(client: &mut Client, text: &str) -> io::Result<String> {
    client.write_all(text.as_bytes())?;
    let mut answer = vec![0; 4_096];
    let mut filled = 0;
    while !answer[..filled].ends_with(text.as_bytes()) {
        let count = client.read(&mut answer[filled..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
    }
    Ok(String::from_utf8_lossy(&answer[..filled]).into_owned())
}
