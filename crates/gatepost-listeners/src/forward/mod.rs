//! Forwarding to the next hop, as a proxy before its queue: the client's transaction and one at the
//! next hop run in parallel, and the client receives success only after the next hop has reported
//! it. There is no queue here that could lose mail.
//!
//! `next_hop` is its address, `reply` parses its replies, `hop` is a connection to it, `pool` keeps
//! idle connections, `relay` is one transaction.

mod hop;
mod next_hop;
mod pool;
mod relay;
mod reply;

use std::path::PathBuf;

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

use crate::tls::{Outgoing, TlsError, Trust};

pub(crate) use hop::HopError;
pub use next_hop::{MalformedNextHop, NextHop};
pub(crate) use relay::{Body, Mail, Origin, Relay, RelayStart};
pub(crate) use reply::HopReply;

/// The parser of a next hop's replies alone, for fuzzing.
#[doc(hidden)]
pub fn fuzz_reply(input: &[u8]) -> String {
    let mut input = bytes::BytesMut::from(input);
    format!("{:?}", reply::take(&mut input))
}

/// Whether mail goes to the next hop encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopTls {
    /// Never.
    Off,
    /// Where it offers STARTTLS, whatever its certificate; in plain text if TLS fails (RFC 7435).
    #[default]
    Opportunistic,
    /// Always, with a certificate for its name, or the mail stays with its client.
    Required,
}

/// How all connections of a listener speak to the next hop.
pub(crate) struct Forward {
    pub(crate) settings: ForwardSettings,
    tls: Outgoing,
}

impl Forward {
    pub(crate) fn new(settings: ForwardSettings) -> Self {
        let trust = settings.trust();
        Self {
            settings,
            tls: Outgoing::new(trust),
        }
    }
}

impl ForwardSettings {
    fn trust(&self) -> Trust {
        match self.tls {
            HopTls::Required => Trust::Authorities(self.tls_ca.clone()),
            HopTls::Off | HopTls::Opportunistic => Trust::Anybody,
        }
    }

    /// Whether the next hop's certificate could be checked.
    pub fn check(&self) -> Result<(), TlsError> {
        match self.tls {
            HopTls::Required => Outgoing::new(self.trust()).check(),
            HopTls::Off | HopTls::Opportunistic => Ok(()),
        }
    }
}

/// `listeners.smtp.forward`: how the next hop is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForwardSettings {
    /// Whether mail goes to it encrypted: `off`; `opportunistic`, where it offers STARTTLS, whatever
    /// its certificate; `required`, or else the mail stays with its client.
    pub tls: HopTls,
    /// The authorities that may sign its certificate where TLS is required, a PEM file; empty
    /// takes the system's.
    pub tls_ca: PathBuf,
    /// The name that its certificate must have then; empty takes the one it is reached by.
    pub tls_name: String,
    /// Whether it receives the client's own name and address (XFORWARD), where it offers that.
    pub xforward: bool,
    /// How long connecting and greeting may take.
    pub connect_timeout: Period,
    /// How long it may take for a command.
    pub command_timeout: Period,
    /// How long it may take for its answer to a whole message.
    pub message_timeout: Period,
    /// How many idle connections each worker keeps for the next message.
    pub idle_connections_max: usize,
    /// How long one may be idle and is still used.
    pub idle_time_max: Period,
}

impl Default for ForwardSettings {
    fn default() -> Self {
        Self {
            tls: HopTls::default(),
            tls_ca: PathBuf::new(),
            tls_name: String::new(),
            xforward: true,
            connect_timeout: Period::seconds(30),
            // RFC 5321 section 4.5.3.2.
            command_timeout: Period::seconds(300),
            message_timeout: Period::seconds(600),
            idle_connections_max: 20,
            idle_time_max: Period::seconds(30),
        }
    }
}
