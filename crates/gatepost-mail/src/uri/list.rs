//! All links of a message, with the places where they were found.

use std::collections::{HashMap, HashSet};

use super::canonical::forms;
use super::escapes::{decode_percent, has_percent_escape};
use super::find::{LinkKind, find_links};
use crate::ascii::{find_ignore_case, starts_with_ignore_case};
use crate::domain::is_fully_qualified;
use crate::html::HtmlFacts;
use crate::lines::Lines;
use crate::view_settings::ViewSettings;

/// The longest form of a link that is kept, in bytes.
const LINK_LENGTH_MAX: usize = 8192;
/// The most different links of a message that are examined.
const LINKS_MAX: usize = 10_000;

/// One link of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    /// The original text; a link in text without a scheme gets one.
    pub raw: Vec<u8>,
    /// The kinds of place in which it was found: `parsed` for text, or the names of HTML elements;
    /// `unlinked` and `schemeless` for text that some mail programs do not make a link of.
    pub types: Vec<&'static str>,
    /// All its forms, including canonical ones.
    pub cleaned: Vec<Vec<u8>>,
    /// The texts of its anchors.
    pub anchor_text: Vec<String>,
    /// Its registered domains.
    pub domains: Vec<String>,
    /// Its hosts, with the registered domain of each.
    pub hosts: Vec<(String, String)>,
}

/// All links of a message.
#[derive(Clone, Debug, Default)]
pub struct UriList {
    /// Each link with its details.
    pub details: Vec<Uri>,
    /// Every form of every link, once.
    pub forms: Lines,
    /// A link exceeded the maximum length, or there were too many.
    pub truncated: bool,
    index: HashMap<Vec<u8>, usize>,
}

/// Finds the links in the rendered text and in the HTML parts, and adds those of attached
/// documents.
pub(crate) fn collect<'a>(
    body: &Lines,
    html: impl Iterator<Item = &'a HtmlFacts>,
    attached: &[Vec<u8>],
    settings: &ViewSettings,
) -> UriList {
    let mut list = UriList::default();
    let mut seen = HashSet::new();
    for line in body.iter() {
        find_links(line, &settings.boundaries, |kind, link| {
            let trimmed = trim_link(link);
            if !seen.contains(trimmed) {
                seen.insert(trimmed.to_vec());
                list.add_from_text(kind, trimmed, link, settings);
            }
        });
    }
    for facts in html {
        list.truncated |= facts.link_truncated;
        for link in &facts.links {
            let types: &[&'static str] = if link.elements.is_empty() {
                &["parsed"]
            } else {
                &link.elements
            };
            if let Some(index) = list.add(link.target.as_bytes(), types, false, settings)
                && let Some(uri) = list.details.get_mut(index)
            {
                let mut added = HashSet::new();
                let texts = facts.anchors_of(link);
                let texts = texts.filter(|text| added.insert(*text));
                uri.anchor_text.extend(texts.map(str::to_owned));
            }
        }
    }
    for link in attached {
        list.add(link, &["parsed"], false, settings);
    }
    let mut seen = HashSet::new();
    for uri in &list.details {
        for form in &uri.cleaned {
            if seen.insert(form) {
                list.forms.push(form);
            }
        }
    }
    list
}

/// Removes the characters at the end that mail programs leave out: a closing parenthesis that was
/// not opened, and punctuation.
fn trim_link(link: &[u8]) -> &[u8] {
    let open = memchr::memchr(b'(', link).unwrap_or(link.len());
    let head = link.get(..open).unwrap_or_default();
    let link =
        memchr::memrchr(b')', head).map_or(link, |close| head.get(..close).unwrap_or_default());
    let end = link
        .iter()
        .rposition(|byte| !b"-~!@#^&*()_+=:;'?,.".contains(byte))
        .map_or(0, |last| last + 1);
    link.get(..end).unwrap_or_default()
}

impl UriList {
    fn add_from_text(
        &mut self,
        kind: LinkKind,
        link: &[u8],
        found: &[u8],
        settings: &ViewSettings,
    ) {
        if kind == LinkKind::Mail && !link.contains(&b'@') {
            return;
        }
        if let LinkKind::Bare { host_length } = kind
            && !is_fully_qualified(found.get(..host_length).unwrap_or_default())
        {
            return;
        }
        if starts_with_ignore_case(link, b"cid:")
            || starts_with_ignore_case(link, b"mid:")
            || is_scheme_only(link)
        {
            return;
        }
        let Some((link, types)) = with_scheme(link) else {
            return;
        };
        let link = if starts_with_ignore_case(&link, b"mailto:") {
            let link = if has_percent_escape(&link) {
                decode_percent(&link)
            } else {
                link
            };
            let Some(sign) = memchr::memchr(b'@', &link) else {
                return;
            };
            let host = link.get(sign + 1..).unwrap_or_default();
            let end = host
                .iter()
                .position(|byte| matches!(byte, b'?' | b'&' | b'>'))
                .unwrap_or(host.len());
            let mut host = host.get(..end).unwrap_or_default();
            while let Some(shorter) = host.strip_suffix(b"%20") {
                host = shorter;
            }
            let host = String::from_utf8_lossy(host).to_ascii_lowercase();
            if !settings.boundaries.is_valid(&host) {
                return;
            }
            link
        } else {
            link
        };
        self.add(&link, types, true, settings);
    }

