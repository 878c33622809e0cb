//! TLS for connections to other servers.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::TlsConnector;

/// A connector with the system's verifier of certificates.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    connector_with([Path::new(""); 3])
}

/// A connector with the authorities of a file, or the system's verifier if the path is empty, and
/// with a client certificate and its key if their paths are not empty.
pub(crate) fn connector_with(
    [authorities, certificate, key]: [&Path; 3],
) -> Result<TlsConnector, String> {
    let is_set = |file: &Path| !file.as_os_str().is_empty();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if is_set(authorities) {
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates(authorities)?);
        if added == 0 {
            return Err(format!(
                "{}: the file contains no certificate of an authority",
                authorities.display()
            ));
        }
        builder.with_root_certificates(roots)
    } else {
        builder
            .with_platform_verifier()
            .map_err(|error| error.to_string())?
    };
    let config = if is_set(certificate) {
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| format!("{}: {error}", key.display()))?;
        let config = builder.with_client_auth_cert(certificates(certificate)?, key);
        config.map_err(|error| error.to_string())?
    } else {
        builder.with_no_client_auth()
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| format!("{}: {error}", file.display()))
}
