//! The subset of DER that is needed to read certificates (X.690, RFC 5280).
//!
//! Every length is checked, and an unexpected structure yields nothing.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
/// `[0]`, the version of a certificate.
const VERSION: u8 = 0xa0;

/// Splits the first element off: its tag, its content, and the rest.
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

/// Removes the next element and returns its content.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], expected: u8) -> Option<&'a [u8]> {
    let (tag, content, rest) = element(bytes)?;
    if tag != expected {
        return None;
    }
    *bytes = rest;
    Some(content)
}

/// Removes the next element, whatever its tag.
pub(crate) fn skip(bytes: &mut &[u8]) -> Option<()> {
    let (_, _, rest) = element(bytes)?;
    *bytes = rest;
    Some(())
}

/// The fields of a certificate after its issuer: validity, subject, key, extensions.
pub(crate) fn after_issuer(mut certificate: &[u8]) -> Option<&[u8]> {
    let mut certificate = take(&mut certificate, SEQUENCE)?;
    let mut signed = take(&mut certificate, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        take(&mut signed, VERSION)?;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        skip(&mut signed)?;
    }
    Some(signed)
}
