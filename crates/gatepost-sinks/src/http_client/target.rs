//! The URL of a request: its host, and its path with the message's id in it.

use gatepost_message::MessageId;
use http::Uri;

/// The placeholder of the message's id.
const ID: &str = "{id}";

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpTarget {
    pub(crate) is_tls: bool,
    /// A name or an address, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of the header field `Host`.
    pub(crate) authority: String,
    path: String,
}

impl HttpTarget {
    /// Returns `None` for anything but an HTTP or HTTPS URL.
    pub(crate) fn new(url: &str) -> Option<Self> {
        // Braces are not permitted in a URL.
        let uri: Uri = url.replace(ID, "%7Bid%7D").parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?.as_str();
        // A user name before the host would make one host look like another.
        if authority.contains('@') || authority.contains("%7B") {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Self {
            is_tls,
            host: uri.host()?.trim_matches(['[', ']']).to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.to_owned(),
            path: path.replace("%7Bid%7D", ID),
        })
    }

    /// Path and query of the request for a message.
    pub(crate) fn path(&self, id: MessageId) -> String {
        self.path.replace(ID, &id.to_string())
    }

    /// The URL as it may be shown: the path is often a secret.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        format!("{scheme}://{open}{}{close}:{}", self.host, self.port)
    }

    /// The origin as browsers write it (RFC 6454, section 6.2): without the scheme's own port.
    pub(crate) fn web_origin(&self) -> String {
        let origin = self.origin();
        let own_port = if self.is_tls { ":443" } else { ":80" };
        match origin.strip_suffix(own_port) {
            Some(short) => short.to_owned(),
            None => origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_path() {
        for (url, origin) in [
            (
                "https://Hooks.example.org/T0/B0?x={id}",
                Some("https://hooks.example.org:443"),
            ),
            ("http://127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            ("http://[::1]:9000/", Some("http://[::1]:9000")),
            ("https://allowed.example@evil.example/", None),
            ("https://{id}.example.org/", None),
            ("ftp://example.org/", None),
            ("/relative", None),
            ("", None),
        ] {
            let target = HttpTarget::new(url);
            assert_eq!(
                target.map(|target| target.origin()).as_deref(),
                origin,
                "{url}"
            );
        }
        let target = HttpTarget::new("https://example.org/send/{id}?again={id}").expect("a target");
        assert_eq!(target.web_origin(), "https://example.org");
        let id = MessageId::next();
        assert_eq!(target.path(id), format!("/send/{id}?again={id}"));
        assert_eq!(
            HttpTarget::new("http://x.example")
                .expect("a target")
                .path(id),
            "/"
        );
    }
}
