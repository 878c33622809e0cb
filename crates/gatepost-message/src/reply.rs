//! A procedure's reply to a web page in addition to its text: status, redirect, header fields,
//! cookies.
//!
//! Invariant: everything in a [`PageReply`] can be sent as it is. Names are tokens, values have no
//! control characters, and no field concerns the connection, so a procedure can neither end the
//! header early nor contradict the body's length.

/// Fields that describe the length of the body or the state of the connection (RFC 9110, section
/// 7.6.1, RFC 9112, section 6), and those that the server writes in every response.
const OF_THE_CONNECTION: [&str; 13] = [
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-content-type-options",
];

/// The reply to a page's visitor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageReply {
    status: Option<u16>,
    redirect: Option<String>,
    headers: Vec<(String, String)>,
    cookies: Vec<Cookie>,
}

/// An invalid reply, which cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedReply {
    /// Not a final status code.
    #[error("status {0}: a page's status is 200 to 599")]
    Status(i64),
    /// Not a valid name.
    #[error("{0:?} is not a name of a header field or cookie")]
    Name(String),
    /// A field that the server itself writes.
    #[error("the header field {0} is set by the server")]
    Reserved(String),
    /// A value with a control character, or with one that a cookie must not contain.
    #[error("the value of {0} contains characters that a header field must not contain")]
    Value(String),
    /// An unknown value of `SameSite`.
    #[error("same_site is \"lax\", \"strict\" or \"none\", not {0:?}")]
    SameSite(String),
}

/// The cross-site requests with which a browser sends a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SameSite {
    /// Sent with links that a visitor follows.
    #[default]
    Lax,
    /// Never sent with cross-site requests.
    Strict,
    /// Sent with all requests.
    None,
}

impl SameSite {
    /// The value of the attribute.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lax => "Lax",
            Self::Strict => "Strict",
            Self::None => "None",
        }
    }
}

impl std::str::FromStr for SameSite {
    type Err = MalformedReply;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Lax, Self::Strict, Self::None]
            .into_iter()
            .find(|site| site.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| MalformedReply::SameSite(text.to_owned()))
    }
}

/// A cookie to set or to remove (RFC 6265, section 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value; `None` removes it.
    pub value: Option<String>,
    /// The lifetime in the browser; `None`: until the browser is closed.
    pub max_age_seconds: Option<u64>,
    /// The path below which it is sent.
    pub path: String,
    /// The domain to which it is sent; `None`: only the exact host.
    pub domain: Option<String>,
    /// Whether scripts cannot read it.
    pub http_only: bool,
    /// Whether it is sent only over encrypted connections; `None`: if it was set over one.
    pub secure: Option<bool>,
    /// The cross-site requests with which it is sent.
    pub same_site: SameSite,
}

impl Cookie {
    /// A cookie with default attributes.
    pub fn new(name: impl Into<String>, value: Option<String>) -> Self {
        Self {
            name: name.into(),
            value,
            max_age_seconds: None,
            path: "/".to_owned(),
            domain: None,
            http_only: true,
            secure: None,
            same_site: SameSite::default(),
        }
    }

    /// The value of its `Set-Cookie` field; `page_is_secure` states whether the page was requested
    /// over an encrypted connection.
    pub fn field(&self, page_is_secure: bool) -> String {
        use std::fmt::Write as _;
        let value = self.value.as_deref().unwrap_or_default();
        let mut field = format!("{}={value}; Path={}", self.name, self.path);
        let max_age = if self.value.is_some() {
            self.max_age_seconds
        } else {
            Some(0)
        };
        // Writing to a string cannot fail.
        if let Some(seconds) = max_age {
            let _ = write!(field, "; Max-Age={seconds}");
        }
        if let Some(domain) = &self.domain {
            let _ = write!(field, "; Domain={domain}");
        }
        if self.http_only {
            field.push_str("; HttpOnly");
        }
        if self.secure.unwrap_or(page_is_secure) {
            field.push_str("; Secure");
        }
        let _ = write!(field, "; SameSite={}", self.same_site.name());
        field
    }

    fn check(&self) -> Result<(), MalformedReply> {
        if !is_token(&self.name) {
            return Err(MalformedReply::Name(self.name.clone()));
        }
        let attributes = std::iter::once(self.path.as_str()).chain(self.domain.as_deref());
        let bad_value = self
            .value
            .iter()
            .flat_map(|value| value.bytes())
            .any(|byte| !is_cookie_octet(byte));
        let bad_attribute = attributes
            .flat_map(str::bytes)
            .any(|byte| byte == b';' || !(0x20..0x7f).contains(&byte));
        if bad_value || bad_attribute {
            return Err(MalformedReply::Value(self.name.clone()));
        }
        Ok(())
    }
}

/// RFC 6265, section 4.1.1.
const fn is_cookie_octet(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e)
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token)
}

fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| byte >= 0x20 && byte != 0x7f)
}

impl PageReply {
    /// Sets the status.
    pub fn set_status(&mut self, status: i64) -> Result<(), MalformedReply> {
        let known = u16::try_from(status).ok();
        let known = known.filter(|status| (200..=599).contains(status));
        self.status = Some(known.ok_or(MalformedReply::Status(status))?);
        Ok(())
    }

    /// Redirects the browser.
    pub fn set_redirect(&mut self, place: String) -> Result<(), MalformedReply> {
        if place.is_empty() || !place.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(MalformedReply::Value("redirect".to_owned()));
        }
        self.redirect = Some(place);
        Ok(())
    }

    /// Adds a header field.
    pub fn add_header(&mut self, name: String, value: String) -> Result<(), MalformedReply> {
        if !is_token(&name) {
            return Err(MalformedReply::Name(name));
        }
        let mut reserved = OF_THE_CONNECTION.iter();
        if reserved.any(|reserved| reserved.eq_ignore_ascii_case(&name)) {
            return Err(MalformedReply::Reserved(name));
        }
        if !is_field_value(&value) {
            return Err(MalformedReply::Value(name));
        }
        self.headers.push((name, value));
        Ok(())
    }

    /// Adds a cookie.
    pub fn add_cookie(&mut self, cookie: Cookie) -> Result<(), MalformedReply> {
        cookie.check()?;
        self.cookies.push(cookie);
        Ok(())
    }

    /// Merges another reply: the more severe status and the first redirect hold, and all fields and
    /// cookies are kept.
    pub fn merge(&mut self, other: Self) {
        self.status = self.status.max(other.status);
        self.redirect = self.redirect.take().or(other.redirect);
        self.headers.extend(other.headers);
        self.cookies.extend(other.cookies);
    }

    /// The status; `default` if none was set, and 302 for a redirect without a status.
    pub fn status(&self, default: u16) -> u16 {
        match (self.status, &self.redirect) {
            (Some(status), None) => status,
            (Some(status), Some(_)) if (300..400).contains(&status) => status,
            (_, Some(_)) => 302,
            (None, None) => default,
        }
    }

    /// The target of the redirect.
    pub fn redirect(&self) -> Option<&str> {
        self.redirect.as_deref()
    }

    /// The names and values of the header fields.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The cookies.
    pub fn cookies(&self) -> &[Cookie] {
        &self.cookies
    }

    /// Whether the reply is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_reply_can_end_the_head_or_move_its_body() {
        let mut reply = PageReply::default();
        for (name, value) in [
            ("X-A", "b\r\nSet-Cookie: c"),
            ("X-A", "b\0"),
            ("X A", "b"),
            ("X-A:", "b"),
            ("", "b"),
            ("content-LENGTH", "5"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
        ] {
            let added = reply.add_header(name.to_owned(), value.to_owned());
            assert!(added.is_err(), "{name}: {value}");
        }
        assert!(reply.set_redirect("/a\r\nX: b".to_owned()).is_err());
        assert!(reply.set_redirect(String::new()).is_err());
        assert!(reply.set_status(199).is_err() && reply.set_status(600).is_err());
        for cookie in [
            Cookie::new("a b", Some(String::new())),
            Cookie::new("a", Some("b; Path=/x".to_owned())),
            Cookie::new("a", Some("b\r\n".to_owned())),
            Cookie {
                path: "/; Domain=example.org".to_owned(),
                ..Cookie::new("a", None)
            },
        ] {
            assert!(reply.add_cookie(cookie.clone()).is_err(), "{cookie:?}");
        }
        assert!(reply.is_empty());
    }

    #[test]
    fn cookies_are_strict_by_default() {
        let cookie = Cookie::new("a", Some("b".to_owned()));
        assert_eq!(
            cookie.field(true),
            "a=b; Path=/; HttpOnly; Secure; SameSite=Lax"
        );
        assert_eq!(cookie.field(false), "a=b; Path=/; HttpOnly; SameSite=Lax");
        let gone = Cookie::new("a", None);
        assert_eq!(
            gone.field(false),
            "a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        );
    }

    #[test]
    fn replies_of_several_procedures_become_one() {
        let reply = |status: i64, redirect: Option<&str>| {
            let mut reply = PageReply::default();
            reply.set_status(status).expect("a status");
            if let Some(place) = redirect {
                reply.set_redirect(place.to_owned()).expect("a place");
            }
            reply
        };
        let mut sum = reply(200, None);
        sum.merge(reply(404, None));
        sum.merge(reply(201, None));
        assert_eq!(sum.status(200), 404);
        sum.merge(reply(200, Some("/a")));
        sum.merge(reply(200, Some("/b")));
        assert_eq!((sum.redirect(), sum.status(200)), (Some("/a"), 302));
        assert_eq!(reply(303, Some("/a")).status(200), 303);
    }
}
