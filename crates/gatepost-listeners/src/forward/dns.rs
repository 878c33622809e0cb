//! DNS lookups of forwarding, and whether DNSSEC proves the responses.
//!
//! An answer is authentic if the resolver says so and is trusted: it was named in the settings, or
//! it is on this machine. The answers of any other resolver may have been forged on the way.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gatepost_dns::{
    DnsError, Question, QuestionOutcome, RecordData, RecordType, Resolver, SYSTEM_HOSTS, Tlsa,
    are_local, has_host, system_servers,
};

use super::error::HopError;

/// The time to wait for one server before the next one is queried.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct HopResolver {
    resolver: Resolver,
    is_trusted: bool,
    /// The file of names that the system resolves without a server.
    hosts: PathBuf,
}

/// Records, and whether DNSSEC proves them or proves their absence.
struct SecuredRecords {
    records: Vec<RecordData>,
    is_authentic: bool,
}

impl HopResolver {
    pub(super) fn new(servers: &[SocketAddr]) -> Self {
        Self::with_hosts(servers, Path::new(SYSTEM_HOSTS))
    }

    fn with_hosts(servers: &[SocketAddr], hosts: &Path) -> Self {
        let (servers, is_trusted) = if servers.is_empty() {
            let servers = system_servers();
            let are_local = are_local(&servers);
            (servers, are_local)
        } else {
            (servers.to_vec(), true)
        };
        Self {
            resolver: Resolver::new(servers, SERVER_TIMEOUT),
            is_trusted,
            hosts: hosts.to_owned(),
        }
    }

    async fn find(
        &self,
        name: &str,
        kind: RecordType,
        until: Instant,
    ) -> Result<SecuredRecords, DnsError> {
        let question = Question::new(name, kind);
        let resolved = self.resolver.answer(&question, until).await?;
        Ok(SecuredRecords {
            is_authentic: resolved.is_authentic && self.is_trusted,
            records: match resolved.answer {
                QuestionOutcome::Records(records) => records,
                QuestionOutcome::NoSuchName | QuestionOutcome::Failed(_) => Vec::new(),
            },
        })
    }

    /// The hosts that take mail of a domain with their preferences, the preferred first (RFC 5321,
    /// section 5.1). If this
    /// host, of the name `own`, is among them, only those that are preferred to it are returned.
    pub(super) async fn exchangers(
        &self,
        domain: &str,
        own: &str,
        until: Instant,
    ) -> Result<Vec<(u16, String)>, HopError> {
        let found = self.find(domain, RecordType::Mx, until).await;
        let found = found.map_err(unresolved(domain, "MX"))?;
        let mut exchangers: Vec<(u16, u64, String)> = Vec::new();
        for record in found.records {
            if let RecordData::Exchanger { preference, name } = record {
                exchangers.push((preference, random(), name));
            }
        }
        // RFC 7505, section 3: the root domain means that the domain accepts no mail.
        if exchangers.iter().any(|(_, _, name)| name.is_empty()) {
            return Err(HopError::NoMail(domain.to_owned()));
        }
        if exchangers.is_empty() {
            exchangers.push((0, 0, domain.to_owned()));
        }
        drop_from_own(&mut exchangers, own);
        if exchangers.is_empty() {
            return Err(HopError::ThisServer(own.to_owned()));
        }
        // Hosts of the same preference may be in any order.
        exchangers.sort();
        let named = |(preference, _, name)| (preference, name);
        Ok(exchangers.into_iter().map(named).collect())
    }

    /// The addresses of a host.
    pub(super) async fn addresses(
        &self,
        host: &str,
        until: Instant,
    ) -> Result<Vec<IpAddr>, HopError> {
        let (four, six) = tokio::join!(
            self.find(host, RecordType::A, until),
            self.find(host, RecordType::Aaaa, until)
        );
        let mut addresses = Vec::new();
        let mut failure = None;
        for found in [four, six] {
            match found {
                Ok(found) => addresses.extend(found.records.iter().filter_map(address)),
                Err(cause) => failure = Some(cause),
            }
        }
        match failure {
            Some(cause) if addresses.is_empty() => Err(unresolved(host, "A and AAAA")(cause)),
            _ => Ok(addresses),
        }
    }

    /// The TLSA records of a host that the system resolves. Where the system has its address from a
    /// file, DNSSEC proves nothing about that address (RFC 7672, section 2.2.2), and servers may
    /// not know the name. The file is read each time, as the system does to connect.
    pub(super) async fn tlsa_of_named(
        &self,
        host: &str,
        port: u16,
        until: Instant,
    ) -> Result<Option<Vec<Tlsa>>, HopError> {
        let hosts = std::fs::read(&self.hosts).unwrap_or_default();
        if has_host(&String::from_utf8_lossy(&hosts), host) {
            return Ok(None);
        }
        self.tlsa(host, port, until).await
    }

