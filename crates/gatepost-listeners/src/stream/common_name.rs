//! The common name of a certificate's subject (RFC 5280).
//!
//! Read only from certificates that the library has verified; even so every length is checked,
//! and an unexpected structure yields no name, so it admits no client.

use crate::der::{OBJECT_IDENTIFIER, SEQUENCE, after_issuer, element, skip, take};

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The subject's common name, if there is exactly one, in an ASCII-compatible string type.
pub(super) fn of(certificate: &[u8]) -> Option<String> {
    let mut signed = after_issuer(certificate)?;
    // Validity.
    skip(&mut signed)?;
    let mut subject = take(&mut signed, SEQUENCE)?;
    let mut name = None;
    while !subject.is_empty() {
        let mut relative = take(&mut subject, SET)?;
        while !relative.is_empty() {
            let mut attribute = take(&mut relative, SEQUENCE)?;
            if take(&mut attribute, OBJECT_IDENTIFIER)? != COMMON_NAME {
                continue;
            }
            let (tag, value, _) = element(attribute)?;
            if !matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING) {
                return None;
            }
            let text = std::str::from_utf8(value).ok()?;
            if name.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certificate(names: &[&str]) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "not this one");
        for name in names {
            parameters
                .distinguished_name
                .push(rcgen::DnType::CommonName, *name);
        }
        let key = rcgen::KeyPair::generate().expect("a key");
        parameters
            .self_signed(&key)
            .expect("a certificate")
            .der()
            .to_vec()
    }

    #[test]
    fn the_subjects_name_is_found() {
        assert_eq!(of(&certificate(&["Zoë"])).as_deref(), Some("Zoë"));
        assert_eq!(of(&certificate(&[])), None);
        assert_eq!(of(b""), None);
    }

    proptest! {
        #[test]
        fn damaged_certificates_do_not_panic(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let mut bytes = certificate(&["anna"]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = of(&bytes);
            let _ = of(bytes.get(..cut).unwrap_or_default());
        }
    }
}
