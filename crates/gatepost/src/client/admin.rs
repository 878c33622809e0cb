//! Requests to the administration API of a running server: HTTP/1.1, one connection for each.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use gatepost_message::Listener;
use gatepost_settings::Bind;
use serde_json::Value;

use super::login::LoginOptions;
use super::transport::BrokerTransport;
use super::{BrokerAddress, CertificateOptions, ClientError};
use crate::config::{Config, ConfigSource};

/// The time limit of a request.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(1);
/// The largest answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The server and the login.
#[derive(Debug, Args)]
pub(crate) struct AdminOptions {
    /// The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH [default: the HTTP listener of
    /// the config]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    login: LoginOptions,
    #[command(flatten)]
    certificates: CertificateOptions,
    #[command(flatten)]
    source: ConfigSource,
}

/// The reason why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// The config has mistakes, one to a line.
    #[error("{0}")]
    Config(String),
    /// No connection, or a switch is wrong.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server does not know who asks.
    #[error("{0}; log in with --username NAME and --pw-file FILE")]
    LoginMissing(String),
    /// The server refuses.
    #[error("{detail}")]
    Refused {
        /// HTTP's.
        status: u16,
        /// The server's reason.
        detail: String,
    },
    /// The answer is not that of a Gatepost.
    #[error("the server's answer is not that of a Gatepost; check the URL")]
    Malformed,
}

impl AdminError {
    /// BSD's exit codes.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 78,
            Self::Client(error) => error.exit_code(),
            Self::LoginMissing(_)
            | Self::Refused {
                status: 401 | 403, ..
            } => 77,
            Self::Refused { status: 500.., .. } => 69,
            Self::Refused { .. } => 65,
            Self::Malformed => 76,
        }
    }
}

/// A client of one server.
pub(crate) struct AdminClient<'a> {
    options: &'a AdminOptions,
    address: BrokerAddress,
}

impl AdminOptions {
    /// The client for these options.
    pub(crate) fn client(&self) -> Result<AdminClient<'_>, AdminError> {
        let mut address = match &self.url {
            Some(url) => parse(url)?,
            None => configured(&self.config()?)?,
        };
        self.login.add_to(&mut address)?;
        Ok(AdminClient {
            options: self,
            address,
        })
    }

    fn config(&self) -> Result<Config, AdminError> {
        let (config, _) = self.source.load().map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            AdminError::Config(lines.join("\n"))
        })?;
        Ok(config)
    }
}

