//! The part of a DNS response that counts as a listing, as rules write it.

use gatepost_dns::{QuestionOutcome, RecordData};
use gatepost_pattern::Pattern;

/// The part of an answer that counts.
#[derive(Debug)]
pub(crate) enum Subtest {
    /// Exactly this address or text.
    Exactly(String),
    /// An address with one of these bits.
    Bits(u32),
    /// An address within this range, both ends included.
    Range(u32, u32),
    /// An address whose bits under the mask, the second value, are those of the first.
    Masked(u32, u32),
    /// A text or address that matches.
    Matches(Pattern),
}

impl Subtest {
    /// In the notation of `check_rbl`: an address, a number of bits, otherwise a pattern.
    pub(super) fn of_relays(text: &str) -> Result<Self, String> {
        if let Ok(bits) = text.parse() {
            return Ok(Self::Bits(bits));
        }
        if text.parse::<std::net::Ipv4Addr>().is_ok() {
            return Ok(Self::Exactly(text.to_owned()));
        }
        Pattern::parse_bare(text.as_bytes(), gatepost_pattern::Modifiers::default())
            .map(Self::Matches)
            .map_err(String::from)
    }

    /// In the notation of `urirhssub`: `n`, `n-m`, `n/mask`, each a number or an address.
    pub(super) fn of_links(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let hexadecimal = text.strip_prefix("0x");
            let as_address = || text.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
            match hexadecimal {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => text.parse().ok().or_else(as_address),
            }
            .ok_or_else(|| format!("{text:?} is neither a number nor an address"))
        };
        if let Some((low, high)) = text.split_once('-') {
            return Ok(Self::Range(number(low)?, number(high)?));
        }
        if let Some((value, mask)) = text.split_once('/') {
            return Ok(Self::Masked(number(value)?, number(mask)?));
        }
        let value = number(text)?;
        Ok(if text.contains('.') {
            Self::Range(value, value)
        } else {
            Self::Bits(value)
        })
    }

    pub(super) fn fits(&self, record: &RecordData) -> bool {
        let (text, address) = match record {
            RecordData::A(address) => (address.to_string().into_bytes(), Some(u32::from(*address))),
            RecordData::Text(text) => (text.clone(), None),
            RecordData::Aaaa(address) => (address.to_string().into_bytes(), None),
            // As in a zone file.
            RecordData::Name(name) => (format!("{name}.").into_bytes(), None),
            RecordData::Exchanger { preference, name } => {
                (format!("{preference} {name}.").into_bytes(), None)
            }
            RecordData::Tlsa(record) => (record.to_string().into_bytes(), None),
        };
        match self {
            Self::Exactly(wanted) => text == wanted.as_bytes(),
            // Lists answer from 127.0.0.0/8 (RFC 5782, section 2.1).
            Self::Bits(bits) => {
                address.is_some_and(|address| address >> 24 == 127 && address & bits != 0)
            }
            Self::Range(low, high) => {
                address.is_some_and(|address| (*low..=*high).contains(&address))
            }
            Self::Masked(value, mask) => {
                address.is_some_and(|address| address & mask == value & mask)
            }
            Self::Matches(pattern) => matches!(pattern.find(&text, 0, |_| true), Ok(Some(_))),
        }
    }
}

/// Whether an address may come from a list: others belong to a search page.
fn is_listing(record: &RecordData) -> bool {
    match record {
        RecordData::A(address) => address.octets()[0] == 127,
        RecordData::Text(_) => true,
        RecordData::Aaaa(_)
        | RecordData::Name(_)
        | RecordData::Exchanger { .. }
        | RecordData::Tlsa(_) => false,
    }
}

/// Whether an answer is a listing that the subtest matches.
pub(super) fn lists(answer: Option<&QuestionOutcome>, subtest: Option<&Subtest>) -> bool {
    let Some(QuestionOutcome::Records(records)) = answer else {
        return false;
    };
    records
        .iter()
        .filter(|record| is_listing(record))
        .any(|record| subtest.is_none_or(|subtest| subtest.fits(record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtests_of_both_kinds() {
        let listed = |text: &str| RecordData::A(text.parse().unwrap());
        for (subtest, record, expected) in [
            (Subtest::of_relays("127.0.0.2"), listed("127.0.0.2"), true),
            (Subtest::of_relays("127.0.0.2"), listed("127.0.0.20"), false),
            (Subtest::of_relays("4"), listed("127.0.0.6"), true),
            (Subtest::of_relays("1"), listed("127.0.0.6"), false),
            (
                Subtest::of_relays(r"^127\.0\.0\.1[01]$"),
                listed("127.0.0.11"),
                true,
            ),
            (
                Subtest::of_relays("(?i:spamcop)"),
                RecordData::Text(b"SpamCop says".to_vec()),
                true,
            ),
            (Subtest::of_links("127.0.1.2"), listed("127.0.1.2"), true),
            (Subtest::of_links("64"), listed("127.0.0.72"), true),
            (
                Subtest::of_links("127.0.0.1-127.0.0.8"),
                listed("127.0.0.9"),
                false,
            ),
            (Subtest::of_links("0x2/0x3"), listed("127.0.0.6"), true),
        ] {
            let subtest = subtest.unwrap();
            assert_eq!(subtest.fits(&record), expected, "{subtest:?} {record:?}");
        }
        assert!(Subtest::of_links("moon").is_err());
        assert!(!lists(
            Some(&QuestionOutcome::Records(vec![listed("192.0.2.1")])),
            None
        ));
    }
}
