//! The settings of the SMTP listener. Every limit has a setting and a default.

use std::collections::BTreeMap;

use gatepost_gateway::MailPayload;
use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use super::route::RecipientRoute;
use crate::forward::ForwardSettings;
use crate::tls::TlsSettings;
use crate::verdict_headers::VerdictHeaderSettings;

/// The addresses of a mail that must belong to the client that has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SenderLogin {
    /// None: the client may use any sender address.
    #[default]
    Any,
    /// The address of MAIL.
    Envelope,
    /// The address of MAIL, and each of the From field.
    EnvelopeAndFrom,
}

/// `[listeners.smtp]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpSettings {
    /// The addresses to listen on.
    pub bind: Vec<Bind>,
    /// Whether `bind` may name addresses that other machines reach although no login is required.
    pub open_to_world: bool,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Every other peer is the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// The name in the greeting and in Received fields; empty takes the host's own.
    pub hostname: String,
    /// The domains that mail is accepted for; `"*"` accepts all. The host's own name, `localhost`
    /// and the literal of the address that the client has connected to are always among them.
    pub domains: Vec<String>,
    /// The destinations of recipients: a topic, a mailbox or the next hop; the first matching route
    /// counts. Without a match, mail to `name+sub@host` goes to the topic `name/sub`.
    #[serde(alias = "topics")]
    pub routes: Vec<RecipientRoute>,
    /// The header fields that state the verdict, in mail for a mailbox or the next hop.
    #[serde(alias = "marks")]
    pub verdict_headers: VerdictHeaderSettings,
    /// The settings for the next hop.
    pub forward: ForwardSettings,
    /// Peers whose statements about their own clients are trusted (XCLIENT, XFORWARD): addresses,
    /// networks, or `"unix"`.
    pub trusted: Vec<PeerNetwork>,
    /// Whether only clients that have logged in may send (submission, RFC 6409).
    pub login_required: bool,
    /// The sender addresses that a client may use after login: `any`; `envelope`, its user's own in
    /// MAIL; `envelope-and-from`, in the From field too. Administrators may use any address.
    pub sender_login: SenderLogin,
    /// More addresses that users may send as, with `*` for any text: `anna =
    /// ["*@shop.example.org"]`. The user `"*"` stands for all.
    pub sender_addresses: BTreeMap<String, Vec<String>>,
    /// Whether a client on another machine may send a password without TLS.
    pub plain_login: bool,
    /// The maximum size of a mailbox; more is refused with `452`.
    pub mailbox_max: ByteSize,
    /// The payload of a mail for subscribers: `text` (subject, empty line, the text that a person
    /// would read), `raw` or `json`.
    pub payload: MailPayload,
    /// Whether the first image of a mail to topics is kept as the attachment of its message.
    pub attach_image: bool,
    /// The maximum size of a message.
    pub message_max: ByteSize,
    /// The maximum number of recipients of a message.
    pub recipients_max: usize,
    /// The maximum length of a command line.
    pub command_max: ByteSize,
    /// The maximum length of a line of a message. The standard's 998 is often exceeded in practice.
    pub line_max: ByteSize,
    /// The maximum number of Received fields of a message; more are a loop.
    pub received_max: usize,
    /// The maximum number of header fields of a message.
    pub header_fields_max: usize,
    /// The number of protocol errors after which a connection is closed. Refused messages do not
    /// count.
    pub errors_max: usize,
    /// The number of such errors before the client has greeted with EHLO, HELO or LHLO.
    pub errors_before_hello_max: usize,
    /// The maximum number of open connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
    /// The time within which a client must greet, regardless of other commands.
    pub hello_timeout: Period,
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

impl Default for SmtpSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 2525).into())],
            open_to_world: false,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            hostname: String::new(),
            domains: Vec::new(),
            routes: Vec::new(),
            verdict_headers: VerdictHeaderSettings::default(),
            forward: ForwardSettings::default(),
            trusted: Vec::new(),
            login_required: false,
            sender_login: SenderLogin::default(),
            sender_addresses: BTreeMap::new(),
            plain_login: false,
            mailbox_max: ByteSize::megabytes(1_000),
            payload: MailPayload::default(),
            attach_image: true,
            message_max: ByteSize::megabytes(25),
            recipients_max: 10_000,
            // RFC 4954, section 4: responses of AUTH have up to 12,288 octets.
            command_max: ByteSize::kibibytes(16),
            line_max: ByteSize::kibibytes(100),
            received_max: 100,
            header_fields_max: 10_000,
            errors_max: 20,
            errors_before_hello_max: 3,
            connections_max: 1_000,
            connections_per_address_max: 200,
            // RFC 5321, section 4.5.3.2.
            hello_timeout: Period::seconds(300),
            command_timeout: Period::seconds(300),
            data_timeout: Period::seconds(180),
            data_rate_min: ByteSize(500),
            message_timeout: Period::seconds(1800),
        }
    }
}
