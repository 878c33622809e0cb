//! DANE for SMTP (RFC 7672): a server's certificate must match TLSA records, and no authority is
//! consulted.
//!
//! The caller must have obtained the records from an answer that DNSSEC proves. With DANE-EE the
//! certificate or its key is compared, and neither its names nor its dates count (RFC 7672, section
//! 3.1.1). With DANE-TA a certificate of the chain is compared, becomes the only authority, and the
//! server's certificate must be for one of the names.

use std::sync::Arc;

use gatepost_dns::Tlsa;
use ring::digest::{SHA256, SHA512, digest};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, Error, OtherError, RootCertStore};

use super::error::TlsError;
use super::server_verifier::{CertificateCheck, ServerVerifier};

/// The usages that count for mail (RFC 7672, section 3.1).
const DANE_TA: u8 = 2;
const DANE_EE: u8 = 3;

/// The selected part of a certificate.
const WHOLE_CERTIFICATE: u8 = 0;
const PUBLIC_KEY: u8 = 1;

/// Whether a certificate can be compared with the record at all (RFC 7672, section 3.1.3; RFC 6698,
/// section 4.1: others are ignored).
pub fn is_usable(record: &Tlsa) -> bool {
    let fits = match record.matching {
        0 => !record.data.is_empty(),
        1 => record.data.len() == SHA256.output_len(),
        2 => record.data.len() == SHA512.output_len(),
        _ => false,
    };
    fits && matches!(record.usage, DANE_TA | DANE_EE)
        && matches!(record.selector, WHOLE_CERTIFICATE | PUBLIC_KEY)
}