impl AdminClient<'_> {
    /// Sends a request and returns the JSON of a success.
    pub(crate) fn request_json(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AdminError> {
        let answer = self.send(method, path, body)?;
        let (status, body) = split(&answer).ok_or(AdminError::Malformed)?;
        let json: Value = match body {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(|_| AdminError::Malformed)?,
        };
        if is_success(status) {
            return Ok(json);
        }
        Err(self.refusal(status, body))
    }

    /// The raw bytes of a success.
    pub(crate) fn fetch(&self, path: &str) -> Result<Vec<u8>, AdminError> {
        let answer = self.send("GET", path, None)?;
        let (status, body) = split(&answer).ok_or(AdminError::Malformed)?;
        if is_success(status) {
            return Ok(body.to_vec());
        }
        Err(self.refusal(status, body))
    }

    /// Whether the server is ready for messages; a ready server's answer has no JSON.
    pub(crate) fn is_ready(&self) -> Result<(), AdminError> {
        let answer = self.send("GET", "/readyz", None)?;
        let (status, _) = split(&answer).ok_or(AdminError::Malformed)?;
        if is_success(status) {
            return Ok(());
        }
        let detail = format!("the server is not ready: it answered {status}");
        Err(AdminError::Refused { status, detail })
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, ClientError> {
        let request = self.request(method, path, body);
        let mut transport = BrokerTransport::open(&self.address, &self.options.certificates)?;
        exchange(&mut transport, request.as_bytes()).map_err(ClientError::Lost)
    }

    /// The server's reason for the refusal.
    fn refusal(&self, status: u16, body: &[u8]) -> AdminError {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let detail = json["detail"].as_str().or(json["reason"].as_str());
        let detail = detail.map_or_else(|| format!("the server answered {status}"), str::to_owned);
        if status == 401 && self.address.user.is_none() {
            return AdminError::LoginMissing(detail);
        }
        AdminError::Refused { status, detail }
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> String {
        let address = &self.address;
        let host = match address.host.as_str() {
            path if path.starts_with('/') => "localhost".to_owned(),
            host if host.contains(':') => format!("[{host}]:{}", address.port()),
            host => format!("{host}:{}", address.port()),
        };
        let mut login = String::new();
        if let Some(user) = &address.user {
            let password = address.password.as_deref().unwrap_or_default();
            let both = BASE64.encode(format!("{user}:{password}"));
            login = format!("Authorization: Basic {both}\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut kind = String::new();
        if !body.is_empty() {
            let length = body.len();
            kind = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        }
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{login}{kind}\r\n\
             {body}"
        )
    }
}

const fn is_success(status: u16) -> bool {
    status >= 200 && status < 300
}

fn exchange(transport: &mut BrokerTransport, request: &[u8]) -> io::Result<Vec<u8>> {
    transport.write(request)?;
    transport.wait_at_most(ANSWER_TIME_MAX)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    while answer.len() < ANSWER_BYTES_MAX {
        let count = match transport.read(&mut buffer) {
            // A TLS server may close without close_notify: the length shows whether everything
            // arrived.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        if count == 0 {
            break;
        }
        answer.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    Ok(answer)
}

/// The status and the body of a whole answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = (answer.get(..end)?, answer.get(end + 4..)?);
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    Some((status, body.get(..length.unwrap_or(0))?))
}

/// `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`
fn parse(url: &str) -> Result<BrokerAddress, ClientError> {
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok(BrokerAddress {
            host: path.to_owned(),
            ..BrokerAddress::default()
        });
    }
    let (as_mqtt, port) = match url.split_once("://") {
        Some(("http", rest)) => (format!("mqtt://{rest}"), 80),
        Some(("https", rest)) => (format!("mqtts://{rest}"), 443),
        _ => {
            let shape = "write http://HOST:PORT, https://HOST:PORT or unix:/PATH";
            return Err(ClientError::Usage(format!("'{url}': {shape}")));
        }
    };
    let mut address = BrokerAddress::parse(&as_mqtt)
        .map_err(|_| ClientError::Usage(format!("'{url}' names no server")))?;
    address.port.get_or_insert(port);
    Ok(address)
}

/// The address at which this machine reaches the server of this config.
fn configured(config: &Config) -> Result<BrokerAddress, ClientError> {
    let bindings = config.listeners.bindings();
    let http = bindings
        .iter()
        .find(|binding| binding.listener == Listener::Http);
    let Some((bind, tls)) = http.and_then(|binding| binding.addresses().next()) else {
        let text = "the config has no HTTP listener; name the server by --url";
        return Err(ClientError::Usage(text.to_owned()));
    };
    Ok(match bind {
        Bind::Unix(path) => BrokerAddress {
            host: path.display().to_string(),
            ..BrokerAddress::default()
        },
        Bind::Tcp(at) => {
            let ip = match at.ip() {
                ip if !ip.is_unspecified() => ip,
                ip if ip.is_ipv4() => std::net::Ipv4Addr::LOCALHOST.into(),
                _ => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            BrokerAddress {
                host: ip.to_string(),
                port: Some(at.port()),
                tls,
                ..BrokerAddress::default()
            }
        }
    })
}

/// A segment of a path: characters that could end it are escaped.
pub(crate) fn segment(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_urls_or_by_the_config() {
        let https = parse("https://gate.example").expect("a URL");
        assert_eq!((https.port(), https.tls), (443, true));
        let http = parse("http://[::1]:8081/").expect("a URL");
        assert_eq!(
            (http.host.as_str(), http.port(), http.tls),
            ("::1", 8081, false)
        );
        assert_eq!(
            parse("unix:/run/http.sock").expect("a path").host,
            "/run/http.sock"
        );
        assert!(parse("mqtt://gate.example").is_err());
        let mut config = Config::default();
        config.listeners.http.bind = vec!["0.0.0.0:8080".parse().expect("an address")];
        let found = configured(&config).expect("a listener");
        assert_eq!((found.host.as_str(), found.port()), ("127.0.0.1", 8080));
        config.listeners.http.bind.clear();
        assert!(configured(&config).is_err());
    }

    #[test]
    fn answers_are_whole_or_not_understood() {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(split(answer), Some((404, &b"{}"[..])));
        assert_eq!(split(&answer[..answer.len() - 1]), None);
        assert_eq!(
            split(b"HTTP/1.1 204 No Content\r\n\r\n"),
            Some((204, &b""[..]))
        );
        assert_eq!(segment("a/b c#?"), "a%2Fb%20c%23%3F");
    }
}
