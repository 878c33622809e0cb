//! The forms of a link to a web server: hosts hidden by a port, blanks, a user name or a numeric
//! notation; a browser's completion of a bare name; and the target of a redirector.

use std::borrow::Cow;

use super::super::numeric_host::{is_hexadecimal_number, numeric_host};
use super::LinkForms;
use super::web_link::WebLink;
use crate::ascii::{find_ignore_case, is_word};

impl LinkForms<'_> {
    pub(super) fn add_web(&mut self, web: WebLink<'_>) {
        let mut host: Cow<'_, [u8]> = Cow::Borrowed(web.host);
        // The scheme is compared in lower case only.
        let default_port: &[u8] = if web.scheme == b"http://" {
            b":80"
        } else {
            b":443"
        };
        if let Some(rest) = web
            .port
            .filter(|port| !port.is_empty())
            .and_then(|_| web.rest.strip_prefix(default_port))
            && !rest.first().copied().is_some_and(is_word)
        {
            self.push([web.scheme, &host, rest].concat());
        }
        if host.iter().any(|&byte| byte <= b' ') {
            host = Cow::Owned(host.iter().copied().filter(|&byte| byte > b' ').collect());
            self.push([web.scheme, &host, web.rest].concat());
        }
        self.add_redirected(&[web.scheme, &host, web.rest].concat(), web.rest);
        if let Some(sign) = memchr::memchr(b'@', &host).filter(|&sign| sign > 0) {
            host = Cow::Owned(host.get(sign + 1..).unwrap_or_default().to_vec());
            self.push([web.scheme, &host, web.rest].concat());
        }
        let end = host
            .iter()
            .rposition(u8::is_ascii_alphanumeric)
            .map_or(0, |last| last + 1);
        if end < host.len() {
            host = Cow::Owned(host.get(..end).unwrap_or_default().to_vec());
            self.push([web.scheme, &host, web.rest].concat());
        }
        if let Some(address) = numeric_host(&host) {
            self.push([web.scheme, address.as_bytes(), web.rest].concat());
            return;
        }
        self.add_completed_host(&web, &host);
    }

    /// `http://name` becomes `http://www.name.com`, as browsers complete it.
    fn add_completed_host(&mut self, web: &WebLink<'_>, host: &[u8]) {
        let given = web.host.to_ascii_lowercase();
        let port_is_default = match web.port {
            None | Some(b"") => true,
            Some(port) => port == b"80",
        };
        if web.scheme != b"http://"
            || !web.user.is_empty()
            || given == b"localhost"
            || !port_is_default
        {
            return;
        }
        if host.iter().all(u8::is_ascii_digit) || is_hexadecimal_number(host) {
            return;
        }
        let name = given
            .strip_prefix(b"www.")
            .filter(|name| !name.is_empty())
            .unwrap_or(&given);
        if name.is_empty() || name.contains(&b'.') {
            return;
        }
        if self.boundaries.is_valid(&String::from_utf8_lossy(&given)) {
            return;
        }
        self.push([web.scheme, b"www.", name, b".com", web.rest].concat());
    }

    fn add_redirected(&mut self, link: &[u8], rest: &[u8]) {
        for redirector in self.redirectors {
            if let Some(target) = redirector
                .group(link, 1)
                .filter(|target| target.contains(&b'.'))
            {
                let target = target.to_vec();
                self.push_redirected(&target);
                return;
            }
        }
        let mut from = 0;
        while let Some(at) = find_ignore_case(rest, b"http", from) {
            from = at + 1;
            let target = rest.get(at..).unwrap_or_default();
            let colon = target.get(4..).map_or(0, |after| {
                usize::from(matches!(after.first(), Some(b's' | b'S')))
            });
            if target.get(4 + colon) != Some(&b':') {
                continue;
            }
            let end = target
                .iter()
                .position(|byte| matches!(byte, b'&' | b'#'))
                .unwrap_or(target.len());
            if end <= 5 + colon {
                continue;
            }
            let target = target.get(..end).unwrap_or_default();
            if target.contains(&b'.') {
                self.push_redirected(target);
            }
            return;
        }
    }
}