    /// The TLSA records of a service that DNSSEC proves; `None` if it proves none.
    pub(super) async fn tlsa(
        &self,
        host: &str,
        port: u16,
        until: Instant,
    ) -> Result<Option<Vec<Tlsa>>, HopError> {
        if !self.is_trusted || !is_name(host) {
            return Ok(None);
        }
        let service = format!("_{port}._tcp.{host}");
        let found = match self.find(&service, RecordType::Tlsa, until).await {
            Ok(found) => found,
            Err(cause) => return self.without_tlsa(host, &service, cause, until).await,
        };
        if !found.is_authentic {
            return Ok(None);
        }
        let mut records = Vec::new();
        for record in found.records {
            if let RecordData::Tlsa(record) = record {
                records.push(record);
            }
        }
        Ok((!records.is_empty()).then_some(records))
    }

    /// RFC 7672, section 2.2.2: name servers of zones without DNSSEC need not support TLSA; in a
    /// zone with DNSSEC an attacker may suppress the answer.
    async fn without_tlsa(
        &self,
        host: &str,
        service: &str,
        cause: DnsError,
        until: Instant,
    ) -> Result<Option<Vec<Tlsa>>, HopError> {
        match self.find(host, RecordType::A, until).await {
            Ok(found) if !found.is_authentic => Ok(None),
            _ => Err(unresolved(service, "TLSA")(cause)),
        }
    }

    /// The texts of a name; none if they are not known.
    pub(super) async fn texts(&self, name: &str, until: Instant) -> Vec<Vec<u8>> {
        let found = self.find(name, RecordType::Txt, until).await;
        let records = found.map(|found| found.records).unwrap_or_default();
        let text = |record| match record {
            RecordData::Text(text) => Some(text),
            _ => None,
        };
        records.into_iter().filter_map(text).collect()
    }
}

/// Drops this host, and all of the same or a lower preference: they would pass the mail to this
/// host again (RFC 5321, section 5.1).
fn drop_from_own(exchangers: &mut Vec<(u16, u64, String)>, own: &str) {
    let is_own = |name: &str| {
        let name = name.strip_suffix('.').unwrap_or(name);
        name.eq_ignore_ascii_case(own.strip_suffix('.').unwrap_or(own))
    };
    let owns = exchangers.iter().filter(|(_, _, name)| is_own(name));
    if let Some(best) = owns.map(|(preference, _, _)| *preference).min() {
        exchangers.retain(|(preference, _, _)| *preference < best);
    }
}

fn unresolved(name: &str, kind: &'static str) -> impl FnOnce(DnsError) -> HopError {
    let name = name.to_owned();
    move |cause| HopError::Unresolved { name, kind, cause }
}

const fn address(record: &RecordData) -> Option<IpAddr> {
    match record {
        RecordData::A(address) => Some(IpAddr::V4(*address)),
        RecordData::Aaaa(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

/// Whether DNS can prove anything about this host: that is impossible for an address, and for a
/// name of the local network, which has no dot, such as that of a container.
fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err() && host.contains('.')
}

/// Any number: each state of the standard library's hasher is different.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A server that answers every query with SERVFAIL, like a resolver that cannot reach the
    /// zone's servers.
    fn failing_server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        std::thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut message) {
                message[2..4].copy_from_slice(&[0x81, 0x82]);
                // The resolver may have ended.
                let _ = socket.send_to(&message[..length], peer);
            }
        });
        address
    }

    #[test]
    fn this_host_and_those_behind_it_are_no_next_hop() {
        let exchangers = [
            (10, "first"),
            (20, "Gate.example."),
            (20, "same"),
            (30, "last"),
        ];
        for (own, expected) in [
            ("gate.example", &["first"][..]),
            ("FIRST", &[]),
            ("other", &["first", "Gate.example.", "same", "last"]),
        ] {
            let mut left: Vec<(u16, u64, String)> = exchangers
                .iter()
                .map(|(preference, name)| (*preference, 0, (*name).to_owned()))
                .collect();
            drop_from_own(&mut left, own);
            let names: Vec<&str> = left.iter().map(|(_, _, name)| name.as_str()).collect();
            assert_eq!(names, expected, "{own}");
        }
    }

    #[tokio::test]
    async fn a_failure_defers_names_of_dns_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = folder.path().join("hosts");
        std::fs::write(&hosts, "127.0.0.1 box.example\n").expect("written");
        let dns = HopResolver::with_hosts(&[failing_server()], &hosts);
        let until = Instant::now() + Duration::from_mins(1);
        let here = dns.tlsa_of_named("Box.example", 25, until).await;
        assert!(matches!(here, Ok(None)), "the file has it");
        let elsewhere = dns.tlsa_of_named("far.example", 25, until).await;
        assert!(elsewhere.is_err(), "an answer may be kept back");
        // An MX has its addresses in DNS, whatever the file contains.
        let exchanger = dns.tlsa("box.example", 25, until).await;
        assert!(exchanger.is_err());
    }
}
