//! The settings of the milter listener.

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::tls::TlsSettings;
use crate::verdict_headers::VerdictHeaderSettings;

/// `[listeners.milter]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MilterSettings {
    /// Where to listen. Every peer that reaches it can have mail judged; keep it on this machine.
    pub bind: Vec<Bind>,
    /// Whether `bind` may name addresses that other machines reach although the
    /// protocol has no login.
    pub open_to_world: bool,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// Our name in `Authentication-Results`; empty takes the host's own.
    pub hostname: String,
    /// The header fields that state the verdict, in mail that passes.
    #[serde(alias = "marks")]
    pub verdict_headers: VerdictHeaderSettings,
    /// Who keeps a quarantined message: `mail-server` (Postfix's hold queue), or `gatepost`, where
    /// the dashboard shows it and the mail server discards its own copy.
    pub quarantine: Keeper,
    /// How large a message may be.
    pub message_max: ByteSize,
    /// How many recipients a message may have.
    pub recipients_max: usize,
    /// How large one packet of the mail server may be: a chunk of the body, or one header field.
    pub packet_max: ByteSize,
    /// The interval of progress messages while a message is judged, so that the mail server waits.
    pub progress_interval: Period,
    /// How long the mail server may be silent: it keeps the connection for as long as an SMTP
    /// client stays.
    pub idle_time_max: Period,
    /// How long the mail server may leave answers unread.
    pub write_time_max: Period,
    /// How many connections may be open at once; 0 does not limit.
    pub connections_max: u32,
    /// How many of them from one address; 0 does not limit.
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
            quarantine: Keeper::default(),
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
pub enum Keeper {
    /// The mail server, in its own hold queue.
    #[default]
    MailServer,
    /// Gatepost's quarantine.
    Gatepost,
}
