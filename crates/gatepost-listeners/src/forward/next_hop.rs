//! The name of a next hop: `smtp://HOST:PORT`, `smtps://HOST:PORT`, `lmtp://HOST:PORT`,
//! `lmtp://unix:/PATH`, `mx://DOMAIN`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A mail server that mail is forwarded to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NextHop {
    pub(super) speaks_lmtp: bool,
    /// TLS from the first byte on (RFC 8314, section 3.3).
    pub(super) is_encrypted: bool,
    pub(super) place: HopAddress,
}

/// The address of the next hop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HopAddress {
    /// A name or an address, with its port.
    Tcp(String),
    Unix(PathBuf),
    /// On the hosts that the domain's MX records name.
    Exchangers {
        domain: String,
        port: u16,
    },
}

/// The port of the hosts in MX records (RFC 5321, section 4.5.4.2).
pub(super) const SMTP_PORT: u16 = 25;

/// The text does not name a next hop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a next hop; write smtp://127.0.0.1:10026, smtps://mail.example.org:465, \
     lmtp://127.0.0.1:24, lmtp://unix:/run/lmtp or mx://example.org"
)]
pub struct MalformedNextHop(String);

impl NextHop {
    /// The name or address of its machine.
    pub(super) fn host(&self) -> &str {
        match &self.place {
            HopAddress::Tcp(place) => {
                let host = place.rsplit_once(':').map_or("", |(host, _)| host);
                let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
                bare.unwrap_or(host)
            }
            HopAddress::Unix(_) => "localhost",
            HopAddress::Exchangers { domain, .. } => domain,
        }
    }

    /// Whether the next hop is on this machine, so that no other machine can read the mail.
    pub(super) fn is_local(&self) -> bool {
        let host = self.host();
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
    }

    /// The port that it listens on; 0 for a path.
    pub(super) fn port(&self) -> u16 {
        match &self.place {
            HopAddress::Tcp(place) => {
                let port = place.rsplit_once(':').map(|(_, port)| port.parse());
                port.and_then(Result::ok).unwrap_or_default()
            }
            HopAddress::Unix(_) => 0,
            HopAddress::Exchangers { port, .. } => *port,
        }
    }

    /// The domain whose MX records name it.
    pub(super) fn domain(&self) -> Option<&str> {
        match &self.place {
            HopAddress::Exchangers { domain, .. } => Some(domain),
            HopAddress::Tcp(_) | HopAddress::Unix(_) => None,
        }
    }
}

/// `DOMAIN` or `DOMAIN:PORT`.
fn exchangers(text: &str) -> Option<HopAddress> {
    let (domain, port) = match text.rsplit_once(':') {
        Some((domain, port)) => (domain, port.parse().ok()?),
        None => (text, SMTP_PORT),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let fits = !domain.is_empty() && domain.bytes().all(is_name);
    (fits && domain.parse::<IpAddr>().is_err()).then(|| HopAddress::Exchangers {
        domain: domain.to_ascii_lowercase(),
        port,
    })
}

impl FromStr for NextHop {
    type Err = MalformedNextHop;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedNextHop(text.chars().take(80).collect());
        let (scheme, place) = text.split_once("://").ok_or_else(malformed)?;
        let (speaks_lmtp, is_encrypted) = match scheme {
            "smtp" => (false, false),
            "smtps" => (false, true),
            "lmtp" => (true, false),
            "mx" => {
                let place = exchangers(place).ok_or_else(malformed)?;
                return Ok(Self {
                    speaks_lmtp: false,
                    is_encrypted: false,
                    place,
                });
            }
            _ => return Err(malformed()),
        };
        let place = if let Some(path) = place.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(malformed());
            }
            HopAddress::Unix(PathBuf::from(path))
        } else {
            let (host, port) = place.rsplit_once(':').ok_or_else(malformed)?;
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            let fits = !host.is_empty() && host.bytes().all(is_host);
            if !fits || port.parse::<u16>().is_err() {
                return Err(malformed());
            }
            HopAddress::Tcp(place.to_owned())
        };
        Ok(Self {
            speaks_lmtp,
            is_encrypted,
            place,
        })
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.speaks_lmtp, self.is_encrypted) {
            (true, _) => "lmtp",
            (false, true) => "smtps",
            (false, false) => "smtp",
        };
        match &self.place {
            HopAddress::Tcp(place) => write!(formatter, "{scheme}://{place}"),
            HopAddress::Unix(path) => write!(formatter, "{scheme}://unix:{}", path.display()),
            HopAddress::Exchangers {
                domain,
                port: SMTP_PORT,
            } => write!(formatter, "mx://{domain}"),
            HopAddress::Exchangers { domain, port } => write!(formatter, "mx://{domain}:{port}"),
        }
    }
}

impl TryFrom<String> for NextHop {
    type Error = MalformedNextHop;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NextHop> for String {
    fn from(next_hop: NextHop) -> Self {
        next_hop.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for name in [
            "smtp://127.0.0.1:10026",
            "smtp://[::1]:25",
            "smtps://mail.example.org:465",
            "lmtp://mail.example.org:24",
            "lmtp://unix:/run/dovecot/lmtp",
            "mx://example.org",
            "mx://example.org:2525",
        ] {
            let next_hop: NextHop = name.parse().expect(name);
            assert_eq!(next_hop.to_string(), name);
        }
        for name in [
            "",
            "127.0.0.1:25",
            "smtp://127.0.0.1",
            "smtp://:25",
            "smtp://a b:25",
            "smtp://a:70000",
            "http://a:80",
            "smtps://a",
            "lmtp://unix:relative",
            "mx://",
            "mx://192.0.2.1",
            "mx://example.org:port",
        ] {
            assert!(name.parse::<NextHop>().is_err(), "{name}");
        }
    }
}
