//! DNS messages: questions out, answers in (RFC 1035, section 4).
//!
//! An answer is untrusted input: every length is checked, and a pointer in a name must point
//! backwards, so that no name is endless.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::tlsa::Tlsa;

/// The longest name in its written form, RFC 1035, section 2.3.4.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
const HEADER_BYTES: usize = 12;
/// The largest answer that is accepted over UDP (RFC 6891); small enough not to be fragmented.
pub(crate) const ANSWER_BYTES_MAX: u16 = 1232;
/// Number of records of an answer that are read.
const RECORDS_MAX: u16 = 200;

/// The type of record that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordType {
    /// An IPv4 address.
    A,
    /// A name server.
    Ns,
    /// A mail exchanger.
    Mx,
    /// A text.
    Txt,
    /// An IPv6 address.
    Aaaa,
    /// The name of an address.
    Ptr,
    /// The certificate of a TLS server (RFC 6698).
    Tlsa,
}

impl RecordType {
    const ALL: [(Self, u16, &'static str); 7] = [
        (Self::A, 1, "A"),
        (Self::Ns, 2, "NS"),
        (Self::Ptr, 12, "PTR"),
        (Self::Mx, 15, "MX"),
        (Self::Txt, 16, "TXT"),
        (Self::Aaaa, 28, "AAAA"),
        (Self::Tlsa, 52, "TLSA"),
    ];

    fn code(self) -> u16 {
        Self::ALL
            .iter()
            .find(|known| known.0 == self)
            .map_or(1, |known| known.1)
    }

    fn of_code(code: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|known| known.1 == code)
            .map(|known| known.0)
    }

    /// The type of this name, in any case: `A`, `txt`.
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |known: &&(Self, u16, &str)| known.2.eq_ignore_ascii_case(name);
        Self::ALL.iter().find(is_it).map(|known| known.0)
    }
}

/// A question: a name and a type of record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Question {
    /// In lower case, without a trailing dot.
    pub name: String,
    /// The type of record.
    pub kind: RecordType,
}

impl Question {
    /// A question about a name in any case, with or without a trailing dot.
    pub fn new(name: &str, kind: RecordType) -> Self {
        Self {
            name: name.trim_end_matches('.').to_ascii_lowercase(),
            kind,
        }
    }

    /// Whether the name is valid in a question.
    pub fn is_valid(&self) -> bool {
        let is_label =
            |label: &str| !label.is_empty() && label.len() <= LABEL_BYTES_MAX && label.is_ascii();
        self.name.len() <= NAME_BYTES_MAX && self.name.split('.').all(is_label)
    }

    /// The question as a message; `None` if its name is invalid.
    pub(crate) fn message(&self, id: u16) -> Option<Vec<u8>> {
        if !self.is_valid() {
            return None;
        }
        let mut out = Vec::with_capacity(HEADER_BYTES + self.name.len() + 17);
        out.extend_from_slice(&id.to_be_bytes());
        // Recursion desired, and a request for the authentic-data flag (RFC 6840, section 5.7); one
        // question, one additional record.
        out.extend_from_slice(&[0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 1]);
        for label in self.name.split('.') {
            let length = u8::try_from(label.len()).ok()?;
            out.push(length);
            out.extend_from_slice(label.as_bytes());
        }
        out.push(0);
        out.extend_from_slice(&self.kind.code().to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        // EDNS: the root, type OPT, the accepted size, no options (RFC 6891, section 6.1.2).
        out.extend_from_slice(&[0, 0, 41]);
        out.extend_from_slice(&ANSWER_BYTES_MAX.to_be_bytes());
        out.extend_from_slice(&[0; 6]);
        Some(out)
    }
}

/// The data of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordData {
    /// An IPv4 address.
    A(Ipv4Addr),
    /// An IPv6 address.
    Aaaa(Ipv6Addr),
    /// The name of a name server (NS) or of a host (PTR), in lower case.
    Name(String),
    /// A mail exchanger (MX).
    Exchanger {
        /// Lower values are preferred.
        preference: u16,
        /// In lower case.
        name: String,
    },
    /// All texts of a TXT record, joined.
    Text(Vec<u8>),
    /// The certificate of a TLS server.
    Tlsa(Tlsa),
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// The records of the requested type; there may be none.
    Records(Vec<RecordData>),
    /// The name does not exist.
    NoSuchName,
    /// The server gave no answer.
    Failed(ServerFailure),
}

