//! A request independent of its encoding: the input of handlers, for all versions of HTTP.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use gatepost_message::{Envelope, Listener, Peer};
use gatepost_users::{Identity, PeerAccount, Secret};

use super::error::HttpError;
use crate::mount::MountPrefix;

/// The versions of HTTP that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpVersion {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl HttpVersion {
    /// The name in access logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

/// A whole request.
#[derive(Clone)]
pub(super) struct HttpRequest {
    /// The texts of the head, one after the other; ranges below point into it.
    text: Bytes,
    method: Range<u32>,
    target: Range<u32>,
    fields: Vec<(Range<u32>, Range<u32>)>,
    /// The path, decoded.
    pub path: String,
    /// The query, still encoded.
    pub query: String,
    /// The version of HTTP of the request.
    pub version: HttpVersion,
    /// Whether the client's connection is encrypted, as far as the server or a trusted proxy knows.
    pub secure: bool,
    /// Whether a proxy forwards the request of another client without naming that client: it is
    /// not trusted, or it reports no usable address.
    pub is_forwarded: bool,
    /// The body.
    pub body: Bytes,
    /// The client; behind a trusted proxy, the one that the proxy names.
    pub peer: Peer,
    /// The account of this machine that the connection is of.
    pub account: PeerAccount,
    /// The user that the connection's certificate names.
    pub certified: Option<String>,
    /// The authenticated user; `None` where no login is needed.
    pub identity: Option<Identity>,
    /// The token of the browser's session that the identity is of, if it came by a cookie.
    pub session: Option<Secret>,
    /// The time at which the whole head had arrived.
    pub began: Instant,
}

impl HttpRequest {
    /// The prefix of the user's topics.
    pub(super) fn mount(&self) -> Option<MountPrefix> {
        MountPrefix::of(self.identity.as_ref())
    }

    /// Makes a request of method and target, path and query, and the header fields.
    pub(super) fn new<'a>(
        (method, target): (&str, &str),
        (path, query): (&str, &str),
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        version: HttpVersion,
        peer: Peer,
    ) -> Result<Self, HttpError> {
        let mut text = Vec::with_capacity(512);
        let mut keep = |bytes: &[u8]| {
            let start = text.len() as u32;
            text.extend_from_slice(bytes);
            start..text.len() as u32
        };
        let method = keep(method.as_bytes());
        let target = keep(target.as_bytes());
        let fields = fields
            .map(|(name, value)| (keep(name.as_bytes()), keep(value)))
            .collect();
        Ok(Self {
            method,
            target,
            fields,
            text: text.into(),
            path: decode_path(path)?.into_owned(),
            query: query.to_owned(),
            version,
            secure: false,
            is_forwarded: false,
            body: Bytes::new(),
            peer,
            account: PeerAccount::UNKNOWN,
            certified: None,
            identity: None,
            session: None,
            began: Instant::now(),
        })
    }

    fn bytes(&self, range: &Range<u32>) -> &[u8] {
        self.text
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    /// The method, as sent.
    pub(super) fn method(&self) -> &str {
        std::str::from_utf8(self.bytes(&self.method)).unwrap_or_default()
    }

    /// The target, as sent.
    pub(super) fn target(&self) -> &str {
        std::str::from_utf8(self.bytes(&self.target)).unwrap_or_default()
    }

    /// The user who logged in.
    pub(super) fn user(&self) -> Option<&str> {
        self.identity.as_ref()?.user()
    }

    /// The envelope of a message that this request carries.
    pub(super) fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::new(Listener::Http, self.peer);
        envelope.user = self.user().map(Into::into);
        envelope
    }

    /// The client as access logs name it; `connection` is the name of the connection's peer.
    pub(super) fn client<'a>(&self, peer: Peer, connection: &'a str) -> Cow<'a, str> {
        match self.peer {
            same if same == peer => Cow::Borrowed(connection),
            Peer::Address(address) => Cow::Owned(address.ip().to_string()),
            Peer::Local => Cow::Borrowed(connection),
        }
    }

    /// Every field of this name, as bytes.
    pub(super) fn field_bytes<'a>(
        &'a self,
        name: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + 'a {
        self.fields
            .iter()
            .filter(move |(field, _)| self.bytes(field).eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| self.bytes(value))
    }

    /// The first field of this name, if it is text.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let value = self
            .fields
            .iter()
            .find(|(field, _)| self.bytes(field).eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| self.bytes(value))?;
        std::str::from_utf8(value).ok()
    }

    /// All fields that are text, names in lower case.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, &str)> {
        self.fields.iter().filter_map(|(name, value)| {
            let name = std::str::from_utf8(self.bytes(name)).ok()?;
            let value = std::str::from_utf8(self.bytes(value)).ok()?;
            Some((name.to_ascii_lowercase(), value))
        })
    }

    /// Whether a comma-separated field holds this token.
    pub(super) fn has_token(&self, name: &str, token: &str) -> bool {
        self.field_bytes(name).any(|value| {
            value
                .split(|&byte| byte == b',')
                .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        })
    }

    /// The query's names and values, decoded, in order.
    pub(super) fn query_values(&self) -> Vec<(String, String)> {
        parse_form(&self.query)
    }

    /// The first of the query's values of this name, decoded.
    pub(super) fn query_value(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(key) == name).then(|| decode_form(value))
        })
    }

    /// Whether the client takes this media type by name (not by a wildcard).
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        self.field("accept").is_some_and(|accept| {
            accept.split(',').any(|part| {
                let name = part.split(';').next().unwrap_or_default().trim();
                name.eq_ignore_ascii_case(media_type)
            })
        })
    }
}

