//! The client that a trusted proxy reports, in the one header that the settings name: `Forwarded`
//! (RFC 7239), or `X-Forwarded-For` with `X-Forwarded-Proto`.
//!
//! The header that the proxy does not write is the client's own, since proxies pass on what they do
//! not know: it is ignored. Each proxy appends, so the list is read from its end for as long as the
//! writers are trusted: entries written by the client itself precede them and are not trusted.

use std::net::{IpAddr, SocketAddr};

use gatepost_message::Peer;
use gatepost_users::PeerAccount;

use super::request::HttpRequest;
use super::settings::{ForwardingHeader, HttpSettings};

/// The fields by which proxies report that they forward a request of another client.
const FORWARDING_FIELDS: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// Replaces the peer by the client if the peer is a trusted proxy. Records that the peer forwards
/// for a client that is not known if the proxy is not trusted or reports no usable address.
pub(super) fn apply(settings: &HttpSettings, request: &mut HttpRequest) {
    let networks = &settings.trusted_proxies;
    let is_trusted = |peer: Peer| networks.iter().any(|network| network.holds(peer.ip()));
    if !is_trusted(request.peer) {
        request.is_forwarded = has_forwarding_field(request);
        return;
    }
    let report = ForwardingReport::read(settings.forwarding_header, request, is_trusted);
    request.secure = report.secure.unwrap_or(request.secure);
    request.is_forwarded = if let Some(client) = report.client {
        request.peer = Peer::Address(client);
        request.account = PeerAccount::VOUCHED;
        report.has_unknown_client
    } else {
        has_forwarding_field(request)
    };
    if report.client.is_some() || request.is_forwarded {
        // The connection's certificate is the proxy's.
        request.certified = None;
    }
}

fn has_forwarding_field(request: &HttpRequest) -> bool {
    FORWARDING_FIELDS
        .iter()
        .any(|name| request.field_bytes(name).next().is_some())
}

/// The trusted proxies' report about the client.
#[derive(Default)]
struct ForwardingReport {
    client: Option<SocketAddr>,
    /// Whether the client's connection is encrypted.
    secure: Option<bool>,
    /// Whether the last trusted proxy reported no usable address: `unknown`, an obfuscated name.
    has_unknown_client: bool,
}

impl ForwardingReport {
    fn read(
        header: ForwardingHeader,
        request: &HttpRequest,
        is_trusted: impl Fn(Peer) -> bool,
    ) -> Self {
        let mut report = Self::default();
        if header == ForwardingHeader::XForwardedFor {
            let scheme = elements_from_end(request, "x-forwarded-proto").next();
            report.secure = scheme.map(is_https);
        }
        for element in elements_from_end(request, header.name()) {
            let node_text = match header {
                ForwardingHeader::XForwardedFor => Some(element),
                ForwardingHeader::Forwarded => {
                    let scheme = parameter(element, "proto");
                    report.secure = scheme.map(is_https).or(report.secure);
                    parameter(element, "for")
                }
            };
            let Some(client) = node_text.and_then(node) else {
                report.has_unknown_client = true;
                break;
            };
            report.client = Some(client);
            if !is_trusted(Peer::Address(client)) {
                break;
            }
        }
        report
    }
}

fn is_https(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"https")
}

/// The elements of a field's comma-separated list, last first. Empty elements do not count (RFC
/// 9110, section 5.6.1).
fn elements_from_end<'a>(
    request: &'a HttpRequest,
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> + 'a {
    request
        .field_bytes(name)
        .rev()
        .flat_map(|value| parts_from_end(value, b','))
        .filter(|element| !element.is_empty())
}

/// The value of a parameter of `for=192.0.2.43;proto=https;by=203.0.113.60`. A parameter that
/// occurs twice has none (RFC 7239, section 4): one of them may come from a `host` that the client
/// chose.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut values = parts_from_end(element, b';').filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        let (key, value) = pair.split_at(at);
        let is_named = key.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        is_named.then(|| value.get(1..).unwrap_or_default().trim_ascii())
    });
    let value = values.next().filter(|_| values.next().is_none())?;
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    Some(quoted.unwrap_or(value))
}

/// The trimmed parts between separators outside of quoted strings, last first. They are searched
/// from the end because only the end is certainly well-formed: a quote that the client opened and
/// did not close precedes what the proxy appended.
fn parts_from_end(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let value = rest?;
        let (before, part) = match last_separator(value, separator) {
            Some(at) => (value.get(..at), value.get(at + 1..)),
            None => (None, Some(value)),
        };
        rest = before;
        part.map(<[u8]>::trim_ascii)
    })
}

fn last_separator(value: &[u8], separator: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, &byte) in value.iter().enumerate().rev() {
        if byte == b'"' {
            let before = value.iter().take(at).rev();
            let escapes = before.take_while(|&&byte| byte == b'\\').count();
            is_quoted ^= escapes % 2 == 0;
        } else if byte == separator && !is_quoted {
            return Some(at);
        }
    }
    None
}

