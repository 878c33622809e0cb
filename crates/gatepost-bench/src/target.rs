//! The target of a measurement: a server by its URL, or a command.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::BenchError;
use crate::process::{Usage, WatchedServer};

/// The scheme of a URL.
struct KnownScheme {
    text: &'static str,
    /// The protocol, whether it is encrypted or not.
    protocol: &'static str,
    is_encrypted: bool,
    port: u16,
}

const fn plain(protocol: &'static str, port: u16) -> KnownScheme {
    KnownScheme {
        text: protocol,
        protocol,
        is_encrypted: false,
        port,
    }
}

const fn over_tls(text: &'static str, protocol: &'static str, port: u16) -> KnownScheme {
    KnownScheme {
        text,
        protocol,
        is_encrypted: true,
        port,
    }
}

const SCHEMES: [KnownScheme; 16] = [
    plain("mqtt", 1883),
    plain("mqtt5", 1883),
    plain("ws", 80),
    plain("ws5", 80),
    plain("sse", 80),
    plain("websocket", 80),
    plain("nats", 4222),
    plain("redis", 6379),
    plain("http", 80),
    plain("spamd", 783),
    plain("smtp", 25),
    plain("call", 7887),
    over_tls("mqtts", "mqtt", 8883),
    over_tls("wss", "ws", 443),
    over_tls("tls", "nats", 4222),
    over_tls("https", "http", 443),
];

/// A server's address, or a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A server.
    Url(Url),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The protocol: a known scheme without encryption.
    pub scheme: &'static str,
    /// Whether it is encrypted by TLS from the first byte.
    pub is_encrypted: bool,
    /// Name or address, an IPv6 address in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path from the slash on; may be empty.
    pub path: String,
}

impl Url {
    /// The first address of the host.
    pub fn address(&self) -> Result<SocketAddr, BenchError> {
        let text = format!("{}:{}", self.host, self.port);
        let first = text.to_socket_addrs().ok().and_then(|mut all| all.next());
        first.ok_or_else(|| BenchError::server(self, "the host has no address"))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme,
            is_encrypted,
            host,
            port,
            path,
        } = self;
        let known = SCHEMES
            .iter()
            .find(|known| known.protocol == *scheme && known.is_encrypted == *is_encrypted);
        let scheme = known.map_or(*scheme, |known| known.text);
        write!(formatter, "{scheme}://{host}:{port}{path}")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(formatter),
            Self::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                formatter.write_str(&words.join(" "))
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = BenchError;

    /// A text with `://` is a URL; any other text is a command, whose words are separated by
    /// spaces, with single or double quotes around those that contain spaces.
    fn from_str(text: &str) -> Result<Self, BenchError> {
        let malformed = || BenchError::Url(text.to_owned());
        // A command may contain a URL as one of its words.
        let is_scheme = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let parts = text
            .split_once("://")
            .filter(|(scheme, _)| is_scheme(scheme));
        let Some((scheme, rest)) = parts else {
            let words = split_words(text).ok_or_else(malformed)?;
            return if words.is_empty() {
                Err(malformed())
            } else {
                Ok(Self::Command(words))
            };
        };
        let known = SCHEMES.into_iter().find(|known| known.text == scheme);
        let known = known.ok_or_else(malformed)?;
        let (authority, path) = rest
            .find('/')
            .map_or((rest, ""), |slash| rest.split_at(slash));
        let port_at = authority
            .rfind(':')
            .filter(|at| !authority[*at..].contains(']'));
        let (host, port) = match port_at {
            Some(at) => (
                &authority[..at],
                authority[at + 1..].parse().map_err(|_| malformed())?,
            ),
            None => (authority, known.port),
        };
        if host.is_empty() {
            return Err(malformed());
        }
        let (host, path) = (host.to_owned(), path.to_owned());
        Ok(Self::Url(Url {
            scheme: known.protocol,
            is_encrypted: known.is_encrypted,
            host,
            port,
            path,
        }))
    }
}

/// A word in the notation of a command.
fn quoted(word: &str) -> String {
    let plain = |c: char| !matches!(c, ' ' | '\'' | '"');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if word.contains('\'') {
        format!("\"{word}\"")
    } else {
        format!("'{word}'")
    }
}

/// `None` if a quote is not closed.
fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match quote {
            Some(open) if open == character => quote = None,
            None if character == '\'' || character == '"' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A running server or command under test.
#[derive(Debug, Clone)]
pub struct RunningTarget {
    /// A peer's name, or the endpoint as given.
    pub name: String,
    /// Its address.
    pub endpoint: Endpoint,
    /// The publishers' target, if it is another one.
    pub publish: Option<Endpoint>,
    /// Its process or control group, if it is on this machine and was found.
    pub watched: Option<WatchedServer>,
    /// The time from its start until it was ready, if the bench started it.
    pub start_seconds: Option<f64>,
}

impl RunningTarget {
    /// A target given by its endpoint, without a process to monitor.
    pub fn from_endpoint(endpoint: Endpoint) -> Self {
        Self {
            name: endpoint.to_string(),
            endpoint,
            publish: None,
            watched: None,
            start_seconds: None,
        }
    }

    /// Resources used by the server so far, if it can be monitored.
    pub fn usage(&self) -> Option<Usage> {
        self.watched.as_ref().and_then(WatchedServer::usage)
    }

    /// The URL, if it has one of these schemes.
    pub(crate) fn url(
        &self,
        scenario: &'static str,
        schemes: &[&str],
        takes: &'static str,
    ) -> Result<&Url, BenchError> {
        match &self.endpoint {
            Endpoint::Url(url) if schemes.contains(&url.scheme) => Ok(url),
            other => Err(BenchError::Target {
                scenario,
                target: other.to_string(),
                takes,
            }),
        }
    }
}

impl fmt::Display for RunningTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        match text.parse().expect(text) {
            Endpoint::Url(url) => url,
            Endpoint::Command(words) => panic!("{text} is a URL, not {words:?}"),
        }
    }

    #[test]
    fn urls_have_ports_and_paths() {
        assert_eq!(url("mqtt://localhost").to_string(), "mqtt://localhost:1883");
        assert_eq!(
            url("http://[::1]:8080/a/b").to_string(),
            "http://[::1]:8080/a/b"
        );
        assert_eq!(url("http://[::1]").port, 80);
        let encrypted = url("https://localhost/a");
        assert_eq!((encrypted.scheme, encrypted.is_encrypted), ("http", true));
        assert_eq!(encrypted.to_string(), "https://localhost:443/a");
        for text in [
            "gopher://x",
            "mqtt://",
            "mqtt://:1883",
            "mqtt://x:y",
            "",
            "'open",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_may_name_a_url() {
        let words = ["curl", "-s", "http://localhost/"]
            .map(str::to_owned)
            .to_vec();
        let endpoint = "curl -s http://localhost/".parse::<Endpoint>();
        assert_eq!(endpoint.expect("words"), Endpoint::Command(words));
    }

    #[test]
    fn a_command_is_shown_as_it_can_be_given() {
        for text in ["spamc -c", "sh -c 'exit 3' ''", "echo \"it's\""] {
            let endpoint = text.parse::<Endpoint>().expect(text);
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn the_rest_are_commands() {
        let words = ["spamc", "-c", "a b", ""].map(str::to_owned).to_vec();
        assert_eq!(
            "spamc  -c 'a b' \"\"".parse::<Endpoint>().expect("words"),
            Endpoint::Command(words)
        );
    }
}
