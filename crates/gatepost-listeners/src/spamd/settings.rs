//! `[listeners.spamd]`

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::tls::TlsSettings;

/// The settings of the spamd listener.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct SpamdSettings {
    /// The addresses to listen on. SpamAssassin's own daemon has port 783.
    pub bind: Vec<Bind>,
    /// Whether `bind` may name addresses that other machines reach although the
    /// protocol has no login.
    pub open_to_world: bool,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// The largest message, after decompression.
    pub message_max: ByteSize,
    /// The most bytes that a request may have before its empty line.
    pub head_max: ByteSize,
    /// The time within which a whole request must arrive.
    pub request_time_max: Period,
    /// The longest time for which a client may leave its answer unread.
    pub answer_time_max: Period,
    /// Whether clients may teach (`TELL`, `spamc -L`); every peer that reaches the port may then do
    /// so.
    pub allow_tell: bool,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
}

impl Default for SpamdSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 7830).into())],
            open_to_world: false,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            message_max: ByteSize::mebibytes(50),
            head_max: ByteSize::kibibytes(16),
            request_time_max: Period::seconds(300),
            answer_time_max: Period::seconds(300),
            allow_tell: true,
            connections_max: 1000,
            connections_per_address_max: 500,
        }
    }
}
