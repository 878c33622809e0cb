//! The address of a broker: `-h` and `-p`, or a URL
//! `mqtt[s]://[user[:password]@]host[:port]/topic`.

use super::ClientError;

const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;

/// A broker's address, and the other parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BrokerAddress {
    /// A name, an address, or the path of a Unix socket.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) topic: Option<String>,
}

impl BrokerAddress {
    /// The port, by default that of the protocol.
    pub(crate) fn port(&self) -> u16 {
        let usual = if self.tls { TLS_PORT } else { PORT };
        self.port.unwrap_or(usual)
    }

    pub(crate) fn parse(url: &str) -> Result<Self, ClientError> {
        let malformed = |what: &str| {
            let shape = "mqtt[s]://[user[:password]@]host[:port]/topic";
            ClientError::Usage(format!(
                "'{url}' is not an MQTT URL: {what}; it looks like {shape}"
            ))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("mqtt", rest)) => (false, rest),
            Some(("mqtts", rest)) => (true, rest),
            _ => return Err(malformed("it begins with mqtt:// or mqtts://")),
        };
        let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').ok_or(login)) {
            Some(Ok((user, password))) => (Some(decoded(user)), Some(decoded(password))),
            Some(Err(user)) => (Some(decoded(user)), None),
            None => (None, None),
        };
        let (host, port) = host_and_port(place).ok_or_else(|| malformed("the port is a number"))?;
        if host.is_empty() {
            return Err(malformed("the host is missing"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            tls,
            user,
            password,
            topic: (!topic.is_empty()).then(|| decoded(topic)),
        })
    }
}

fn host_and_port(place: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = rest.strip_prefix(':').map(str::parse).transpose().ok()?;
        return Some((host, port));
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((place, None)),
    }
}

/// `%2F` is a slash; any other text is unchanged.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn urls_are_taken_apart() {
    let parsed = BrokerAddress::parse("mqtts://anna:s%40crit@[::1]:8884/home/%23").expect("a URL");
    assert_eq!((parsed.host.as_str(), parsed.port()), ("::1", 8884));
    assert_eq!(parsed.user.as_deref(), Some("anna"));
    assert_eq!(parsed.password.as_deref(), Some("s@crit"));
    assert_eq!(parsed.topic.as_deref(), Some("home/#"));
    let plain = BrokerAddress::parse("mqtt://broker").expect("a URL");
    assert_eq!((plain.port(), plain.topic), (1883, None));
    assert_eq!(
        BrokerAddress::parse("mqtts://broker/")
            .expect("a URL")
            .port(),
        8883
    );
    for bad in ["http://broker", "mqtt://", "mqtt://host:port", "broker"] {
        assert!(BrokerAddress::parse(bad).is_err(), "{bad}");
    }
}
