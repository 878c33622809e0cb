//! The `[listeners.mqtt]` table of the config.

use gatepost_broker::SlowSubscriber;
use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use gatepost_users::AnonymousAccess;
use serde::{Deserialize, Serialize};

use crate::connection_budget::ConnectionsMax;
use crate::tls::TlsSettings;

/// The addresses of MQTT, and the limits of a connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MqttSettings {
    /// Addresses to listen on.
    pub bind: Vec<Bind>,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Any other peer counts as the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// Whether clients that do not log in are served.
    pub anonymous: AnonymousAccess,
    /// Connections at once; 0 for any number. `"auto"`: what the process's limit of file
    /// descriptors permits, less a reserve for each other listener.
    pub connections_max: ConnectionsMax,
    /// Connections at once from one address; 0 for any number.
    pub connections_per_address_max: u32,
    /// The time within which a new connection must send its CONNECT.
    pub connect_timeout: Period,
    /// The largest packet that is accepted.
    pub packet_max: ByteSize,
    /// The largest packet that is accepted before the client has logged in: CONNECT with its will,
    /// and AUTH.
    pub connect_max: ByteSize,
    /// The longest pause within a packet that has begun to arrive.
    pub packet_timeout: Period,
    /// The minimum number of bytes of a packet per second, measured from its beginning, after one
    /// `packet_timeout`.
    pub packet_rate_min: ByteSize,
    /// QoS 1 and 2 publications of one client that may be unacknowledged at once; 0 counts as 1.
    pub receive_max: u16,
    /// The highest topic alias that a client may use.
    pub topic_alias_max: u16,
    /// The longest keep alive, in seconds; MQTT 5 clients that request a longer one, or none, get
    /// this one. 0 permits any.
    pub keep_alive_max_seconds: u16,
    /// The longest client id, in bytes.
    pub client_id_bytes_max: usize,
    /// The treatment of a connection that reads more slowly than messages arrive; `None` applies
    /// the broker's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_subscriber: Option<SlowSubscriber>,
    /// The reason code for a publisher whose message a procedure rejects: `"not-authorized"`
    /// (0x87), `"payload-format-invalid"` (0x99), or `"disconnect"`. Before MQTT 5, and at QoS 0,
    /// only the last can report it.
    pub on_reject: OnReject,
}

/// The reply to a verdict of `reject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnReject {
    /// PUBACK or PUBREC with 0x87.
    #[default]
    NotAuthorized,
    /// PUBACK or PUBREC with 0x99.
    PayloadFormatInvalid,
    /// DISCONNECT with 0x87; before MQTT 5, the end of the connection.
    Disconnect,
}

impl MqttSettings {
    /// The quota that clients have: the protocol has none of 0.
    pub(super) fn receive_max(&self) -> usize {
        usize::from(self.receive_max.max(1))
    }
}

impl Default for MqttSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 1883).into())],
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            anonymous: AnonymousAccess::Auto,
            connections_max: ConnectionsMax::default(),
            connections_per_address_max: 5_000,
            connect_timeout: Period::seconds(10),
            packet_max: ByteSize::mebibytes(16),
            connect_max: ByteSize::kibibytes(64),
            packet_timeout: Period::seconds(30),
            packet_rate_min: ByteSize(500),
            receive_max: 1_024,
            topic_alias_max: 64,
            keep_alive_max_seconds: 0,
            client_id_bytes_max: 1_024,
            slow_subscriber: None,
            on_reject: OnReject::default(),
        }
    }
}
