//! The reasons why the next hop gave no answer.

use std::fmt;
use std::io;

use gatepost_dns::DnsError;

use super::reply;

/// The reason why the next hop gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HopError {
    #[error("the next hop cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("the next hop closed the connection")]
    Broken(#[source] io::Error),
    #[error("the next hop did not answer in time")]
    Timeout,
    #[error(transparent)]
    Garbled(#[from] reply::MalformedHopReply),
    #[error("the next hop refused the connection: {0} {1}")]
    Refused(u16, String),
    #[error("{name} does not offer STARTTLS, which {by} requires")]
    NoTls { name: String, by: TlsRequirement },
    #[error("TLS with {name} fails, which {by} requires: {cause}")]
    Tls {
        name: String,
        by: TlsRequirement,
        #[source]
        cause: io::Error,
    },
    #[error("the MTA-STS policy of {domain} does not have {name} among its hosts")]
    NotInPolicy { name: String, domain: String },
    #[error("the {kind} records of {name} are not known: {cause}")]
    Unresolved {
        name: String,
        kind: &'static str,
        #[source]
        cause: DnsError,
    },
    #[error("{0} accepts no mail")]
    NoMail(String),
    #[error("{0} is this server itself")]
    ThisServer(String),
    #[error("the login at the next hop fails: {0}")]
    Login(String),
}

/// The policy that demands encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsRequirement {
    /// Nothing: plain text follows.
    Nothing,
    /// `forward.tls`.
    Setting,
    /// The host's TLSA records.
    Dane,
    /// The domain's policy.
    MtaSts,
    /// The scheme of its address.
    Scheme,
}

impl fmt::Display for TlsRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nothing => "nothing",
            Self::Setting => "forward.tls",
            Self::Dane => "its TLSA record (DANE)",
            Self::MtaSts => "the domain's policy (MTA-STS)",
            Self::Scheme => "its address (smtps://)",
        })
    }
}

impl HopError {
    /// With the system's error, for the log: clients need no details of the network.
    pub(crate) fn with_cause(&self) -> String {
        match self {
            Self::Unreachable(cause) | Self::Broken(cause) => format!("{self}: {cause}"),
            other => other.to_string(),
        }
    }

    /// Whether the next hop failed to prove its identity.
    pub(crate) const fn is_about_trust(&self) -> bool {
        matches!(
            self,
            Self::NoTls { .. } | Self::Tls { .. } | Self::NotInPolicy { .. }
        )
    }
}

impl From<io::Error> for HopError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Timeout,
            _ => Self::Broken(error),
        }
    }
}
