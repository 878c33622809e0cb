//! One link in all the forms it may be hidden in: percent-encoded, with a number for an address, with
//! a user name that looks like a host, or inside another site's redirector.

use super::super::ascii::starts_with_ignore_case;
use super::super::domain::Boundaries;
use super::super::pattern::Pattern;
use super::escapes::{decode_entities, decode_percent, has_percent_escape};
use super::numeric_host::{is_hexadecimal_number, numeric_host};
use std::borrow::Cow;

/// Most forms of one link: redirectors within redirectors come to an end.
const FORMS_MAX: usize = 64;

/// All forms of `link`, itself first.
pub(super) fn forms(link: &[u8], redirectors: &[Pattern], boundaries: &Boundaries) -> Vec<Vec<u8>> {
    let mut forms = Forms {
        queue: vec![clean(link)],
        all: Vec::new(),
        redirectors,
        boundaries,
    };
    let mut index = 0;
    while let Some(next) = forms.queue.get(index).cloned() {
        forms.add(&next);
        index += 1;
    }
    let Forms { queue, mut all, .. } = forms;
    let mut result: Vec<Vec<u8>> = Vec::with_capacity(queue.len() + all.len());
    for form in queue.into_iter().chain(all.drain(..)) {
        if !result.contains(&form) {
            result.push(form);
        }
    }
    result
}

/// Without line ends and white space around.
fn clean(link: &[u8]) -> Vec<u8> {
    let without_feeds: Vec<u8> = link.iter().copied().filter(|&byte| byte != b'\n').collect();
    super::super::ascii::trim(&without_feeds)
        .iter()
        .copied()
        .filter(|&byte| byte != b'\r')
        .collect()
}

struct Forms<'a> {
    /// Links to look at: the first, and those found in redirectors.
    queue: Vec<Vec<u8>>,
    /// Their other forms.
    all: Vec<Vec<u8>>,
    redirectors: &'a [Pattern],
    boundaries: &'a Boundaries,
}

impl Forms<'_> {
    fn push(&mut self, form: Vec<u8>) {
        if self.all.len() < FORMS_MAX {
            self.all.push(form);
        }
    }

    fn push_redirected(&mut self, link: &[u8]) {
        if self.queue.len() < FORMS_MAX {
            self.queue.push(clean(link));
        }
    }

    fn add(&mut self, link: &[u8]) {
        let skipped = match link.first() {
            Some(b'#' | b'?' | b'&') => true,
            Some(b'/') => link.get(1) != Some(&b'/'),
            _ => false,
        };
        if link.len() <= 1 || skipped {
            return;
        }
        let before_colon = link.split(|&byte| byte == b':').next().unwrap_or_default();
        if starts_with_ignore_case(link, b"mailto:") || before_colon.contains(&b'@') {
            self.add_address(link);
            return;
        }
        let form = web_form(link);
        if form != link {
            self.push(form.clone());
        }
        if let Some(web) = WebLink::parse(&form) {
            self.add_web(web);
        }
    }

    /// The address itself, without parameters and what else Outlook drops.
    fn add_address(&mut self, link: &[u8]) {
        let Some(sign) = memchr::memchr(b'@', link).filter(|&sign| sign > 0) else {
            return;
        };
        let rest = link.get(sign + 1..).unwrap_or_default();
        let question = memchr::memchr(b'?', rest);
        if let Some(end) = question.filter(|&end| end > 0) {
            self.push(link.get(..sign + 1 + end).unwrap_or_default().to_vec());
        }
        let before_question = rest
            .get(..question.unwrap_or(rest.len()))
            .unwrap_or_default();
        if let Some(end) = memchr::memchr(b'&', before_question).filter(|&end| end > 0) {
            self.push(link.get(..sign + 1 + end).unwrap_or_default().to_vec());
        }
        if let Some(trimmed) = without_encoded_blanks(link) {
            self.push(trimmed);
        }
        self.add_bracketed_address(link);
    }

    /// `mailto:"Name" <user@host>`.
    fn add_bracketed_address(&mut self, link: &[u8]) {
        let end = link
            .iter()
            .position(|byte| matches!(byte, b'?' | b'&'))
            .unwrap_or(link.len());
        let head = link.get(..end).unwrap_or_default();
        for open in memchr::memrchr_iter(b'<', head) {
            let inner = link.get(open + 1..).unwrap_or_default();
            let Some(close) = memchr::memchr(b'>', inner) else {
                continue;
            };
            let address = inner.get(..close).unwrap_or_default();
            let local = memchr::memchr(b'@', address).unwrap_or(0);
            if local > 0 && local + 1 < address.len() {
                self.push([b"mailto:", address].concat());
                return;
            }
        }
    }

    fn add_web(&mut self, web: WebLink<'_>) {
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
            && !rest
                .first()
                .copied()
                .is_some_and(super::super::ascii::is_word)
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
        while let Some(at) = super::super::ascii::find_ignore_case(rest, b"http", from) {
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

/// A link to a web server.
struct WebLink<'a> {
    scheme: &'a [u8],
    user: &'a [u8],
    host: &'a [u8],
    /// The port and all after the host.
    rest: &'a [u8],
    port: Option<&'a [u8]>,
}

impl<'a> WebLink<'a> {
    fn parse(link: &'a [u8]) -> Option<Self> {
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

/// A web link as a browser would read it.
fn web_form(link: &[u8]) -> Vec<u8> {
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

/// An address of which the encoded blanks around it are no part.
fn without_encoded_blanks(link: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(link, b"%20")?;
    let mut address = link.strip_prefix(b"mailto:").unwrap_or(link);
    while let Some(shorter) = address.strip_prefix(b"%20") {
        address = shorter;
    }
    let sign = memchr::memchr(b'@', address).filter(|&sign| sign > 0)?;
    let domain = address.get(sign + 1..)?;
    let length = domain
        .iter()
        .position(|byte| matches!(byte, b'?' | b'&' | b'%'))
        .unwrap_or(domain.len());
    let address = address.get(..sign + 1 + length)?;
    (length > 0).then(|| [b"mailto:", address].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(link: &str) -> Vec<String> {
        let boundaries = Boundaries {
            top_level: ["com"].into_iter().map(Box::from).collect(),
            ..Boundaries::default()
        };
        forms(link.as_bytes(), &[], &boundaries)
            .into_iter()
            .map(|form| String::from_utf8_lossy(&form).into_owned())
            .collect()
    }

    #[test]
    fn hidden_hosts_come_to_light() {
        assert_eq!(
            all("http://%77w%77.a.com?x"),
            ["http://%77w%77.a.com?x", "http://www.a.com/?x"]
        );
        assert_eq!(
            all("http://0x7f000001/"),
            ["http://0x7f000001/", "http://127.0.0.1/"]
        );
        assert_eq!(
            all("http://0177.0.0.01/"),
            ["http://0177.0.0.01/", "http://127...1/"]
        );
        assert_eq!(
            all("http://a.com/r?http://b.com/&x"),
            ["http://a.com/r?http://b.com/&x", "http://b.com/"]
        );
        assert_eq!(
            all("http://name/x"),
            ["http://name/x", "http://www.name.com/x"]
        );
        assert_eq!(
            all("mailto:a@b.com?subject=x"),
            ["mailto:a@b.com?subject=x", "mailto:a@b.com"]
        );
        assert_eq!(
            all("http://a.com:80/x"),
            ["http://a.com:80/x", "http://a.com/x"]
        );
    }
}
