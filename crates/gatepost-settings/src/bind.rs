//! Addresses to listen on: `"127.0.0.1:1883"`, `"[::1]:1883"` or `"unix:/run/gatepost.sock"`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on or to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bind {
    /// An IP address and a TCP port; port 0 selects any free port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl Bind {
    /// Whether the address is reachable from this machine only.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// The text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an address to listen on; write an IP address and a port, such as \
     \"127.0.0.1:1883\" or \"[::]:1883\", or \"unix:/path\""
)]
pub struct MalformedBind(String);

impl FromStr for Bind {
    type Err = MalformedBind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedBind(text.chars().take(200).collect());
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(malformed());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        // `localhost` is the only host name that needs no resolver.
        let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
        numeric.parse().map(Self::Tcp).map_err(|_| malformed())
    }
}

super::serde_as_text!(Bind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_written() {
        for text in [
            "127.0.0.1:1883",
            "[::1]:1883",
            "0.0.0.0:0",
            "unix:/run/gatepost.sock",
        ] {
            let bind: Bind = text.parse().expect(text);
            assert_eq!(bind.to_string(), text);
        }
        for text in ["", "1883", "127.0.0.1", "unix:", "example.org:25"] {
            assert!(text.parse::<Bind>().is_err(), "{text}");
        }
    }

    #[test]
    fn loopback_is_distinguished_from_other_addresses() {
        assert!(
            "localhost:80"
                .parse::<Bind>()
                .expect("an address")
                .is_local()
        );
        assert!("unix:/x".parse::<Bind>().expect("a path").is_local());
        assert!(!"0.0.0.0:80".parse::<Bind>().expect("an address").is_local());
    }
}