/// Refuses a method that the path does not support.
pub(super) fn expect_method(
    request: &HttpRequest,
    allowed: &[&str],
    allow: &'static str,
) -> Result<(), HttpError> {
    if allowed.contains(&request.method()) {
        return Ok(());
    }
    Err(HttpError::Method {
        path: request.path.clone(),
        allow,
    })
}

/// Decodes a path's percent escapes; refuses bytes that no path of the server can contain.
pub(super) fn decode_path(path: &str) -> Result<Cow<'_, str>, HttpError> {
    if !path.contains('%') {
        return Ok(Cow::Borrowed(path));
    }
    let decoded = percent_decode(path.as_bytes(), false).ok_or(HttpError::Target(
        "a percent sign is not followed by two hexadecimal digits",
    ))?;
    let decoded =
        String::from_utf8(decoded).map_err(|_| HttpError::Target("a path is UTF-8 text"))?;
    if decoded.contains('\0') {
        return Err(HttpError::Target("a path holds no NUL"));
    }
    Ok(Cow::Owned(decoded))
}

/// A body that is a JSON object of this form. A list of its values, which serde would accept too,
/// is refused.
pub(super) fn json_object<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, HttpError> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(HttpError::Body("write a JSON object".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| HttpError::Body(error.to_string()))
}

/// Names and values of a query or of a form's body.
pub(super) fn parse_form(form: &str) -> Vec<(String, String)> {
    form.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(name), decode_form(value))
        })
        .collect()
}

/// Form decoding never fails: a stray percent sign is a literal one, as in browsers.
fn decode_form(text: &str) -> String {
    let decoded = percent_decode(text.as_bytes(), true);
    decoded.map_or_else(
        || text.to_owned(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

fn percent_decode(text: &[u8], plus_is_space: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once_and_strictly() {
        assert_eq!(decode_path("/alarms/%23").as_deref(), Ok("/alarms/#"));
        assert_eq!(decode_path("/a%252e").as_deref(), Ok("/a%2e"));
        assert_eq!(decode_path("/%C3%A9+").as_deref(), Ok("/é+"));
        for path in ["/%", "/%2", "/%zz", "/%ff", "/%00", "/%+1"] {
            assert!(decode_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn forms_are_decoded_leniently() {
        assert_eq!(
            parse_form("a=1&b=x+y%21&&c&d=%"),
            [("a", "1"), ("b", "x y!"), ("c", ""), ("d", "%")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
