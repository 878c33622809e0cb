//! TLS towards other servers, whose certificates the system's verifier checks.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::TlsConnector;

/// Makes what the connections of one sink have in common; reads the system's authorities.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map(|builder| TlsConnector::from(Arc::new(builder.with_no_client_auth())))
        .map_err(|error| error.to_string())
}
