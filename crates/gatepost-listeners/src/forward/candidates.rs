//! The hosts of a next hop: the host that it names, or those of a domain's MX records.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Instant;

use super::ForwardContext;
use super::error::HopError;
use super::next_hop::{HopAddress, NextHop, SMTP_PORT};

/// Hosts of a domain that are tried for one message.
const EXCHANGERS_TRIED_MAX: usize = 5;

/// One host.
pub(super) struct HostCandidate {
    pub(super) target: ConnectTarget,
    /// Its name, for certificates and TLSA records.
    pub(super) name: String,
    pub(super) port: u16,
    /// The preference of an MX, which DNS names and not the settings.
    pub(super) preference: Option<u16>,
}

impl HostCandidate {
    /// Whether it is an MX.
    pub(super) const fn is_exchanger(&self) -> bool {
        self.preference.is_some()
    }
}

/// A target to connect to.
pub(super) enum ConnectTarget {
    /// Host and port, for the system to resolve.
    Named(String),
    /// An MX, by its name.
    Exchanger(String, u16),
    Unix(PathBuf),
}

impl ForwardContext {
    /// The hosts of a next hop, the preferred first. Those of a domain that lead back to this host,
    /// of the name `own`, are left out.
    pub(super) async fn candidates(
        &self,
        next_hop: &NextHop,
        own: &str,
        until: Instant,
    ) -> Result<Vec<HostCandidate>, HopError> {
        let own_name = || match self.settings.tls_name.as_str() {
            "" => next_hop.host().to_owned(),
            name => name.to_owned(),
        };
        Ok(match &next_hop.place {
            HopAddress::Tcp(place) => vec![HostCandidate {
                target: ConnectTarget::Named(place.clone()),
                name: own_name(),
                port: next_hop.port(),
                preference: None,
            }],
            HopAddress::Unix(path) => vec![HostCandidate {
                target: ConnectTarget::Unix(path.clone()),
                name: own_name(),
                port: 0,
                preference: None,
            }],
            HopAddress::Exchangers { domain, port } => {
                let exchangers = self.dns.exchangers(domain, own, until).await?;
                let candidate = |(preference, name): (u16, String)| HostCandidate {
                    target: ConnectTarget::Exchanger(name.clone(), *port),
                    name,
                    port: *port,
                    preference: Some(preference),
                };
                let tried = exchangers.into_iter().take(EXCHANGERS_TRIED_MAX);
                tried.map(candidate).collect()
            }
        })
    }

    /// Whether an MX of this preference is a port of this server under another name. Then no host
    /// of the same or a lower preference is tried: it would pass the mail to this server (RFC 5321,
    /// section 5.1). The addresses of hosts of lower preference are not looked up for that.
    pub(super) async fn is_own_preference(
        &self,
        candidates: &[HostCandidate],
        preference: u16,
        until: Instant,
    ) -> bool {
        let alike = candidates.iter();
        let alike = alike.filter(|candidate| candidate.preference == Some(preference));
        for candidate in alike.filter(|candidate| self.own_ports.contains(&candidate.port)) {
            // The connection to a host without known addresses fails by itself.
            let addresses = self.dns.addresses(&candidate.name, until).await;
            if addresses.unwrap_or_default().into_iter().any(is_own) {
                return true;
            }
        }
        false
    }

    /// The port of an MX.
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
        until: Instant,
    ) -> Result<Vec<SocketAddr>, HopError> {
        let addresses = self.dns.addresses(host, until).await?;
        let places = addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port));
        Ok(places.collect())
    }
}

/// Whether an address is one of this machine: the system would send from it to itself. Nothing is
/// sent for that.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, SMTP_PORT))?;
        socket.local_addr()
    });
    address.is_loopback() || from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gatepost_settings::Bind;

    use super::*;
    use crate::forward::ForwardSettings;

    /// A name server by which names that begin with `self` have an address of this machine, and
    /// others an address of another one.
    fn name_server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let place = socket.local_addr().expect("an address");
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut query) {
                let name = query[12..length].iter().position(|byte| *byte == 0);
                let question_end = 12 + name.expect("a name") + 5;
                let is_a = query[question_end - 3] == 1;
                let address = if query[13..17].eq_ignore_ascii_case(b"self") {
                    [127, 0, 0, 1]
                } else {
                    [192, 0, 2, 1]
                };
                query[2..4].copy_from_slice(&[0x81, 0x80]);
                query[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
                let mut answer = query[..question_end].to_vec();
                if is_a {
                    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                    answer.extend(address);
                }
                // The resolver may have ended.
                let _ = socket.send_to(&answer, peer);
            }
        });
        place
    }

    #[tokio::test]
    async fn this_server_under_another_name_ends_the_hosts_of_its_preference() {
        let exchanger = |name: &str, preference| HostCandidate {
            target: ConnectTarget::Exchanger(name.to_owned(), SMTP_PORT),
            name: name.to_owned(),
            port: SMTP_PORT,
            preference: Some(preference),
        };
        let candidates = [
            exchanger("first.example", 5),
            exchanger("other.example", 10),
            exchanger("self.example", 10),
        ];
        let context = |own: &str| {
            let settings = ForwardSettings {
                dns_servers: vec![name_server()],
                ..ForwardSettings::default()
            };
            let own = Bind::Tcp(own.parse().expect("an address"));
            ForwardContext::new(settings).except(&[own])
        };
        for (own, preference, expected) in [
            ("0.0.0.0:25", 5, false),
            ("0.0.0.0:25", 10, true),
            ("0.0.0.0:2525", 10, false),
        ] {
            let until = Instant::now() + Duration::from_secs(30);
            let forward = context(own);
            let found = forward.is_own_preference(&candidates, preference, until);
            assert_eq!(found.await, expected, "{own} {preference}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own(Ipv4Addr::new(127, 8, 8, 8).into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
