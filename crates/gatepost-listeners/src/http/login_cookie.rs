//! The cookie of a browser that logged in at `/gatepost/login`.
//!
//! Over TLS its name begins with `__Host-` (RFC 6265bis, section 4.1.3.2): browsers accept such a
//! cookie only from this host over TLS. So no page of a sibling domain, and no page that was loaded
//! unencrypted, can replace it by the cookie of another session. Over TLS only that name is read.
//!
//! After a logout the cookie remains, without a token. The dashboard of a server that requires no
//! login yet sets such a cookie too. It marks the requests of pages that open the login page
//! themselves: the server sends them no challenge, for which the browser would ask for a password.

use gatepost_message::{Cookie, SameSite};
use gatepost_users::Secret;

use super::request::HttpRequest;

/// The cookie's name over an unencrypted connection, and the end of its name over TLS.
pub(super) const NAME: &str = "gatepost-login";
const SECURE_NAME: &str = "__Host-gatepost-login";
/// The value without a session, which is no token.
const NONE: &str = "none";
/// The number of cookies of the same name that are considered.
const VALUES_MAX: usize = 4;

/// The texts that may be the token of a session.
pub(super) fn tokens(request: &HttpRequest) -> impl Iterator<Item = Secret> {
    values(request)
        .filter(|value| *value != NONE)
        .take(VALUES_MAX)
        .map(Secret::from)
}

/// Whether the request has the cookie, with a token or without.
pub(super) fn is_present(request: &HttpRequest) -> bool {
    values(request).next().is_some()
}

/// The cookie's values; HTTP/2 may split cookies over several fields (RFC 9113, section 8.2.3).
fn values(request: &HttpRequest) -> impl Iterator<Item = &str> {
    let name = name(request);
    request
        .field_bytes("cookie")
        .filter_map(|field| std::str::from_utf8(field).ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(move |(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// A `Cookie` field without this cookie: pages and their procedures get the user's name, and do not
/// need its proof.
pub(super) fn without(field: &str) -> String {
    let is_other = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        name != NAME && name != SECURE_NAME
    };
    let pairs: Vec<&str> = field.split(';').filter(is_other).map(str::trim).collect();
    pairs.join("; ")
}

const fn name(request: &HttpRequest) -> &'static str {
    if request.secure { SECURE_NAME } else { NAME }
}

/// `Set-Cookie` for a session that begins. Without an age, so that it ends with the browser.
pub(super) fn begun(request: &HttpRequest, token: &Secret) -> String {
    field(request, token.expose())
}

/// `Set-Cookie` without a session.
pub(super) fn none(request: &HttpRequest) -> String {
    field(request, NONE)
}

fn field(request: &HttpRequest, value: &str) -> String {
    let mut cookie = Cookie::new(name(request), Some(value.to_owned()));
    cookie.same_site = SameSite::Strict;
    cookie.field(request.secure)
}

#[cfg(test)]
mod tests {
    use gatepost_message::Peer;

    use super::*;
    use crate::http::request::HttpVersion;

    fn request(secure: bool, cookies: &[&str]) -> HttpRequest {
        let fields = cookies.iter().map(|cookie| ("cookie", cookie.as_bytes()));
        let request = HttpRequest::new(
            ("GET", "/"),
            ("/", ""),
            fields,
            HttpVersion::Http11,
            Peer::Local,
        );
        let mut request = request.expect("a request");
        request.secure = secure;
        request
    }

    fn found(secure: bool, cookies: &[&str]) -> Vec<String> {
        let request = request(secure, cookies);
        let tokens = tokens(&request);
        tokens.map(|token| token.expose().to_owned()).collect()
    }

    #[test]
    fn only_the_name_for_the_connection_is_read() {
        let both = "a=b; gatepost-login=plain; __Host-gatepost-login=safe";
        assert_eq!(found(true, &[both]), ["safe"]);
        assert_eq!(found(false, &[both]), ["plain"]);
        assert_eq!(
            found(true, &["a=b", "__Host-gatepost-login=split"]),
            ["split"]
        );
        for other in [
            "",
            "gatepost-login",
            "xgatepost-login=1",
            "GATEPOST-LOGIN=1",
        ] {
            assert!(found(false, &[other]).is_empty(), "{other}");
        }
    }

    #[test]
    fn a_logout_leaves_no_token() {
        let none = "gatepost-login=none";
        assert!(found(false, &[none]).is_empty());
        assert!(is_present(&request(false, &[none])));
        let many = "gatepost-login=x; ".repeat(100);
        assert_eq!(found(false, &[&many]).len(), VALUES_MAX);
    }

    #[test]
    fn pages_see_the_other_cookies_only() {
        let field = "a=b; gatepost-login=x; c=d;__Host-gatepost-login=y";
        assert_eq!(without(field), "a=b; c=d");
        assert_eq!(without("gatepost-form=x"), "gatepost-form=x");
    }

    #[test]
    fn the_cookie_is_for_this_host_and_no_script() {
        let plain = begun(&request(false, &[]), &"t".into());
        assert_eq!(plain, "gatepost-login=t; Path=/; HttpOnly; SameSite=Strict");
        let safe = begun(&request(true, &[]), &"t".into());
        assert_eq!(
            safe,
            "__Host-gatepost-login=t; Path=/; HttpOnly; Secure; SameSite=Strict"
        );
    }
}
