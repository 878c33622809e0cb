//! A question and its answer as bytes (RFC 1035 § 4). Without I/O.

use std::net::IpAddr;
use std::time::Duration;

use super::{DnsError, LIFETIME_MAX};

/// RFC 6891: what we take in one datagram.
pub(super) const DATAGRAM_BYTES_MAX: usize = 4096;
/// That there is nothing is kept so long (RFC 2308 § 5 allows more).
const LIFETIME_OF_NOTHING: Duration = Duration::from_mins(1);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    A = 1,
    Ptr = 12,
    Mx = 15,
    Txt = 16,
    Aaaa = 28,
}

/// The name under which an address is asked for (RFC 1035 § 3.5, RFC 3596 § 2.5).
pub(crate) fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digit = |byte: &u8| format!("{:x}.{:x}.", byte & 15, byte >> 4);
            let digits: String = v6.octets().iter().rev().map(digit).collect();
            format!("{digits}ip6.arpa")
        }
    }
}

/// One question, under this id.
pub(super) fn question(id: [u8; 2], name: &str, kind: Kind) -> Result<Vec<u8>, DnsError> {
    let malformed = || DnsError::Name(name.to_owned());
    let mut bytes = id.to_vec();
    // Recursion desired, one question, one additional record (RFC 1035 § 4.1.1).
    bytes.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok();
        let length = length.filter(|length| (1..64).contains(length));
        bytes.push(length.ok_or_else(malformed)?);
        bytes.extend_from_slice(label.as_bytes());
    }
    if name.len() > 253 {
        return Err(malformed());
    }
    bytes.extend_from_slice(&[0, 0, kind as u8, 0, 1]);
    // OPT (RFC 6891 § 6.1): the size of datagrams that we take.
    let [high, low] = (DATAGRAM_BYTES_MAX as u16).to_be_bytes();
    bytes.extend_from_slice(&[0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]);
    Ok(bytes)
}

/// The records of this kind and how long they hold (RFC 1035 § 4).
pub(super) fn read(answer: &[u8], kind: Kind) -> Result<(Vec<String>, Duration), DnsError> {
    let mut reader = Reader { answer, at: 2 };
    let flags = reader.number16()?;
    let truncated = flags & 0x0200 != 0;
    match (flags & 15) as u8 {
        0 if truncated => return Err(DnsError::Malformed),
        0 => {}
        3 => return Ok((Vec::new(), LIFETIME_OF_NOTHING)), // no such name
        code => return Err(DnsError::Server(code)),
    }
    let (questions, answers) = (reader.number16()?, reader.number16()?);
    reader.at = 12;
    for _ in 0..questions {
        reader.name()?;
        reader.skip(4)?;
    }
    let mut records = Vec::new();
    let mut lifetime = LIFETIME_MAX;
    for _ in 0..answers {
        reader.name()?;
        let record_kind = reader.number16()?;
        reader.skip(2)?;
        let seconds = u64::from(reader.number16()?) << 16 | u64::from(reader.number16()?);
        let length = usize::from(reader.number16()?);
        let end = reader.at + length;
        if record_kind == kind as u16 {
            lifetime = lifetime.min(Duration::from_secs(seconds));
            records.push(reader.record(kind, end)?);
        }
        reader.at = end;
    }
    if records.is_empty() {
        lifetime = LIFETIME_OF_NOTHING;
    }
    Ok((records, lifetime))
}

