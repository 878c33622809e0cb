//! The configuration of rustls from the settings: certificates chosen by server name, and the
//! requirements for clients.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use super::error::TlsError;
use super::pem;
use super::settings::TlsSettings;

pub(super) fn config(
    settings: &TlsSettings,
    protocols: &[Vec<u8>],
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match &settings.client_ca {
        None if settings.client_required || settings.client_is_user => {
            return Err(TlsError::Setting(
                "tls.client_required and tls.client_is_user need authorities; fix: set \
                 tls.client_ca",
            ));
        }
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(file)?, provider);
            let verifier = if settings.client_required {
                verifier
            } else {
                verifier.allow_unauthenticated()
            };
            let built = verifier.build();
            builder.with_client_cert_verifier(
                built.map_err(|error| TlsError::file(file, 0, error.to_string()))?,
            )
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(Certificates::load(settings)?));
    config.alpn_protocols = protocols.to_vec();
    // New with every reload, so that a ticket does not outlive the authorities it was given under.
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}

fn roots(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::file(file, 0, format!("no authority: {error}")))?;
    }
    Ok(Arc::new(roots))
}

/// Certificates by the names in them.
#[derive(Debug)]
struct Certificates {
    first: Arc<CertifiedKey>,
    /// In the order of the settings.
    all: Vec<Arc<CertifiedKey>>,
}

impl Certificates {
    fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let first = Arc::new(certified_key(&settings.cert, &settings.key)?);
        let mut all = vec![first.clone()];
        for files in &settings.more {
            all.push(Arc::new(certified_key(&files.cert, &files.key)?));
        }
        Ok(Self { first, all })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // There are few certificates, and a handshake costs a thousand times more than a comparison
        // of names.
        let named = hello.server_name().and_then(|name| {
            let name = rustls::pki_types::ServerName::try_from(name).ok()?;
            self.all.iter().find(|key| {
                let certificate = key.end_entity_cert().ok();
                certificate
                    .and_then(|certificate| ParsedCertificate::try_from(certificate).ok())
                    .is_some_and(|certificate| {
                        rustls::client::verify_server_name(&certificate, &name).is_ok()
                    })
            })
        });
        Some(named.unwrap_or(&self.first).clone())
    }
}

fn certified_key(cert: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = pem::certificates(cert)?;
    let private = pem::private_key(key)?;
    let signing = ring::sign::any_supported_type(&private).map_err(|_| {
        let reason = "the kind of the key is not supported; fix: use ECDSA P-256, Ed25519, or \
                      RSA with 2048 bits or more";
        TlsError::file(key, 0, reason)
    })?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::file(
            key,
            0,
            format!(
                "this key does not belong to the first certificate in {}; \
                 fix: give the pair that was made together, the server's certificate first",
                cert.display()
            ),
        )),
        Err(error) => Err(TlsError::file(cert, 0, format!("no certificate: {error}"))),
    }
}