    /// Adds a link; returns its index in [`UriList::details`] unless the link is invalid.
    fn add(
        &mut self,
        raw: &[u8],
        types: &[&'static str],
        host_required: bool,
        settings: &ViewSettings,
    ) -> Option<usize> {
        if self.details.len() >= LINKS_MAX {
            self.truncated = true;
            return None;
        }
        let mut forms = forms(raw, settings.redirectors(), &settings.boundaries);
        let mut hosts: Vec<(String, String)> = Vec::new();
        for form in &mut forms {
            if form.len() > LINK_LENGTH_MAX {
                form.truncate(LINK_LENGTH_MAX);
                self.truncated = true;
            }
            if let Some((domain, host)) = settings.boundaries.of_link(form)
                && !hosts.iter().any(|(known, _)| *known == host)
            {
                hosts.push((host, domain));
            }
        }
        if forms.is_empty() || host_required && hosts.is_empty() {
            return None;
        }
        let index = *self.index.entry(raw.to_vec()).or_insert_with(|| {
            self.details.push(Uri {
                raw: raw.to_vec(),
                ..Uri::default()
            });
            self.details.len() - 1
        });
        let uri = self.details.get_mut(index)?;
        // Most links have one of each.
        uri.cleaned.reserve_exact(forms.len());
        uri.domains.reserve_exact(hosts.len());
        uri.hosts.reserve_exact(hosts.len());
        uri.types.reserve_exact(types.len());
        for form in forms {
            if !uri.cleaned.contains(&form) {
                uri.cleaned.push(form);
            }
        }
        for (host, domain) in hosts {
            if !uri.domains.contains(&domain) {
                uri.domains.push(domain.clone());
            }
            if !uri.hosts.iter().any(|(known, _)| *known == host) {
                uri.hosts.push((host, domain));
            }
        }
        for &kind in types {
            if !uri.types.contains(&kind) {
                uri.types.push(kind);
            }
        }
        Some(index)
    }
}

/// `http://` without a host.
fn is_scheme_only(link: &[u8]) -> bool {
    let word = link
        .iter()
        .take_while(|&&byte| crate::ascii::is_word(byte))
        .count();
    word > 0 && matches!(link.get(word..), Some(b":" | b":/" | b"://"))
}

/// The link with a scheme, and how it was found.
fn with_scheme(link: &[u8]) -> Option<(Vec<u8>, &'static [&'static str])> {
    const SCHEMELESS: &[&str] = &["parsed", "schemeless"];
    const UNLINKED: &[&str] = &["parsed", "unlinked", "schemeless"];
    if [&b"http:"[..], b"https:", b"ftp:", b"mailto:"]
        .iter()
        .any(|scheme| starts_with_ignore_case(link, scheme))
    {
        return Some((link.to_vec(), &["parsed"]));
    }
    if starts_with_ignore_case(link, b"ftp.") {
        return Some(([b"ftp://", link].concat(), SCHEMELESS));
    }
    if starts_with_ignore_case(link, b"www") {
        let digits = link
            .iter()
            .skip(3)
            .take(2)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if link.get(3 + digits) == Some(&b'.') {
            return Some(([b"http://", link].concat(), SCHEMELESS));
        }
    }
    let Some(sign) = memchr::memchr(b'@', link) else {
        return link
            .contains(&b'.')
            .then(|| ([b"http://", link].concat(), UNLINKED));
    };
    // A path before the at sign: this is not an address.
    let last_sign = memchr::memrchr(b'@', link).unwrap_or(sign);
    if memchr::memchr(b'/', link).is_some_and(|slash| slash + 1 < last_sign) {
        return Some(([b"http://", link].concat(), SCHEMELESS));
    }
    let has_dot = link
        .get(sign + 2..)
        .is_some_and(|rest| rest.contains(&b'.'));
    if !has_dot || find_ignore_case(link, b"&nbsp;", 0).is_some() {
        return None;
    }
    Some((
        [b"mailto:", without_misread_scheme(link)].concat(),
        SCHEMELESS,
    ))
}

/// Removes `email:`, `skype:` and colons before an address.
fn without_misread_scheme(link: &[u8]) -> &[u8] {
    for scheme in [&b"skype"[..], b"e-mail", b"email", b"mail", b""] {
        if starts_with_ignore_case(link, scheme) && link.get(scheme.len()) == Some(&b':') {
            let rest = link.get(scheme.len()..).unwrap_or_default();
            let colons = rest.iter().take_while(|&&byte| byte == b':').count();
            return rest.get(colons..).unwrap_or_default();
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gets_its_schemes() {
        let of = |link: &str| {
            with_scheme(link.as_bytes())
                .map(|(link, _)| String::from_utf8_lossy(&link).into_owned())
        };
        assert_eq!(of("www1.a.b").as_deref(), Some("http://www1.a.b"));
        assert_eq!(of("E-Mail::a@b.c").as_deref(), Some("mailto:a@b.c"));
        assert_eq!(of("a@b"), None);
        assert_eq!(of("a.b/c@d.e").as_deref(), Some("http://a.b/c@d.e"));
    }

    #[test]
    fn ends_are_trimmed() {
        assert_eq!(trim_link(b"http://a.b/c)d."), b"http://a.b/c");
        assert_eq!(trim_link(b"http://a.b/(c)..."), b"http://a.b/(c");
    }
}
