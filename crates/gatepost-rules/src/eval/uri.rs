//! URIEval and DecodeShortURLs: redirectors, truncated lists of links, and URL shorteners, whose
//! targets are not fetched.

use super::ScannedMail;
use super::{Entry, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_for_http_redirector", |_| plain(http_redirector)),
    ("check_uri_truncated", |_| {
        plain(|mail| mail.uri_list().truncated)
    }),
    ("short_url", |_| {
        plain(|mail| {
            mail.uri_list()
                .details
                .iter()
                .any(|uri| is_short(mail, &uri.raw))
        })
    }),
    // The target of a short link would need network access.
    ("short_url_redir", |_| plain(|_| false)),
    ("short_url_200", |_| plain(|_| false)),
    ("short_url_404", |_| plain(|_| false)),
    ("short_url_code", |_| plain(|_| false)),
    ("short_url_chained", |_| plain(|_| false)),
    ("short_url_maxchain", |_| plain(|_| false)),
    ("short_url_loop", |_| plain(|_| false)),
    ("short_url_tests", |_| plain(|_| false)),
];

pattern!(
    REDIRECTION,
    r"^https?://([^/:?]+).+?(https?:/{0,2}?([^/:?]+).*)$",
    "i"
);

/// The most redirections within one link that are followed.
const REDIRECTIONS_MAX: usize = 20;

fn http_redirector(mail: &ScannedMail<'_>) -> bool {
    let domain_of = |host: &[u8]| {
        let found = mail
            .view_settings()
            .boundaries
            .of_link(host)
            .map(|(domain, _)| domain.into_bytes());
        found.unwrap_or_else(|| host.to_vec())
    };
    mail.uris().iter().any(|uri| {
        let mut rest = uri.to_vec();
        for _ in 0..REDIRECTIONS_MAX {
            let Some([_, Some(from), Some(target), Some(to)]) = REDIRECTION.groups::<4>(&rest)
            else {
                return false;
            };
            if domain_of(from) != domain_of(to) {
                return true;
            }
            rest = target.to_vec();
        }
        false
    })
}

pattern!(
    SHORT,
    r"^https?://(?:[^@/?#]*@)?([^/?#:]+)(?::\d+)?(.*?\w)?",
    "i"
);

/// Whether the link is a short link.
fn is_short(mail: &ScannedMail<'_>, link: &[u8]) -> bool {
    let Some([_, Some(host), path]) = SHORT.groups::<3>(link) else {
        return false;
    };
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let dots = host.matches('.').count();
    let known = &mail.settings().url_shorteners;
    if dots == 1 && path.is_none() {
        return false;
    }
    known.contains(&host)
        || dots == 2
            && host
                .strip_prefix("www.")
                .is_some_and(|domain| known.contains(domain))
        || dots >= 2
            && host
                .find('.')
                .and_then(|dot| host.get(dot..))
                .is_some_and(|domain| known.contains(domain))
}
