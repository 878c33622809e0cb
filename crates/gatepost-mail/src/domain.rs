//! Host names: their validity, and their registered domain.

use std::collections::HashSet;

use super::ascii::is_space;
use super::ip::is_ip;

/// The longest host name in bytes, RFC 1035, section 2.3.4.
const HOST_LENGTH_MAX: usize = 253;
/// The longest label in bytes, RFC 1035, section 2.3.4.
const LABEL_LENGTH_MAX: usize = 63;

/// States of `.us`, below which RFC 1480 delegates names.
const US_STATES: [&str; 53] = [
    "ak", "al", "ar", "az", "ca", "co", "ct", "dc", "de", "fl", "ga", "gu", "hi", "ia", "id", "il",
    "in", "ks", "ky", "la", "ma", "md", "me", "mi", "mn", "mo", "ms", "mt", "nc", "nd", "ne", "nh",
    "nj", "nm", "nv", "ny", "oh", "ok", "or", "pa", "pr", "ri", "sc", "sd", "tn", "tx", "ut", "va",
    "vi", "vt", "wa", "wi", "wv",
];
/// The last of them, which is not adjacent to the others in the table.
const US_STATE_LAST: &str = "wy";

fn is_us_state(label: &str) -> bool {
    US_STATES.contains(&label) || label == US_STATE_LAST
}

/// The names below which registries register domains for their customers.
#[derive(Clone, Debug, Default)]
pub struct RegistrarBoundaries {
    /// Top-level domains.
    pub(crate) top_level: HashSet<Box<str>>,
    /// Second-level names below which domains are registered: `co.uk`.
    pub(crate) second: HashSet<Box<str>>,
    /// Third-level names below which domains are registered: `demon.co.uk`.
    pub(crate) third: HashSet<Box<str>>,
}

impl RegistrarBoundaries {
    /// Whether `host` (lower case) ends in a known top-level domain.
    pub fn is_valid(&self, host: &str) -> bool {
        let host = host.strip_suffix('\n').unwrap_or(host);
        !host.bytes().any(is_space)
            && host
                .rsplit_once('.')
                .is_some_and(|(_, last)| !last.is_empty() && self.top_level.contains(last))
    }

    /// The registered domain of `host` (lower case): `b.co.uk` of `www.b.co.uk`.
    pub fn registered(&self, host: &str) -> String {
        let labels: smallvec::SmallVec<[&str; 8]> =
            host.split('.').filter(|label| !label.is_empty()).collect();
        let mut first = 0;
        while labels.len() - first > 1 {
            let rest = labels.get(first..).unwrap_or_default();
            if self.is_boundary(rest) {
                break;
            }
            first += 1;
            if first >= labels.len() {
                break;
            }
        }
        labels
            .get(first.saturating_sub(1)..)
            .unwrap_or_default()
            .join(".")
    }

    fn is_boundary(&self, labels: &[&str]) -> bool {
        match *labels {
            [_, _] => self.second.contains(labels.join(".").as_str()),
            [_, state, "us"] => is_us_state(state),
            [_, _, _] => self.third.contains(labels.join(".").as_str()),
            // RFC 1480: "Fire-Dept.CI.Los-Angeles.CA.US", "<school>.PVT.K12.<state>.US".
            [first, second, state, "us"] => {
                ((first == "pvt" && second == "k12") || first == "ci" || first == "co")
                    && is_us_state(state)
            }
            _ => false,
        }
    }

    /// The registered domain and the host of a link, if the host is valid.
    pub fn of_link(&self, link: &[u8]) -> Option<(String, String)> {
        let host = host_of_link(link)?;
        if is_ip(host.as_bytes()) {
            return Some((host.clone(), host));
        }
        if !is_fully_qualified(host.as_bytes()) || !self.is_valid(&host) {
            return None;
        }
        Some((self.registered(&host), host))
    }
}