/// An address with or without port; IPv6 in brackets, or bare as in `X-Forwarded-For`.
fn node(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::HttpVersion;

    use ForwardingHeader::{Forwarded, XForwardedFor};

    /// A request from `peer` with these fields, after the proxies' reports were read.
    fn request(header: ForwardingHeader, peer: &str, fields: &[(&str, &[u8])]) -> HttpRequest {
        let settings = HttpSettings {
            trusted_proxies: ["127.0.0.1", "10.0.0.0/8"]
                .map(|text| text.parse().expect("a network"))
                .into(),
            forwarding_header: header,
            ..HttpSettings::default()
        };
        let fields = fields.iter().copied();
        let peer = Peer::Address(peer.parse().expect("an address"));
        let mut request =
            HttpRequest::new(("GET", "/"), ("/", ""), fields, HttpVersion::Http11, peer)
                .expect("valid");
        request.certified = Some("proxy".to_owned());
        apply(&settings, &mut request);
        request
    }

    fn client(request: &HttpRequest) -> String {
        request.peer.ip().expect("an address").to_string()
    }

    #[test]
    fn headers_of_untrusted_proxies_are_ignored() {
        let forwarded: [(&str, &[u8]); 1] = [("Forwarded", b"for=192.0.2.43;proto=https")];
        let named = request(Forwarded, "127.0.0.1:5", &forwarded);
        assert_eq!(client(&named), "192.0.2.43");
        assert!(named.secure && !named.is_forwarded && named.certified.is_none());
        let untrusted = request(Forwarded, "203.0.113.1:5", &forwarded);
        assert_eq!(client(&untrusted), "203.0.113.1");
        assert!(!untrusted.secure && untrusted.is_forwarded);
    }

    #[test]
    fn only_the_address_added_by_the_proxy_is_trusted() {
        for (header, value, expected) in [
            (
                Forwarded,
                "for=1.1.1.1, for=192.0.2.1, for=10.0.0.7",
                "192.0.2.1",
            ),
            (Forwarded, "For=\"[2001:db8::17]:4711\"", "2001:db8::17"),
            (Forwarded, "for=\", for=192.0.2.1", "192.0.2.1"),
            (Forwarded, "for=\"\\, for=192.0.2.1", "192.0.2.1"),
            (
                Forwarded,
                "for=192.0.2.1;host=\"x,for=127.0.0.1;a\"",
                "192.0.2.1",
            ),
            (
                Forwarded,
                "for=192.0.2.1;host=\"\\\",for=127.0.0.1;a\"",
                "192.0.2.1",
            ),
            (
                Forwarded,
                "for=192.0.2.1;host=\"x;for=127.0.0.1\"",
                "192.0.2.1",
            ),
            (XForwardedFor, "1.1.1.1, 192.0.2.1", "192.0.2.1"),
            (XForwardedFor, "1.1.1.1, 192.0.2.1, ", "192.0.2.1"),
            (XForwardedFor, "\", 192.0.2.1", "192.0.2.1"),
            (XForwardedFor, "2001:db8::17", "2001:db8::17"),
        ] {
            let fields: [(&str, &[u8]); 1] = [(header.name(), value.as_bytes())];
            let request = request(header, "127.0.0.1:5", &fields);
            assert_eq!(client(&request), expected, "{value}");
            assert!(!request.is_forwarded, "{value}");
        }
    }

    #[test]
    fn a_header_that_the_proxy_does_not_write_names_no_client() {
        let by_client: (&str, &[u8]) = ("forwarded", b"for=127.0.0.1;proto=https");
        let by_proxy: (&str, &[u8]) = ("x-forwarded-for", b"192.0.2.1");
        let named = request(XForwardedFor, "127.0.0.1:5", &[by_client, by_proxy]);
        assert_eq!(client(&named), "192.0.2.1");
        assert!(!named.secure, "the client's own word");
        let by_client: (&str, &[u8]) = ("x-forwarded-for", b"127.0.0.1");
        let by_proxy: (&str, &[u8]) = ("forwarded", b"for=192.0.2.1");
        let named = request(Forwarded, "127.0.0.1:5", &[by_proxy, by_client]);
        assert_eq!(client(&named), "192.0.2.1");
        let alone = request(Forwarded, "127.0.0.1:5", &[by_client]);
        assert_eq!(client(&alone), "127.0.0.1");
        assert!(alone.is_forwarded && alone.certified.is_none());
    }

    #[test]
    fn a_client_that_the_proxy_does_not_name_is_not_the_proxy_itself() {
        let of = |header: ForwardingHeader, value: &[u8]| {
            let request = request(header, "127.0.0.1:5", &[(header.name(), value)]);
            (client(&request), request.is_forwarded, request.certified)
        };
        let unknown = |address: &str| (address.to_owned(), true, None);
        for (header, value) in [
            (XForwardedFor, &b"nonsense"[..]),
            (XForwardedFor, b"192.0.2.1, unknown"),
            (XForwardedFor, b"\xff"),
            (XForwardedFor, b" , "),
            (Forwarded, b"for=unknown"),
            (Forwarded, b"proto=https"),
            (Forwarded, b"for=192.0.2.1;host=x;for=127.0.0.1"),
        ] {
            assert_eq!(of(header, value), unknown("127.0.0.1"), "{value:?}");
        }
        let through_two = of(Forwarded, b"for=1.1.1.1, for=unknown, for=10.0.0.7");
        assert_eq!(through_two, unknown("10.0.0.7"));
        let named = of(XForwardedFor, b"\xff, 192.0.2.1");
        assert_eq!(named, ("192.0.2.1".to_owned(), false, None));
        let direct = request(XForwardedFor, "127.0.0.1:5", &[]);
        assert!(!direct.is_forwarded && direct.certified.is_some());
    }
}
