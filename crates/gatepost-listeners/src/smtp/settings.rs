//! The settings of the SMTP listener. Every limit has a setting and a default.

use gatepost_settings::{Bind, ByteSize, Period};
use serde::{Deserialize, Serialize};

use super::route::Route;
use crate::entry::Network;
use crate::forward::ForwardSettings;
use crate::gateway::MailPayload;
use crate::marks::MarkSettings;
use crate::tls::TlsSettings;

/// `[listeners.smtp]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpSettings {
    /// Where to listen.
    pub bind: Vec<Bind>,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Whoever is not named here is taken for the client itself.
    pub proxy_protocol: Vec<Network>,
    /// The name in the greeting and in Received fields; empty takes the host's own.
    pub hostname: String,
    /// The domains that mail is taken for; `"*"` takes all. The host's own name, `localhost` and
    /// address literals are always among them. Other mail is refused: this is no open relay.
    pub domains: Vec<String>,
    /// Which recipients go where: to a topic, a mailbox or the next hop; the first that fits
    /// counts. Without one that fits, mail to `name+sub@host` goes to the topic `name/sub`.
    #[serde(alias = "topics")]
    pub routes: Vec<Route>,
    /// What mail that goes to a mailbox or the next hop is told about its verdict.
    pub marks: MarkSettings,
    /// How the next hop is spoken to.
    pub forward: ForwardSettings,
    /// Peers that are believed what they say of their own clients (XCLIENT, XFORWARD): addresses,
    /// networks, or `"unix"`.
    pub trusted: Vec<Network>,
    /// Whether only clients that have logged in may send (submission, RFC 6409).
    pub login_required: bool,
    /// Whether a password may come without TLS from another machine.
    pub plain_login: bool,
    /// How much a mailbox holds; more is refused with `452`.
    pub mailbox_max: ByteSize,
    /// What subscribers get of a mail: `text` (subject, empty line, the text that a person would
    /// read), `raw` or `json`.
    pub payload: MailPayload,
    /// How large a message may be.
    pub message_max: ByteSize,
    /// How many recipients a message may have.
    pub recipients_max: usize,
    /// How long a command line may be.
    pub command_max: ByteSize,
    /// How long a line of a message may be. The standard's 998 is often exceeded in practice.
    pub line_max: ByteSize,
    /// How many Received fields a message may have; more are a loop.
    pub received_max: usize,
    /// How many errors a connection may make before it is closed.
    pub errors_max: usize,
    /// How many connections may be open at once; 0 does not limit.
    pub connections_max: u32,
    /// How many of them from one address; 0 does not limit.
    pub connections_per_address_max: u32,
    /// How long a client may take for a command.
    pub command_timeout: Period,
    /// How long a client may pause within a message.
    pub data_timeout: Period,
    /// How long a client may take for a whole message, however it drips.
    pub message_timeout: Period,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 2525).into())],
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            hostname: String::new(),
            domains: Vec::new(),
            routes: Vec::new(),
            marks: MarkSettings::default(),
            forward: ForwardSettings::default(),
            trusted: Vec::new(),
            login_required: false,
            plain_login: false,
            mailbox_max: ByteSize::megabytes(1_000),
            payload: MailPayload::default(),
            message_max: ByteSize::megabytes(25),
            recipients_max: 10_000,
            // RFC 4954 § 4: responses of AUTH have up to 12,288 octets.
            command_max: ByteSize::kibibytes(16),
            line_max: ByteSize::kibibytes(100),
            received_max: 100,
            errors_max: 20,
            connections_max: 1_000,
            connections_per_address_max: 200,
            // RFC 5321 § 4.5.3.2.
            command_timeout: Period::seconds(300),
            data_timeout: Period::seconds(180),
            message_timeout: Period::seconds(1800),
        }
    }
}
