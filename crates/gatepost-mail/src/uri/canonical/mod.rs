//! All forms of a link that obfuscation can hide: percent-encoded, with a numeric host, with a user
//! name that resembles a host, or inside another site's redirector.
//!
//! The target of a redirector is a link of its own and is added to a queue; the queue and the forms
//! are bounded, since a link may contain any number of others.

mod mailto;
mod web;
mod web_link;

use crate::ascii::{starts_with_ignore_case, trim};
use crate::domain::RegistrarBoundaries;
use crate::pattern::MailPattern;
use web_link::{WebLink, web_form};

/// The most forms of one link, which bounds redirectors within redirectors.
const FORMS_MAX: usize = 64;

/// All forms of `link`, the original first.
pub(super) fn forms(
    link: &[u8],
    redirectors: &[MailPattern],
    boundaries: &RegistrarBoundaries,
) -> Vec<Vec<u8>> {
    let mut forms = LinkForms {
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
    let LinkForms { queue, mut all, .. } = forms;
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
    trim(&without_feeds)
        .iter()
        .copied()
        .filter(|&byte| byte != b'\r')
        .collect()
}

struct LinkForms<'a> {
    /// Links that are still to be examined: the first, and those found in redirectors.
    queue: Vec<Vec<u8>>,
    /// The other forms of the links.
    all: Vec<Vec<u8>>,
    redirectors: &'a [MailPattern],
    boundaries: &'a RegistrarBoundaries,
}

impl LinkForms<'_> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(link: &str) -> Vec<String> {
        let boundaries = RegistrarBoundaries {
            top_level: ["com"].into_iter().map(Box::from).collect(),
            ..RegistrarBoundaries::default()
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
