//! A link to a web server as a browser parses it, and its parts.

use super::super::escapes::{decode_entities, decode_percent, has_percent_escape};
use crate::ascii::starts_with_ignore_case;

/// A link to a web server.
pub(super) struct WebLink<'a> {
    pub(super) scheme: &'a [u8],
    pub(super) user: &'a [u8],
    pub(super) host: &'a [u8],
    /// The port and the rest after the host.
    pub(super) rest: &'a [u8],
    pub(super) port: Option<&'a [u8]>,
}

impl<'a> WebLink<'a> {
    pub(super) fn parse(link: &'a [u8]) -> Option<Self> {
        let scheme_length = if starts_with_ignore_case(link, b"http://") {
            7
        } else if starts_with_ignore_case(link, b"https://") {
            8
        } else {
            return None;
        };
        let (scheme, after) = link.split_at_checked(scheme_length)?;
        let user_end = after
            .iter()
            .position(|byte| matches!(byte, b'@' | b'/' | b'?' | b'#'))
            .filter(|&end| after.get(end) == Some(&b'@'))
            .map_or(0, |end| end + 1);
        let host_length = |text: &[u8]| {
            text.iter()
                .position(|byte| matches!(byte, b'/' | b'?' | b'#' | b':'))
                .unwrap_or(text.len())
        };
        let (mut user, mut after) = after.split_at_checked(user_end)?;
        if host_length(after) == 0 {
            (user, after) = (b"", link.get(scheme_length..)?);
        }
        let (host, rest) = after.split_at_checked(host_length(after))?;
        if host.is_empty() {
            return None;
        }
        let port = rest.strip_prefix(b":").map(|port| {
            let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
            port.get(..digits).unwrap_or_default()
        });
        Some(Self {
            scheme,
            user,
            host,
            rest,
            port,
        })
    }
}

/// Parses a web link as a browser would.
pub(super) fn web_form(link: &[u8]) -> Vec<u8> {
    let mut form: Vec<u8> = link
        .iter()
        .map(|&byte| if byte == b'\\' { b'/' } else { byte })
        .collect();
    for scheme in [&b"https:"[..], b"http:"] {
        if starts_with_ignore_case(&form, scheme) {
            let slashes = form
                .iter()
                .skip(scheme.len())
                .take(2)
                .take_while(|&&byte| byte == b'/')
                .count();
            form.splice(scheme.len()..scheme.len() + slashes, *b"//");
            break;
        }
    }
    if has_percent_escape(&form) {
        form = decode_percent(&form);
    }
    let scheme_length = form
        .iter()
        .take_while(|&&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        .count();
    if scheme_length == 0 || form.get(scheme_length) != Some(&b':') {
        let scheme: &[u8] = if form.starts_with(b"ftp.") {
            b"ftp://"
        } else {
            b"http://"
        };
        form.splice(0..0, scheme.iter().copied());
    }
    insert_path(&mut form);
    if memchr::memmem::find(&form, b"&#").is_some() {
        decode_entities(&form)
    } else {
        form
    }
}

/// `http://host?x` becomes `http://host/?x`.
fn insert_path(form: &mut Vec<u8>) {
    let scheme_length = if starts_with_ignore_case(form, b"http://") {
        7
    } else if starts_with_ignore_case(form, b"https://") {
        8
    } else {
        return;
    };
    let host = form.get(scheme_length..).unwrap_or_default();
    if let Some(end) = host
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        && end > 0
        && host.get(end) != Some(&b'/')
    {
        form.insert(scheme_length + end, b'/');
    }
}
