//! TLSA records (RFC 6698): the certificate that a TLS server has.

use std::fmt;

/// One record as it was received, without any validation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tlsa {
    /// The way to verify the certificate: 3 for the server's own (DANE-EE), 2 for an authority's
    /// (DANE-TA).
    pub usage: u8,
    /// The part of the certificate that is compared: 0 for all of it, 1 for its public key.
    pub selector: u8,
    /// The method of comparison: 0 for the bytes themselves, 1 for SHA-256, 2 for SHA-512.
    pub matching: u8,
    /// The expected bytes.
    pub data: Vec<u8>,
}

impl Tlsa {
    /// RFC 6698, section 2.1.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (&[usage, selector, matching], data) = data.split_first_chunk()?;
        Some(Self {
            usage,
            selector,
            matching,
            data: data.to_vec(),
        })
    }
}

/// As in a zone file: `3 1 1 0123abcd…`.
impl fmt::Display for Tlsa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            usage,
            selector,
            matching,
            data,
        } = self;
        write!(formatter, "{usage} {selector} {matching} ")?;
        data.iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_as_in_a_zone_file() {
        let record = Tlsa::read(&[3, 1, 1, 0x0a, 0xff]).expect("a record");
        assert_eq!(record.to_string(), "3 1 1 0aff");
        assert_eq!(Tlsa::read(&[3, 1]), None);
    }
}