/// The reason why a server's response contains no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServerFailure {
    /// The server failed with this response code (RFC 1035, section 4.1.1).
    #[error("the DNS server failed with code {0}")]
    Server(u8),
    /// The answer does not fit into a datagram, and there is no answer over TCP.
    #[error("the DNS server's answer is truncated, and there is none by TCP")]
    Incomplete,
}

/// An answer, and the time for which it may be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The server's answer.
    pub answer: QuestionOutcome,
    /// The smallest time to live of its records; zero if it has none.
    pub lifetime: Duration,
    /// Whether the server states that DNSSEC validated it (AD, RFC 4035, section 3.2.3). The
    /// statement is only as trustworthy as the server and the path to it.
    pub is_authentic: bool,
}

/// A message that answers a question.
#[derive(Debug, PartialEq, Eq)]
pub struct DnsResponse {
    /// The id that the client chose.
    pub id: u16,
    /// The question that it repeats.
    pub question: Question,
    /// The answer and its lifetime.
    pub resolved: Resolved,
    /// Whether the answer did not fit and must be requested over TCP.
    pub is_truncated: bool,
}

/// Reads an answer; `None` if the message is not one.
pub fn read(message: &[u8]) -> Option<DnsResponse> {
    let number = |at: usize| {
        let bytes = message.get(at..at + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    };
    let flags = number(2)?;
    let (questions, answers) = (number(4)?, number(6)?);
    let is_answer = flags & 0x8000 != 0;
    if !is_answer || questions != 1 {
        return None;
    }
    let (name, at) = name(message, HEADER_BYTES)?;
    let kind = RecordType::of_code(number(at)?)?;
    let mut at = at + 4;
    let mut records = Vec::new();
    let mut lifetime: Option<u32> = None;
    for _ in 0..answers.min(RECORDS_MAX) {
        let Some((found, next)) = record(message, at, kind) else {
            break;
        };
        if let Some((record, seconds)) = found {
            records.push(record);
            lifetime = Some(lifetime.map_or(seconds, |least| least.min(seconds)));
        }
        at = next;
    }
    let answer = match flags & 0x000f {
        0 => QuestionOutcome::Records(records),
        3 => QuestionOutcome::NoSuchName,
        code => QuestionOutcome::Failed(ServerFailure::Server(code as u8)),
    };
    Some(DnsResponse {
        id: number(0)?,
        question: Question { name, kind },
        resolved: Resolved {
            answer,
            lifetime: Duration::from_secs(lifetime.unwrap_or(0).into()),
            is_authentic: flags & 0x0020 != 0,
        },
        is_truncated: flags & 0x0200 != 0,
    })
}

/// The record at an offset with its time to live in seconds, if it is of this type, and the offset
/// of the next record.
fn record(
    message: &[u8],
    at: usize,
    kind: RecordType,
) -> Option<(Option<(RecordData, u32)>, usize)> {
    let (_, at) = name(message, at)?;
    let fixed: &[u8; 10] = message.get(at..at + 10)?.try_into().ok()?;
    let code = u16::from_be_bytes([fixed[0], fixed[1]]);
    let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let start = at + 10;
    let data = message.get(start..start + length)?;
    let next = start + length;
    if RecordType::of_code(code) != Some(kind) {
        return Some((None, next));
    }
    let record = match kind {
        RecordType::A => RecordData::A(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?)),
        RecordType::Aaaa => RecordData::Aaaa(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?)),
        RecordType::Ns | RecordType::Ptr => RecordData::Name(name(message, start)?.0),
        RecordType::Mx => RecordData::Exchanger {
            preference: u16::from_be_bytes(*data.first_chunk()?),
            name: name(message, start + 2)?.0,
        },
        RecordType::Txt => RecordData::Text(texts(data)),
        RecordType::Tlsa => RecordData::Tlsa(Tlsa::read(data)?),
    };
    let lifetime = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    Some((Some((record, lifetime)), next))
}

/// The texts of a TXT record, each preceded by its length.
fn texts(mut data: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(data.len());
    while let Some((&length, rest)) = data.split_first() {
        let length = usize::from(length).min(rest.len());
        let (part, rest) = rest.split_at(length);
        text.extend_from_slice(part);
        data = rest;
    }
    text
}

