//! Phishing: links in feeds; the feeds are files that another program keeps up to date.

use std::collections::HashMap;

use gatepost_mail::Directive;

use super::ScannedMail;
use super::{Entry, plain};

pub(super) const FUNCTIONS: &[Entry] = &[("check_phishing", |_| plain(is_named))];

/// The score from which an entry of PhishStats counts.
const SCORE_MIN: f64 = 6.0;

/// The links of all feeds.
#[derive(Clone, Debug)]
pub(crate) struct PhishingFeeds {
    /// With their scores, if the feed has scores.
    links: HashMap<Vec<u8>, f64>,
    /// Links are compared without their query.
    without_parameters: bool,
    score_min: f64,
}

impl Default for PhishingFeeds {
    fn default() -> Self {
        Self {
            links: HashMap::new(),
            without_parameters: false,
            score_min: SCORE_MIN,
        }
    }
}

impl PhishingFeeds {
    /// Processes one line of a rule file; `None` if the directive belongs to another module.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Option<Directive> {
        match name {
            "phishing_uri_noparam" => self.without_parameters = matches!(value.trim(), "1" | "yes"),
            "phishing_phishstats_minscore" => match value.trim().parse() {
                Ok(score) => self.score_min = score,
                Err(_) => return Some(Directive::Invalid("it is not a number".to_owned())),
            },
            "phishing_openphish_feed" => {
                return Some(self.read(value, |line| Some((line, f64::INFINITY))));
            }
            "phishing_phishtank_feed" => {
                return Some(
                    self.read(value, |line| Some((line.split(',').nth(1)?, f64::INFINITY))),
                );
            }
            "phishing_phishstats_feed" => {
                return Some(self.read(value, |line| {
                    let mut columns = line.split(',').skip(1);
                    let score = columns.next()?.trim_matches('"').trim().parse().ok()?;
                    Some((columns.next()?, score))
                }));
            }
            _ => return None,
        }
        Some(Directive::Taken)
    }

    fn read(&mut self, path: &str, entry: fn(&str) -> Option<(&str, f64)>) -> Directive {
        let text = match std::fs::read(path.trim()) {
            Ok(text) => text,
            Err(error) => return Directive::Invalid(format!("the feed cannot be read: {error}")),
        };
        for line in String::from_utf8_lossy(&text).lines().map(str::trim) {
            if let Some((link, score)) =
                entry(line).filter(|_| !line.is_empty() && !line.starts_with('#'))
            {
                let link = link.replace('"', "").trim().as_bytes().to_vec();
                self.links.insert(link, score);
            }
        }
        Directive::Taken
    }

    fn names(&self, link: &[u8]) -> bool {
        if !self.without_parameters {
            return self
                .links
                .get(link)
                .is_some_and(|&score| score > self.score_min);
        }
        let bare = |link: &[u8]| -> Vec<u8> {
            let end = memchr::memchr(b'?', link).unwrap_or(link.len());
            link.get(..end).unwrap_or_default().to_vec()
        };
        let link = bare(link);
        // A link without a path would match any page of its host.
        let slashes = memchr::memchr_iter(b'/', &link).count();
        slashes > 3
            && self
                .links
                .iter()
                .any(|(known, &score)| score > self.score_min && bare(known) == link)
    }
}

fn is_named(mail: &ScannedMail<'_>) -> bool {
    let feeds = &mail.settings().phishing;
    let links = mail.uri_list().details.iter().filter(|link| {
        let is_mail = link
            .raw
            .get(..7)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"));
        !is_mail && !link.hosts.is_empty()
    });
    !feeds.links.is_empty()
        && links
            .flat_map(|link| &link.cleaned)
            .any(|link| feeds.names(link))
}