/// The host part of a link, in lower case.
fn host_of_link(link: &[u8]) -> Option<String> {
    let link = link.to_ascii_lowercase();
    if [&b"javascript:"[..], b"cid:", b"file:"]
        .iter()
        .any(|scheme| link.starts_with(scheme))
    {
        return None;
    }
    let mut rest: &[u8] = &link;
    if let Some(address) = rest.strip_prefix(b"mailto:") {
        rest = address
            .split(|&byte| byte == b'?')
            .next()
            .unwrap_or_default();
        if memchr::memchr_iter(b'@', rest).take(2).count() != 1 {
            return None;
        }
        rest = rest.get(memchr::memchr(b'@', rest)? + 1..)?;
    } else {
        let letters = rest
            .iter()
            .take_while(|byte| byte.is_ascii_lowercase())
            .count();
        if letters > 0 && rest.get(letters) == Some(&b':') {
            rest = rest.get(letters + 1..)?;
            for _ in 0..2 {
                rest = rest.strip_prefix(b"/").unwrap_or(rest);
            }
        }
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
            .unwrap_or(rest.len());
        rest = rest.get(..end)?;
        rest = rest.get(memchr::memrchr(b'@', rest).map_or(0, |at| at + 1)..)?;
        let digits = rest
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if let Some(host) = rest
            .get(..rest.len() - digits)
            .and_then(|rest| rest.strip_suffix(b":"))
        {
            rest = host;
        }
    }
    if has_encoded_printable(rest) {
        return None;
    }
    std::str::from_utf8(rest).ok().map(str::to_owned)
}

/// Whether a printable character is percent-encoded: the decoded form of such a link is another
/// link.
fn has_encoded_printable(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).any(|at| match text.get(at + 1..at + 3) {
        Some([b'2', low]) => matches!(low, b'1'..=b'9' | b'a'..=b'f'),
        Some([b'3'..=b'6', low]) => low.is_ascii_hexdigit(),
        Some([b'7', low]) => matches!(low, b'0'..=b'9' | b'a'..=b'e'),
        _ => false,
    })
}

/// Whether `host` is a full host name of at least two labels, in any case.
pub fn is_fully_qualified(host: &[u8]) -> bool {
    let end = host
        .iter()
        .rposition(|&byte| byte != b'.')
        .map_or(0, |last| last + 1);
    let host = host.get(..end).unwrap_or_default();
    if host.len() > HOST_LENGTH_MAX {
        return false;
    }
    let count = host.split(|&byte| byte == b'.').count();
    count > 1
        && host
            .split(|&byte| byte == b'.')
            .enumerate()
            .all(|(index, label)| {
                let edge = |byte: Option<&u8>| {
                    byte.is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
                };
                label.len() <= LABEL_LENGTH_MAX
                && edge(label.first())
                && edge(label.last())
                && label
                    .iter()
                    .all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
                // Underscores occur in service names, never in the two labels that are registered.
                && (index + 2 < count || !label.contains(&b'_'))
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundaries() -> RegistrarBoundaries {
        let set = |names: &[&str]| names.iter().map(|&name| Box::from(name)).collect();
        RegistrarBoundaries {
            top_level: set(&["com", "uk", "us"]),
            second: set(&["co.uk"]),
            third: set(&["demon.co.uk"]),
        }
    }

    #[test]
    fn registered_domains_respect_delegation() {
        let all = boundaries();
        for (host, domain) in [
            ("www.a.com", "a.com"),
            ("a.com", "a.com"),
            ("www.a.co.uk", "a.co.uk"),
            ("x.a.demon.co.uk", "a.demon.co.uk"),
            ("www.x.ca.us", "www.x.ca.us"),
            ("com", "com"),
            ("..www..a.com.", "a.com"),
            ("co.uk", "co.uk"),
            ("", ""),
        ] {
            assert_eq!(all.registered(host), domain, "{host}");
        }
    }

    #[test]
    fn links_lead_to_hosts() {
        let of = |link: &str| {
            boundaries()
                .of_link(link.as_bytes())
                .map(|(domain, _)| domain)
        };
        assert_eq!(
            of("http://u:p@WWW.a.com:80/x?y@z").as_deref(),
            Some("a.com")
        );
        assert_eq!(of("mailto:u@a.com?subject=x").as_deref(), Some("a.com"));
        assert_eq!(of("http://1.2.3.4/").as_deref(), Some("1.2.3.4"));
        assert_eq!(of("http://a.invalid/"), None);
        assert_eq!(of("http://a%2ecom/"), None);
        assert_eq!(of("javascript:a.com"), None);
    }
}
