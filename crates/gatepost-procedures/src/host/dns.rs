//! Questions to the domain name system, for procedures: a stub resolver over UDP (RFC 1035), with
//! answers kept as long as they are valid.
//!
//! Written here, since a judge thread may wait and needs no runtime: one datagram out, one in. An
//! answer that was cut short is an error; no list that procedures ask is that long.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_settings::Period;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Memory;

/// Answers that are kept; the first to expire makes room.
const ANSWERS_MAX: usize = 10_000;
/// No answer is kept for longer.
const LIFETIME_MAX: Duration = Duration::from_hours(1);
/// That there is nothing is kept so long (RFC 2308 § 5 allows more).
const LIFETIME_OF_NOTHING: Duration = Duration::from_mins(1);
const PORT: u16 = 53;
/// RFC 6891: what we take in one datagram.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// `[procedures.dns]`: what `dns.…` of Luau procedures asks.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DnsSettings {
    /// The servers, in order, with their port; empty takes those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long to wait for each server's answer; never longer than the procedure's `time_max`.
    pub timeout: Period,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Period::seconds(2),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    A = 1,
    Ptr = 12,
    Mx = 15,
    Txt = 16,
    Aaaa = 28,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DnsError {
    #[error("'{0}' is no name of the domain name system")]
    Name(String),
    #[error("no server of names answered in time")]
    Timeout,
    #[error("the server of names failed with code {0}")]
    Server(u8),
    #[error("the answer cannot be read")]
    Malformed,
    #[error(
        "there is no server of names: procedures.dns.servers is empty, and so is /etc/resolv.conf"
    )]
    NoServer,
}

type Asked = (String, Kind);

/// Answers that are still valid.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<Asked, Known>>);

/// Until when records are valid, and which.
type Known = (Instant, Arc<[String]>);

pub(crate) struct Dns {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    memory: Arc<Memory>,
}

impl Dns {
    pub(super) fn new(settings: &DnsSettings, memory: &Arc<Memory>) -> Self {
        let servers = if settings.servers.is_empty() {
            let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
            servers_of(&text)
        } else {
            settings.servers.clone()
        };
        Self {
            servers,
            timeout: settings.timeout.duration(),
            memory: Arc::clone(memory),
        }
    }

    /// The records as text, none if there is no such name or no such record: addresses, names,
    /// texts, and for MX `preference name`. Waits until `deadline` at most.
    pub(crate) fn ask(
        &self,
        name: &str,
        kind: Kind,
        deadline: Instant,
    ) -> Result<Arc<[String]>, DnsError> {
        let asked = (name.trim_end_matches('.').to_ascii_lowercase(), kind);
        if let Some((until, records)) = self.memory.names.0.lock().get(&asked)
            && *until > Instant::now()
        {
            return Ok(Arc::clone(records));
        }
        let (records, lifetime) = self.ask_servers(&asked, deadline)?;
        let records: Arc<[String]> = records.into();
        self.memory.names.keep(asked, &records, lifetime);
        Ok(records)
    }

    fn ask_servers(
        &self,
        (name, kind): &Asked,
        deadline: Instant,
    ) -> Result<(Vec<String>, Duration), DnsError> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|_| DnsError::Timeout)?;
        let question = question(id, name, *kind)?;
        let mut last = DnsError::NoServer;
        for server in &self.servers {
            let now = Instant::now();
            let until = deadline.min(now + self.timeout);
            if until <= now {
                return Err(DnsError::Timeout);
            }
            match exchange(*server, &question, until) {
                Some(answer) => match read(&answer, *kind) {
                    Ok(found) => return Ok(found),
                    Err(error) => last = error,
                },
                None => last = DnsError::Timeout,
            }
        }
        Err(last)
    }
}

impl Answers {
    fn keep(&self, asked: Asked, records: &Arc<[String]>, lifetime: Duration) {
        let now = Instant::now();
        let mut kept = self.0.lock();
        if kept.len() >= ANSWERS_MAX {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() >= ANSWERS_MAX {
            let first = kept.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(asked, _)| asked.clone()) {
                kept.remove(&first);
            }
        }
        kept.insert(
            asked,
            (now + lifetime.min(LIFETIME_MAX), Arc::clone(records)),
        );
    }
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

fn servers_of(resolv_conf: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok())?
    };
    let addresses = resolv_conf.lines().filter_map(address);
    addresses.map(|ip| SocketAddr::new(ip, PORT)).collect()
}

fn question(id: [u8; 2], name: &str, kind: Kind) -> Result<Vec<u8>, DnsError> {
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

/// Sends the question and waits for the answer to it; strangers' datagrams are passed over.
fn exchange(server: SocketAddr, question: &[u8], until: Instant) -> Option<Vec<u8>> {
    let any: SocketAddr = if server.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    socket.send(question).ok()?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        socket
            .set_read_timeout(Some(left.max(Duration::from_millis(1))))
            .ok()?;
        let length = socket.recv(&mut answer).ok()?;
        let ours = length >= 12 && answer.get(..2) == question.get(..2);
        if ours {
            answer.truncate(length);
            return Some(answer);
        }
    }
}

/// The records of this kind and how long they hold (RFC 1035 § 4).
fn read(answer: &[u8], kind: Kind) -> Result<(Vec<String>, Duration), DnsError> {
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
        let conf = "# none\nnameserver 192.0.2.53\nnameserver ::1\noptions x\n";
        let servers = servers_of(conf);
        assert_eq!(servers[0].to_string(), "192.0.2.53:53");
        assert_eq!(servers[1].to_string(), "[::1]:53");
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
