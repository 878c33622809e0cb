//! `[listeners.lmtp]`

use gatepost_gateway::MailPayload;
use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use super::route::RecipientRoute;
use super::settings::SmtpSettings;
use crate::forward::ForwardSettings;
use crate::tls::TlsSettings;
use crate::verdict_headers::VerdictHeaderSettings;

/// The settings of the LMTP listener. They have no domains: the mail server in front decides which
/// mail is local. It must not be reachable from the Internet (RFC 2033, section 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LmtpSettings {
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
    /// The name in the greeting and in Received fields; empty takes the host's own.
    pub hostname: String,
    /// The destinations of recipients: a topic, a mailbox or the next hop; the first matching route
    /// counts. Without a match, mail to `name+sub@host` goes to the topic `name/sub`.
    #[serde(alias = "topics")]
    pub routes: Vec<RecipientRoute>,
    /// The header fields that state the verdict, in mail for a mailbox or the next hop.
    #[serde(alias = "marks")]
    pub verdict_headers: VerdictHeaderSettings,
    /// The settings for the next hop.
    pub forward: ForwardSettings,
    /// Peers whose statements about their own clients are trusted (XCLIENT, XFORWARD).
    pub trusted: Vec<PeerNetwork>,
    /// The maximum size of a mailbox; more is refused with `452`.
    pub mailbox_max: ByteSize,
    /// The payload of a mail for subscribers: `text`, `raw` or `json`.
    pub payload: MailPayload,
    /// Whether the first image of a mail to topics is kept as the attachment of its message.
    pub attach_image: bool,
    /// The maximum size of a message.
    pub message_max: ByteSize,
    /// The maximum number of recipients of a message.
    pub recipients_max: usize,
    /// The maximum length of a line of a message.
    pub line_max: ByteSize,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
    /// The time limit for a command.
    pub command_timeout: Period,
    /// The longest pause of a client within a message.
    pub data_timeout: Period,
    /// The bytes per second that a client must send of a message, as an average after the first
    /// `data_timeout`; 0 requires none.
    pub data_rate_min: ByteSize,
    /// The time limit for a whole message.
    pub message_timeout: Period,
}

impl Default for LmtpSettings {
    fn default() -> Self {
        let smtp = SmtpSettings::default();
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 2424).into())],
            open_to_world: false,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            hostname: smtp.hostname,
            routes: smtp.routes,
            verdict_headers: smtp.verdict_headers,
            forward: smtp.forward,
            trusted: smtp.trusted,
            mailbox_max: smtp.mailbox_max,
            payload: smtp.payload,
            attach_image: smtp.attach_image,
            message_max: smtp.message_max,
            recipients_max: smtp.recipients_max,
            line_max: smtp.line_max,
            connections_max: smtp.connections_max,
            // Most connections come from the one mail server in front.
            connections_per_address_max: 500,
            command_timeout: smtp.command_timeout,
            data_timeout: smtp.data_timeout,
            data_rate_min: smtp.data_rate_min,
            message_timeout: smtp.message_timeout,
        }
    }
}

impl From<LmtpSettings> for SmtpSettings {
    fn from(lmtp: LmtpSettings) -> Self {
        Self {
            bind: lmtp.bind,
            tls: lmtp.tls,
            proxy_protocol: lmtp.proxy_protocol,
            hostname: lmtp.hostname,
            domains: vec!["*".to_owned()],
            routes: lmtp.routes,
            verdict_headers: lmtp.verdict_headers,
            forward: lmtp.forward,
            trusted: lmtp.trusted,
            mailbox_max: lmtp.mailbox_max,
            payload: lmtp.payload,
            attach_image: lmtp.attach_image,
            message_max: lmtp.message_max,
            recipients_max: lmtp.recipients_max,
            line_max: lmtp.line_max,
            connections_max: lmtp.connections_max,
            connections_per_address_max: lmtp.connections_per_address_max,
            command_timeout: lmtp.command_timeout,
            data_timeout: lmtp.data_timeout,
            data_rate_min: lmtp.data_rate_min,
            message_timeout: lmtp.message_timeout,
            ..Self::default()
        }
    }
}
