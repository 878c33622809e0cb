//! The validity period and the names of a certificate, so that an operator notices a mistake before
//! a client does.

use std::net::IpAddr;
use std::path::Path;

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

use super::error::TlsError;
use super::pem;
use crate::der::{OBJECT_IDENTIFIER, SEQUENCE, after_issuer, element, skip, take};

/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const OCTET_STRING: u8 = 0x04;
/// `[3]`, the extensions of a certificate.
const EXTENSIONS: u8 = 0xa3;
/// `[2]` and `[7]` of a general name.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// The facts that a certificate states about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Valid from then on.
    pub begins: OffsetDateTime,
    /// Valid until then.
    pub ends: OffsetDateTime,
    /// The names and addresses that it is for.
    pub names: Vec<String>,
    /// The number of certificates in the file: the chain.
    pub chain: usize,
}

impl CertificateFacts {
    /// Reads the first certificate of a file.
    pub fn of_file(file: &Path) -> Result<Self, TlsError> {
        let certificates = pem::certificates(file)?;
        let facts = certificates.first().and_then(|first| facts(first));
        let (begins, ends, names) =
            facts.ok_or_else(|| TlsError::file(file, 0, "the certificate cannot be read"))?;
        Ok(Self {
            begins,
            ends,
            names,
            chain: certificates.len(),
        })
    }

    /// Whether a client that requested this name accepts the certificate.
    pub fn is_for(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_lowercase();
        self.names.iter().any(|name| {
            let name = name.to_lowercase();
            let parent = host.split_once('.').map(|(_, parent)| parent);
            name == host
                || name
                    .strip_prefix("*.")
                    .is_some_and(|name| Some(name) == parent)
        })
    }
}

fn facts(certificate: &[u8]) -> Option<(OffsetDateTime, OffsetDateTime, Vec<String>)> {
    let mut rest = after_issuer(certificate)?;
    let mut validity = take(&mut rest, SEQUENCE)?;
    let (begins, ends) = (moment(&mut validity)?, moment(&mut validity)?);
    Some((begins, ends, names(rest).unwrap_or_default()))
}

/// UTCTime or GeneralizedTime (RFC 5280, section 4.1.2.5).
fn moment(bytes: &mut &[u8]) -> Option<OffsetDateTime> {
    let (tag, text, rest) = element(bytes)?;
    *bytes = rest;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            (year + if year < 50 { 2_000 } else { 1_900 }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (year.parse().ok()?, text)
        }
        _ => return None,
    };
    let pair = |at: usize| text.get(at..at + 2)?.parse::<u8>().ok();
    let month = Month::try_from(pair(0)?).ok()?;
    let date = Date::from_calendar_date(year, month, pair(2)?).ok()?;
    let time = Time::from_hms(pair(4)?, pair(6)?, pair(8)?).ok()?;
    Some(PrimitiveDateTime::new(date, time).assume_utc())
}

/// The names of the extension for them; `rest` begins with the subject.
fn names(mut rest: &[u8]) -> Option<Vec<String>> {
    skip(&mut rest)?;
    skip(&mut rest)?;
    while rest.first() != Some(&EXTENSIONS) {
        skip(&mut rest)?;
    }
    let mut extensions = take(&mut rest, EXTENSIONS)?;
    let mut extensions = take(&mut extensions, SEQUENCE)?;
    while !extensions.is_empty() {
        let mut extension = take(&mut extensions, SEQUENCE)?;
        if take(&mut extension, OBJECT_IDENTIFIER)? != SUBJECT_ALT_NAME {
            continue;
        }
        // A boolean says whether the extension is critical.
        while extension.first().is_some_and(|&tag| tag != OCTET_STRING) {
            skip(&mut extension)?;
        }
        let mut value = take(&mut extension, OCTET_STRING)?;
        return Some(general_names(take(&mut value, SEQUENCE)?));
    }
    None
}

fn general_names(mut list: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((tag, value, rest)) = element(list) {
        list = rest;
        match tag {
            DNS_NAME => names.extend(std::str::from_utf8(value).map(str::to_owned)),
            IP_ADDRESS => names.extend(address(value).map(|address| address.to_string())),
            _ => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_contains_its_validity_period_and_names() {
        let names = ["gate.example", "*.boxes.example", "192.0.2.1"];
        let names = names.map(str::to_owned).to_vec();
        let mut parameters = rcgen::CertificateParams::new(names).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(2051, 3, 4);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cert.pem");
        std::fs::write(&file, certificate.pem()).expect("written");
        let facts = CertificateFacts::of_file(&file).expect("facts");
        assert_eq!(facts.begins, rcgen::date_time_ymd(2026, 1, 2));
        assert_eq!(facts.ends, rcgen::date_time_ymd(2051, 3, 4));
        for (host, expected) in [
            ("Gate.example", true),
            ("gate.example.", true),
            ("a.boxes.example", true),
            ("a.b.boxes.example", false),
            ("boxes.example", false),
            ("192.0.2.1", true),
            ("other.example", false),
        ] {
            assert_eq!(facts.is_for(host), expected, "{host}");
        }
        assert_eq!(facts.chain, 1);
    }
}