/// A client that accepts the certificates that the records name. `names` are those that a
/// certificate of an authority may have.
pub fn client_config(
    records: Vec<Tlsa>,
    names: Vec<ServerName<'static>>,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(provider::default_provider());
    let verifier = ServerVerifier {
        check: DaneCheck {
            records,
            names,
            algorithms: provider.signature_verification_algorithms,
        },
        provider: Arc::clone(&provider),
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// The reason why a certificate is refused.
#[derive(Debug, thiserror::Error)]
#[error("no TLSA record matches its certificate")]
struct NoTlsaMatch;

#[derive(Debug)]
struct DaneCheck {
    records: Vec<Tlsa>,
    names: Vec<ServerName<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl DaneCheck {
    /// Whether a record of this usage names the certificate.
    fn is_named(&self, usage: u8, certificate: &CertificateDer<'_>) -> bool {
        let mut records = self.records.iter().filter(|record| record.usage == usage);
        records.any(|record| is_match(record, certificate))
    }

    /// The chain leads to a certificate that a DANE-TA record names.
    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let mut authorities = RootCertStore::empty();
        for one in intermediates {
            if self.is_named(DANE_TA, one) {
                // A certificate that cannot be parsed ends no chain.
                let _ = authorities.add(one.clone().into_owned());
            }
        }
        for record in &self.records {
            // A server may omit an authority whose whole certificate is in the record.
            if (record.usage, record.selector, record.matching) == (DANE_TA, WHOLE_CERTIFICATE, 0) {
                let _ = authorities.add(CertificateDer::from(record.data.clone()));
            }
        }
        if authorities.is_empty() {
            return Err(Error::Other(OtherError(Arc::new(NoTlsaMatch))));
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &authorities,
            intermediates,
            now,
            algorithms,
        )?;
        // RFC 7672, section 3.2.2: the name of the host, or of the domain that it serves.
        let mut outcome = Err(CertificateError::NotValidForName.into());
        for name in &self.names {
            outcome = verify_server_name(&parsed, name);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// Whether this is the certificate of the record.
fn is_match(record: &Tlsa, certificate: &CertificateDer<'_>) -> bool {
    let parsed;
    let key;
    let selected: &[u8] = if record.selector == WHOLE_CERTIFICATE {
        certificate
    } else {
        parsed = match ParsedCertificate::try_from(certificate) {
            Ok(parsed) => parsed,
            Err(_) => return false,
        };
        key = parsed.subject_public_key_info();
        &key
    };
    match record.matching {
        0 => record.data == selected,
        1 => record.data == digest(&SHA256, selected).as_ref(),
        2 => record.data == digest(&SHA512, selected).as_ref(),
        _ => false,
    }
}

impl CertificateCheck for DaneCheck {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.is_named(DANE_EE, certificate) {
            return Ok(());
        }
        self.verify_chain(certificate, intermediates, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    /// An authority and a server's certificate by it.
    struct CertificateChain {
        server: CertificateDer<'static>,
        authority: CertificateDer<'static>,
    }

    fn chain(name: &str) -> CertificateChain {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = parameters.self_signed(&key).expect("a certificate");
        let authority = authority.der().clone();
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate().expect("a key");
        let server = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let server = server.signed_by(&key, &issuer).expect("a certificate");
        CertificateChain {
            server: server.der().clone(),
            authority,
        }
    }

    fn record(usage: u8, selector: u8, matching: u8, of: &CertificateDer<'_>) -> Tlsa {
        let parsed = ParsedCertificate::try_from(of).expect("a certificate");
        let key = parsed.subject_public_key_info();
        let selected: &[u8] = if selector == 0 { of } else { &key };
        let data = match matching {
            0 => selected.to_vec(),
            1 => digest(&SHA256, selected).as_ref().to_vec(),
            _ => digest(&SHA512, selected).as_ref().to_vec(),
        };
        Tlsa {
            usage,
            selector,
            matching,
            data,
        }
    }

    fn is_accepted(records: Vec<Tlsa>, shown: &CertificateChain, with_authority: bool) -> bool {
        assert!(records.iter().all(is_usable), "{records:?}");
        let name = |name: &'static str| ServerName::try_from(name).expect("a name");
        let dane = DaneCheck {
            records,
            names: vec![name("mx.example.org"), name("example.org")],
            algorithms: provider::default_provider().signature_verification_algorithms,
        };
        let intermediates: &[_] = if with_authority {
            std::slice::from_ref(&shown.authority)
        } else {
            &[]
        };
        dane.check(&shown.server, intermediates, UnixTime::now())
            .is_ok()
    }

    #[test]
    fn each_kind_of_record_names_its_certificate_and_no_other() {
        let (own, other) = (chain("mx.example.org"), chain("mx.example.org"));
        for selector in [0, 1] {
            for matching in [0, 1, 2] {
                let server =
                    |of: &CertificateChain| record(DANE_EE, selector, matching, &of.server);
                assert!(is_accepted(vec![server(&own)], &own, false));
                assert!(!is_accepted(vec![server(&other)], &own, false));
                let authority =
                    |of: &CertificateChain| record(DANE_TA, selector, matching, &of.authority);
                assert!(is_accepted(vec![authority(&own)], &own, true));
                assert!(!is_accepted(vec![authority(&other)], &own, true));
                // One matching record of several is enough, which permits changes of keys.
                assert!(is_accepted(vec![server(&other), server(&own)], &own, false));
            }
        }
        // An authority that the server does not send is known by its whole certificate only.
        assert!(is_accepted(
            vec![record(DANE_TA, 0, 0, &own.authority)],
            &own,
            false
        ));
        assert!(!is_accepted(
            vec![record(DANE_TA, 0, 1, &own.authority)],
            &own,
            false
        ));
        // A record of one usage is not a record of the other.
        assert!(!is_accepted(
            vec![record(DANE_EE, 1, 1, &own.authority)],
            &own,
            true
        ));
        assert!(!is_accepted(
            vec![record(DANE_TA, 1, 1, &own.server)],
            &own,
            true
        ));
    }

    #[test]
    fn names_count_for_an_authority_only() {
        let domain = chain("example.org");
        let elsewhere = chain("mx.evil.example");
        for (shown, expected) in [(&domain, true), (&elsewhere, false)] {
            let by_authority = record(DANE_TA, 1, 1, &shown.authority);
            assert_eq!(is_accepted(vec![by_authority], shown, true), expected);
            let by_itself = record(DANE_EE, 1, 1, &shown.server);
            assert!(is_accepted(vec![by_itself], shown, true));
        }
    }

    #[test]
    fn records_that_cannot_be_compared_are_unusable() {
        let record = |usage, selector, matching, length| Tlsa {
            usage,
            selector,
            matching,
            data: vec![0; length],
        };
        for (record, expected) in [
            (record(3, 1, 1, 32), true),
            (record(2, 0, 2, 64), true),
            (record(3, 0, 0, 1), true),
            (record(0, 1, 1, 32), false),
            (record(1, 1, 1, 32), false),
            (record(255, 1, 1, 32), false),
            (record(3, 2, 1, 32), false),
            (record(3, 1, 3, 32), false),
            (record(3, 1, 1, 31), false),
            (record(3, 1, 2, 32), false),
            (record(3, 0, 0, 0), false),
        ] {
            assert_eq!(is_usable(&record), expected, "{record}");
        }
    }
}
