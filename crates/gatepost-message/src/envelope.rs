//! The sender and the recipients of a message, and its listener.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The listener that received a message. The names are those of the config's `listeners.NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the protocols'
pub enum Listener {
    Smtp,
    Lmtp,
    Milter,
    Spamd,
    Pop3,
    Mqtt,
    Http,
    Call,
}

impl Listener {
    /// All listeners, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Smtp,
        Self::Lmtp,
        Self::Milter,
        Self::Spamd,
        Self::Pop3,
        Self::Mqtt,
        Self::Http,
        Self::Call,
    ];

    /// The name in the configuration, logs, metrics and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smtp => "smtp",
            Self::Lmtp => "lmtp",
            Self::Milter => "milter",
            Self::Spamd => "spamd",
            Self::Pop3 => "pop3",
            Self::Mqtt => "mqtt",
            Self::Http => "http",
            Self::Call => "call",
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No listener has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no listener is named '{0}'; the listeners are smtp, lmtp, milter, spamd, pop3, mqtt, http \
        and call"
)]
pub struct UnknownListener(pub String);

impl FromStr for Listener {
    type Err = UnknownListener;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|listener| listener.name() == name)
            .ok_or_else(|| UnknownListener(name.to_owned()))
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A TCP peer.
    Address(SocketAddr),
    /// A Unix socket's peer, which has no address.
    Local,
}

impl Peer {
    /// The IP address, if the peer has one.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip()),
            Self::Local => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Local => formatter.write_str("local"),
        }
    }
}

/// Metadata of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The listener that received it.
    pub listener: Listener,
    /// The other end of the connection.
    pub peer: Peer,
    /// The peer's own name for itself: SMTP's HELO, MQTT's client id.
    pub client: Option<String>,
    /// The authenticated user.
    pub user: Option<String>,
    /// SMTP's reverse path without the angle brackets; `Some("")` is the null sender of bounces.
    pub sender: Option<String>,
    /// SMTP's forward paths without the angle brackets.
    pub recipients: Vec<String>,
}

impl Envelope {
    /// An envelope with only the listener and the peer.
    pub const fn new(listener: Listener, peer: Peer) -> Self {
        Self {
            listener,
            peer,
            client: None,
            user: None,
            sender: None,
            recipients: Vec::new(),
        }
    }
}