struct Reader<'a> {
    answer: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DnsError> {
        let rest = self.answer.get(self.at..).ok_or(DnsError::Malformed)?;
        let bytes = rest.first_chunk::<N>().ok_or(DnsError::Malformed)?;
        self.at += N;
        Ok(*bytes)
    }

    fn number16(&mut self) -> Result<u16, DnsError> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn skip(&mut self, count: usize) -> Result<(), DnsError> {
        self.at += count;
        if self.at > self.answer.len() {
            return Err(DnsError::Malformed);
        }
        Ok(())
    }

    /// A name, with pointers followed (RFC 1035 § 4.1.4). Each points further back than the last,
    /// so it ends.
    fn name(&mut self) -> Result<String, DnsError> {
        let mut labels: Vec<String> = Vec::new();
        let mut at = self.at;
        let mut behind = None;
        let mut lowest = self.answer.len();
        loop {
            let length = usize::from(*self.answer.get(at).ok_or(DnsError::Malformed)?);
            if length == 0 {
                break;
            }
            if length & 0xC0 == 0xC0 {
                let low = usize::from(*self.answer.get(at + 1).ok_or(DnsError::Malformed)?);
                let target = (length & 0x3F) << 8 | low;
                behind.get_or_insert(at + 2);
                if target >= lowest.min(at) {
                    return Err(DnsError::Malformed);
                }
                (at, lowest) = (target, target);
                continue;
            }
            let label = self.answer.get(at + 1..at + 1 + length);
            let label = label.ok_or(DnsError::Malformed)?;
            labels.push(String::from_utf8_lossy(label).into_owned());
            at += 1 + length;
            if labels.len() > 127 {
                return Err(DnsError::Malformed);
            }
        }
        self.at = behind.unwrap_or(at + 1);
        Ok(labels.join("."))
    }

    fn record(&mut self, kind: Kind, end: usize) -> Result<String, DnsError> {
        match kind {
            Kind::A => self.bytes::<4>().map(|ip| IpAddr::from(ip).to_string()),
            Kind::Aaaa => self.bytes::<16>().map(|ip| IpAddr::from(ip).to_string()),
            Kind::Ptr => self.name(),
            Kind::Mx => {
                let preference = self.number16()?;
                Ok(format!("{preference} {}", self.name()?))
            }
            Kind::Txt => {
                let mut text = Vec::new();
                while self.at < end {
                    let [length] = self.bytes()?;
                    let piece = self.answer.get(self.at..self.at + usize::from(length));
                    text.extend_from_slice(piece.ok_or(DnsError::Malformed)?);
                    self.at += usize::from(length);
                }
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer to `example.org` with a pointer to the name in the question.
    fn answer(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        bytes.extend_from_slice(b"\x07example\x03org\0\0\x01\0\x01");
        bytes.extend_from_slice(&[0xC0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn records_are_read_as_text() {
        for (kind, data, expected) in [
            (Kind::A, &[192, 0, 2, 7][..], "192.0.2.7"),
            (Kind::Mx, b"\0\x0a\x04mail\xC0\x0C", "10 mail.example.org"),
            (Kind::Txt, b"\x03one\x03two", "onetwo"),
            (Kind::Ptr, b"\x04host\xC0\x0C", "host.example.org"),
        ] {
            let (records, lifetime) = read(&answer(kind as u8, data), kind).expect("readable");
            assert_eq!(records, [expected]);
            assert_eq!(lifetime, Duration::from_mins(1));
        }
        let none = read(&answer(5, b"\x01x\xC0\x0C"), Kind::A).expect("readable");
        assert_eq!(none.0, Vec::<String>::new());
    }

    #[test]
    fn names_are_checked_and_addresses_turned() {
        assert!(question([0, 0], "a..b", Kind::A).is_err());
        assert!(question([0, 0], &"a".repeat(64), Kind::A).is_err());
        let v4 = reverse_name("192.0.2.7".parse().expect("an address"));
        assert_eq!(v4, "7.2.0.192.in-addr.arpa");
        let v6 = reverse_name("2001:db8::1".parse().expect("an address"));
        assert!(
            v6.starts_with("1.0.0.0.") && v6.ends_with("8.b.d.0.1.0.0.2.ip6.arpa"),
            "{v6}"
        );
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(code) = bytes.get_mut(3) {
                *code &= 0xF0;
            }
            for kind in [Kind::A, Kind::Aaaa, Kind::Mx, Kind::Ptr, Kind::Txt] {
                let _ = read(&bytes, kind);
            }
        }
    }
}
