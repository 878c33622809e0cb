//! The settings of the POP3 listener.

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::tls::TlsSettings;

/// `[listeners.pop3]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pop3Settings {
    /// The addresses to listen on. Clients log in as users; there is no mailbox without a user.
    pub bind: Vec<Bind>,
    /// Certificates: with them STLS is offered, and `tls.bind` are addresses that speak TLS at
    /// once.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// Whether a client on another machine may send a password without TLS.
    pub plain_login: bool,
    /// The maximum length of a command line.
    pub command_max: ByteSize,
    /// The number of errors after which a connection is closed.
    pub errors_max: usize,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
    /// The time within which a client must log in, regardless of other commands.
    pub login_time_max: Period,
    /// The longest time without a command.
    pub idle_time_max: Period,
}

impl Default for Pop3Settings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 1110).into())],
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            plain_login: false,
            // The responses of SASL are longer than RFC 1939's commands.
            command_max: ByteSize::kibibytes(16),
            errors_max: 20,
            connections_max: 1_000,
            connections_per_address_max: 50,
            login_time_max: Period::seconds(180),
            // RFC 1939, section 3: at least ten minutes.
            idle_time_max: Period::seconds(600),
        }
    }
}
