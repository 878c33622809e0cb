//! The settings of the HTTP listener. Every limit has a setting and a default.

use std::collections::BTreeMap;

use gatepost_settings::{Bind, ByteSize, PeerNetwork, Period};
use gatepost_users::AnonymousAccess;
use serde::{Deserialize, Serialize};

use super::email_settings::EmailSettings;
use crate::tls::TlsSettings;

/// `[listeners.http]`.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// The addresses to listen on.
    pub bind: Vec<Bind>,
    /// Whether requests without a login are served: `"auto"` (as long as there is no user, on
    /// addresses of this machine), `"yes"` or `"no"`.
    pub anonymous: AnonymousAccess,
    /// Encryption: `tls.cert` and `tls.key` are all that it needs.
    pub tls: TlsSettings,
    /// Proxies in front that begin each connection with a PROXY header (version 1 or 2): their
    /// addresses, networks, `"unix"`. Any other peer counts as the client itself.
    pub proxy_protocol: Vec<PeerNetwork>,
    /// The maximum number of open connections, further ones are closed immediately; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of connections from one address; 0 for no limit.
    pub connections_per_address_max: u32,
    /// The maximum size of a request's header (request line and header fields together).
    pub head_max: ByteSize,
    /// The maximum size of a request's body.
    pub body_max: ByteSize,
    /// The longest idle time of a persistent connection between requests.
    pub idle_timeout: Period,
    /// The time within which the header of a request must be complete, from its first byte.
    pub head_timeout: Period,
    /// The longest pause within a body.
    pub body_timeout: Period,
    /// The number of bytes of a body that must arrive per second, after a first `body_timeout`; 0
    /// for any number.
    pub body_rate_min: ByteSize,
    /// The longest time for which a reader may read no bytes of a response.
    pub write_timeout: Period,
    /// The number of bytes of a response that must be read per second, after a first
    /// `write_timeout`; 0 for any number. For event streams the broker's limits apply.
    pub write_rate_min: ByteSize,
    /// The interval of comments that keep an event stream open through proxies.
    pub keepalive: Period,
    /// The time limit for requests in progress when the server ends.
    pub drain_timeout: Period,
    /// Further origins whose pages may publish, call and open WebSockets, such as
    /// `"https://example.org"`; `"*"` allows all.
    pub origins: Vec<String>,
    /// Peers that report their clients in `forwarding_header`: addresses, networks, `"unix"`.
    pub trusted_proxies: Vec<PeerNetwork>,
    /// The header in which each of `trusted_proxies` reports its client: `"x-forwarded-for"`, with
    /// `X-Forwarded-Proto`, or `"forwarded"`. The other one is ignored: it may be the client's own.
    pub forwarding_header: ForwardingHeader,
    /// Whether unencrypted requests are redirected to the same path over HTTPS.
    pub https_redirect: bool,
    /// The HTTPS port of these redirects.
    pub https_port: u16,
    /// Header fields of every answer.
    pub headers: BTreeMap<String, String>,
    /// Whether the user guide is served at `/docs`.
    pub docs: bool,
    /// Mail that ntfy's `X-Email` sends, by `smarthost`.
    pub email: EmailSettings,
    /// Requests per second in total; 0 for no limit. Further requests are answered with 429.
    pub requests_per_second: u32,
    /// Requests per second from one address; 0 for no limit.
    pub requests_per_second_per_address: u32,
    /// Bytes of responses per second in total; 0 for no limit. Further bytes are delayed.
    pub bandwidth: ByteSize,
    /// Bytes of responses per second to one address; 0 for no limit.
    pub bandwidth_per_address: ByteSize,
    /// The time after which a deferred sender should try again.
    pub retry_after: Period,
}

/// Header fields that the server writes itself, or that describe the connection or a body.
const RESERVED_HEADERS: [&str; 12] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The header in which trusted proxies report their clients.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingHeader {
    /// A list of addresses: what nginx, Apache, HAProxy and most others write.
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

impl ForwardingHeader {
    /// The name of the field, in lower case.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

impl HttpSettings {
    /// The header fields of every answer.
    pub(super) fn extra_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.headers.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first header field that cannot be sent as written, or is not the operator's to set.
    pub fn malformed_header(&self) -> Option<&str> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_reserved = |name: &str| {
            let mut reserved = RESERVED_HEADERS.iter();
            reserved.any(|reserved| reserved.eq_ignore_ascii_case(name))
        };
        let good = |(name, value): &(&str, &str)| {
            !name.is_empty()
                && !is_reserved(name)
                && name.bytes().all(token)
                && value.bytes().all(|byte| byte >= 0x20 && byte != 0x7f)
        };
        let found = self.extra_fields().find(|field| !good(field));
        found.map(|(name, _)| name)
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            bind: vec![Bind::Tcp(([127, 0, 0, 1], 8080).into())],
            anonymous: AnonymousAccess::Auto,
            tls: TlsSettings::default(),
            proxy_protocol: Vec::new(),
            connections_max: 16_000,
            connections_per_address_max: 1_000,
            head_max: ByteSize::kibibytes(16),
            body_max: ByteSize::mebibytes(16),
            idle_timeout: Period::seconds(75),
            head_timeout: Period::seconds(10),
            body_timeout: Period::seconds(30),
            body_rate_min: ByteSize::kibibytes(1),
            write_timeout: Period::seconds(60),
            write_rate_min: ByteSize::kibibytes(1),
            keepalive: Period::seconds(15),
            drain_timeout: Period::seconds(10),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            forwarding_header: ForwardingHeader::default(),
            https_redirect: false,
            https_port: 443,
            headers: [
                ("Referrer-Policy", "same-origin"),
                ("X-Frame-Options", "SAMEORIGIN"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            docs: true,
            email: EmailSettings::default(),
            requests_per_second: 0,
            requests_per_second_per_address: 0,
            bandwidth: ByteSize::kibibytes(0),
            bandwidth_per_address: ByteSize::kibibytes(0),
            retry_after: Period::seconds(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_decide_where_an_answer_ends_cannot_be_set() {
        let with = |name: &str, value: &str| HttpSettings {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..HttpSettings::default()
        };
        assert_eq!(HttpSettings::default().malformed_header(), None);
        assert_eq!(with("Cache-Control", "max-age=60").malformed_header(), None);
        for (name, value) in [
            ("content-length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("Server", "mine"),
            ("X-A", "a\r\nb"),
            ("X A", "b"),
            ("", "b"),
        ] {
            assert_eq!(with(name, value).malformed_header(), Some(name), "{name}");
        }
    }
}
