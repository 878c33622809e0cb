//! The common name of a certificate's subject: the little DER that it takes (X.690, RFC 5280).
//!
//! Read only from certificates that the library has verified; even so every length is checked,
//! and an unexpected structure yields no name, so it admits no client.

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The subject's common name, if there is exactly one, in an ASCII-compatible string type.
pub(super) fn of(certificate: &[u8]) -> Option<String> {
    let (mut certificate, _) = expect(certificate, SEQUENCE)?;
    let mut signed = take(&mut certificate, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        take(&mut signed, VERSION)?;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        let (_, _, rest) = element(signed)?;
        signed = rest;
    }
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

/// Tag, content and what follows of the first element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        // Four bytes of length are more than any certificate has; 0x80 is not DER.
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, remainder) = rest.split_at_checked(count)?;
        length = digits
            .iter()
            .fold(0, |length, &digit| length << 8 | usize::from(digit));
        rest = remainder;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == expected).then_some((content, rest))
}

/// The content of the next element, which is taken off.
fn take<'a>(bytes: &mut &'a [u8], expected: u8) -> Option<&'a [u8]> {
    let (content, rest) = expect(bytes, expected)?;
    *bytes = rest;
    Some(content)
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
