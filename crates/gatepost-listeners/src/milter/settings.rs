//! The settings of the milter listener.

use gatepost_settings::{Bind, ByteSize, Period};
use serde::{Deserialize, Serialize};

use crate::entry::Network;
use crate::marks::MarkSettings;
use crate::tls::TlsSettings;

/// `[listeners.milter]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MilterSettings {
    /// Where to listen. Whoever reaches it can have mail judged; keep it on this machine.
    pub bind: Vec<Bind>,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Whoever is not named here is taken for the client itself.
    pub proxy_protocol: Vec<Network>,
    /// Our name in `Authentication-Results`; empty takes the host's own.
    pub hostname: String,
    /// What mail that passes is told about its verdict.
    pub marks: MarkSettings,
    /// Who keeps a quarantined message: `mail-server` (Postfix's hold queue), or `gatepost`, where
    /// the dashboard shows it and the mail server discards its own copy.
    pub quarantine: Keeper,
    /// How large a message may be.
    pub message_max: ByteSize,
    /// How many recipients a message may have.
    pub recipients_max: usize,
    /// How large one packet of the mail server may be: a chunk of the body, or one header field.
    pub packet_max: ByteSize,
    /// How often the mail server hears that a message is still being judged, so that it waits on.
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
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            hostname: String::new(),
            marks: MarkSettings::default(),
            quarantine: Keeper::default(),
            message_max: ByteSize::megabytes(50),
            recipients_max: 10_000,
            packet_max: ByteSize::mebibytes(1),
            progress_interval: Period::seconds(10),
            idle_time_max: Period::seconds(3_600),
            write_time_max: Period::seconds(60),
            connections_max: 10_000,
            connections_per_address_max: 0,
        }
    }
}

/// Who keeps a quarantined message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// The mail server, in its own hold queue.
    #[default]
    MailServer,
    /// Gatepost's quarantine.
    Gatepost,
}
