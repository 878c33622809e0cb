//! The settings of the milter listener.

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::tls::TlsSettings;
use crate::verdict_headers::VerdictHeaderSettings;

/// `[listeners.milter]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MilterSettings {
    /// The addresses to listen on. Every peer that can reach them can have mail judged; keep
    /// them on this machine.
    pub bind: Vec<Bind>,
    /// Whether `bind` may name addresses that other machines reach although the
    /// protocol has no login.
    pub open_to_world: bool,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// The listener's name in `Authentication-Results`; empty takes the host's own.
    pub hostname: String,
    /// The header fields that state the verdict, in mail that passes.
    #[serde(alias = "marks")]
    pub verdict_headers: VerdictHeaderSettings,
    /// The place where a quarantined message is kept: `mail-server` (Postfix's hold queue), or
    /// `gatepost`, where the dashboard shows it and the mail server discards its own copy.
    pub quarantine: QuarantinePlace,
    /// The maximum size of a message.
    pub message_max: ByteSize,
    /// The maximum number of recipients of a message.
    pub recipients_max: usize,
    /// The maximum size of one packet of the mail server: a chunk of the body, or one header field.
    pub packet_max: ByteSize,
    /// The interval of progress messages while a message is judged, so that the mail server waits.
    pub progress_interval: Period,
    /// The longest time without a packet of the mail server: a mail server keeps the connection for
    /// as long as an SMTP client stays connected.
    pub idle_time_max: Period,
    /// The longest time for which the mail server may leave responses unread.
    pub write_time_max: Period,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
}

impl Default for MilterSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 8891).into())],
            open_to_world: false,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            hostname: String::new(),
            verdict_headers: VerdictHeaderSettings::default(),
            quarantine: QuarantinePlace::default(),
            message_max: ByteSize::megabytes(50),
            recipients_max: 10_000,
            packet_max: ByteSize::mebibytes(1),
            progress_interval: Period::seconds(10),
            idle_time_max: Period::seconds(3_600),
            write_time_max: Period::seconds(60),
            connections_max: 10_000,
            connections_per_address_max: 1_000,
        }
    }
}

/// The place where a quarantined message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuarantinePlace {
    /// The mail server, in its own hold queue.
    #[default]
    MailServer,
    /// Gatepost's quarantine.
    Gatepost,
}