/// The name at an offset, in lower case, and the offset after it.
fn name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = start;
    let mut end = None;
    loop {
        let length = *message.get(at)?;
        match length & 0xc0 {
            0 if length == 0 => return Some((name, end.unwrap_or(at + 1))),
            0 => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(
                    label
                        .iter()
                        .map(|&byte| char::from(byte.to_ascii_lowercase())),
                );
                if name.len() > 2 * NAME_BYTES_MAX {
                    return None;
                }
                at += 1 + usize::from(length);
            }
            0xc0 => {
                let low = *message.get(at + 1)?;
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                end.get_or_insert(at + 2);
                // Pointers must point backwards: the preceding bytes were written earlier.
                if target >= at {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_question_is_read_back() {
        let question = Question::new("Example.ORG.", RecordType::Txt);
        let mut message = question.message(7).unwrap();
        assert!(read(&message).is_none(), "a question is not an answer");
        assert_eq!(message[3], 0x20, "asks whether the answer is authentic");
        message[2] |= 0x80;
        message[7] = 1;
        message.truncate(message.len() - 11);
        message.extend_from_slice(b"\xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x06\x02ab\x02cd");
        let reply = read(&message).unwrap();
        assert_eq!((reply.id, &reply.question), (7, &question));
        assert_eq!(
            reply.resolved.answer,
            QuestionOutcome::Records(vec![RecordData::Text(b"abcd".to_vec())])
        );
        assert_eq!(reply.resolved.lifetime, Duration::from_mins(1));
        assert!(reply.resolved.is_authentic);
        message[3] = 0;
        let reply = read(&message).unwrap();
        assert!(!reply.resolved.is_authentic);
    }

    /// An answer to `example.org` with a pointer to the name in the question.
    fn answer(kind: RecordType, code: u8, data: &[u8]) -> QuestionOutcome {
        let mut message = vec![0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        message.extend_from_slice(b"\x07example\x03org\0\0");
        message.extend_from_slice(&[kind.code() as u8, 0, 1]);
        message.extend_from_slice(&[0xc0, 12, 0, code, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend_from_slice(data);
        read(&message).expect("an answer").resolved.answer
    }

    #[test]
    fn records_are_read_by_their_kind() {
        let name = |name: &str| RecordData::Name(name.to_owned());
        let exchanger = RecordData::Exchanger {
            preference: 10,
            name: "mail.example.org".to_owned(),
        };
        for (kind, data, expected) in [
            (
                RecordType::A,
                &[192, 0, 2, 7][..],
                RecordData::A([192, 0, 2, 7].into()),
            ),
            (RecordType::Mx, b"\0\x0a\x04mail\xC0\x0C", exchanger),
            (
                RecordType::Txt,
                b"\x03one\x03two",
                RecordData::Text(b"onetwo".to_vec()),
            ),
            (
                RecordType::Ptr,
                b"\x04host\xC0\x0C",
                name("host.example.org"),
            ),
            (RecordType::Ns, b"\x02NS\xC0\x0C", name("ns.example.org")),
            (
                RecordType::Tlsa,
                b"\x03\x01\x01digest",
                RecordData::Tlsa(Tlsa {
                    usage: 3,
                    selector: 1,
                    matching: 1,
                    data: b"digest".to_vec(),
                }),
            ),
        ] {
            let found = answer(kind, kind.code() as u8, data);
            assert_eq!(found, QuestionOutcome::Records(vec![expected]));
        }
        let other_kind = answer(RecordType::A, 5, b"\x01x\xC0\x0C");
        assert_eq!(other_kind, QuestionOutcome::Records(Vec::new()));
        for (kind, data) in [
            (RecordType::Mx, &b"\0"[..]),
            (RecordType::Tlsa, b"\x03\x01"),
        ] {
            let too_short = answer(kind, kind.code() as u8, data);
            assert_eq!(too_short, QuestionOutcome::Records(Vec::new()));
        }
    }

    #[test]
    fn invalid_names() {
        let long = format!("{}.org", "a".repeat(64));
        for name in [
            "",
            ".",
            "a..b",
            &long,
            "b\u{fc}cher.example",
            &"a.".repeat(200),
        ] {
            assert!(
                Question::new(name, RecordType::A).message(1).is_none(),
                "{name}"
            );
        }
    }

    #[test]
    fn pointers_only_lead_backwards() {
        let mut message = vec![0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
        assert!(read(&message).is_none());
    }

    proptest! {
        #[test]
        fn no_answer_breaks_the_reader(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&message);
        }
    }
}
