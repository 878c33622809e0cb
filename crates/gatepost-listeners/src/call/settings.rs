//! `[listeners.call]`

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::tls::TlsSettings;

/// The settings of the call listener.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct CallSettings {
    /// The addresses to listen on.
    pub bind: Vec<Bind>,
    /// Whether `bind` may name addresses that other machines reach although the
    /// protocol has no login.
    pub open_to_world: bool,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// The largest message that is accepted for a procedure that reads the body.
    pub message_max: ByteSize,
    /// The most bytes that a request may have before its empty line.
    pub head_max: ByteSize,
    /// The longest pause of a client within a request, or without reading responses.
    pub head_time_max: Period,
    /// The time within which a body must arrive.
    pub body_time_max: Period,
    /// The time for which a connection may be idle.
    pub idle_time_max: Period,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 7887).into())],
            open_to_world: false,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            message_max: ByteSize::mebibytes(50),
            head_max: ByteSize::kibibytes(64),
            head_time_max: Period::seconds(30),
            body_time_max: Period::seconds(300),
            idle_time_max: Period::seconds(600),
            connections_max: 10_000,
            connections_per_address_max: 1_000,
        }
    }
}
