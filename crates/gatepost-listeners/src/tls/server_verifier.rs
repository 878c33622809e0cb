//! Verification of servers whose certificates no authority has signed: the handshake proves that
//! the server has the certificate's key, and a [`CertificateCheck`] decides about the certificate.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// A check that decides which certificates are accepted.
pub(super) trait CertificateCheck: Debug + Send + Sync {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// A verifier that accepts every certificate: the connection is encrypted, but the server may be
/// any.
pub fn any_certificate(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ServerVerifier {
        check: AnyCertificate,
        provider,
    })
}

#[derive(Debug)]
struct AnyCertificate;

impl CertificateCheck for AnyCertificate {
    fn check(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Verifies a server by a check of its certificate and the signature of the handshake.
#[derive(Debug)]
pub(super) struct ServerVerifier<C> {
    pub(super) check: C,
    pub(super) provider: Arc<CryptoProvider>,
}

impl<C: CertificateCheck> ServerCertVerifier for ServerVerifier<C> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check.check(certificate, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
