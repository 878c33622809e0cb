//! Lists that are queried by the hash of an address, a link, a text or a file: SpamAssassin's
//! HashBL.

mod addresses;
mod encoding;

use gatepost_dns::{Question, RecordData, RecordType};
use gatepost_mail::{MailPattern, ip, is_fully_qualified};
use md5::{Digest, Md5};
use ring::digest;

use super::views::NetworkViews;
use encoding::{base32, hexadecimal};

/// The most queries of one rule about one message, unless it has `max=`.
const QUESTIONS_MAX: usize = 10;

/// The text that is hashed.
#[derive(Debug, Clone)]
pub(crate) enum HashSource {
    /// Mail addresses in these parts, of these mail domains.
    Addresses {
        places: String,
        choice: Option<String>,
    },
    Links,
    /// The first group of a pattern in the text.
    Text(MailPattern),
    /// The values of a template's tag.
    Tag(String),
    Attachments,
}

/// A rule that queries hashes.
#[derive(Debug, Clone)]
pub(crate) struct HashTest {
    source: HashSource,
    zone: String,
    kind: RecordType,
    options: Vec<(String, String)>,
    subtest: Option<MailPattern>,
}

impl HashTest {
    /// The tag whose values it queries.
    pub(super) fn tag(&self) -> Option<&str> {
        match &self.source {
            HashSource::Tag(tag) => Some(tag),
            _ => None,
        }
    }

    /// The test of a function, if it is one of these; the error describes an invalid call.
    pub(super) fn of_function(name: &str, arguments: &[&str]) -> Option<Result<Self, String>> {
        let argument = |index: usize| {
            arguments
                .get(index)
                .copied()
                .filter(|text| !text.is_empty())
        };
        let pattern = |index: usize| argument(index).map(MailPattern::compile).transpose();
        let (source, subtest, usual) = match name {
            "check_hashbl_emails" => {
                let places = argument(2).unwrap_or("ALLFROM/Reply-To/body").to_owned();
                let choice = argument(4).map(str::to_ascii_lowercase);
                (
                    Ok(HashSource::Addresses { places, choice }),
                    pattern(3),
                    "sha1/notag/noquote/max=10",
                )
            }
            "check_hashbl_uris" => (Ok(HashSource::Links), pattern(2), "sha1/max=10"),
            "check_hashbl_bodyre" => {
                let text = argument(2).ok_or("the pattern is missing".to_owned());
                (
                    text.and_then(MailPattern::compile).map(HashSource::Text),
                    pattern(3),
                    "sha1/max=10",
                )
            }
            "check_hashbl_tag" => {
                let tag = argument(2).ok_or("the tag is missing".to_owned());
                (
                    tag.map(|tag| HashSource::Tag(tag.trim_matches('_').to_ascii_uppercase())),
                    pattern(3),
                    "sha1/max=10",
                )
            }
            "check_hashbl_attachments" => (Ok(HashSource::Attachments), pattern(2), "sha1/max=10"),
            _ => return None,
        };
        let Some(zone) = argument(0) else {
            return Some(Err("the list is missing".to_owned()));
        };
        let (zone, kind) = match zone.rsplit_once('/') {
            Some((zone, kind)) => (zone, RecordType::named(kind)),
            None => (zone, Some(RecordType::A)),
        };
        let options = argument(1).unwrap_or(usual).to_ascii_lowercase();
        let options = options.split('/').map(|option| {
            let (name, value) = option.trim().split_once('=').unwrap_or((option.trim(), ""));
            (name.to_owned(), value.to_owned())
        });
        let options = options.collect();
        Some(match (source, subtest, kind) {
            (Ok(source), Ok(subtest), Some(kind)) => Ok(Self {
                source,
                zone: zone.trim_end_matches('.').to_ascii_lowercase(),
                kind,
                options,
                subtest,
            }),
            (Err(reason), ..) | (_, Err(reason), _) => Err(reason),
            (.., None) => Err("a list has A or TXT records".to_owned()),
        })
    }

    pub(super) fn zone(&self) -> &str {
        &self.zone
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    fn number(&self, option: &str) -> Option<usize> {
        let found = self.options.iter().find(|(name, _)| name == option);
        found.and_then(|(_, value)| value.parse().ok())
    }

    fn questions_max(&self) -> usize {
        let max = self.number("max").filter(|max| *max > 0);
        max.unwrap_or(QUESTIONS_MAX)
    }

    pub(super) fn questions(&self, views: &NetworkViews<'_, '_>) -> Vec<Question> {
        let ignored = &views.settings().senders.hashes_ignored;
        let is_ignored =
            |text: &[u8]| ignored.contains(&String::from_utf8_lossy(text).to_ascii_lowercase());
        let mut questions: Vec<Question> = Vec::new();
        for value in self.values(views) {
            let of_file = matches!(self.source, HashSource::Attachments);
            let hash = self.hash(&value);
            if !of_file && is_ignored(&value) || is_ignored(hash.as_bytes()) {
                continue;
            }
            let question = Question::new(&format!("{hash}.{}", self.zone), self.kind);
            if questions.len() < self.questions_max() && !questions.contains(&question) {
                questions.push(question);
            }
        }
        questions
    }

    pub(super) fn fits(&self, record: &RecordData) -> bool {
        let text = match record {
            RecordData::A(address) => address.to_string().into_bytes(),
            RecordData::Text(text) => text.clone(),
            _ => return false,
        };
        match &self.subtest {
            Some(pattern) => pattern.is_match(&text),
            None => text.starts_with(b"127."),
        }
    }

    fn hash(&self, value: &[u8]) -> String {
        if self.has("sha256") {
            base32(digest::digest(&digest::SHA256, value).as_ref())
        } else if self.has("sha1") {
            hexadecimal(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, value).as_ref())
        } else if self.has("md5") {
            hexadecimal(&Md5::digest(value))
        } else {
            String::from_utf8_lossy(value).into_owned()
        }
    }

    fn in_case(&self, value: &[u8]) -> Vec<u8> {
        if self.has("case") {
            value.to_vec()
        } else {
            value.to_ascii_lowercase()
        }
    }

    /// The part of a tag's value that is hashed: the options select kinds of values, and parts of
    /// them.
    fn tag_value(&self, views: &NetworkViews<'_, '_>, value: &str) -> Option<String> {
        let value = if self.has("case") {
            value.to_owned()
        } else {
            value.to_ascii_lowercase()
        };
        if let Some(address) = ip::parse(value.as_bytes()) {
            let is_wanted =
                !(self.has("ipv4") && address.is_ipv6() || self.has("ipv6") && address.is_ipv4());
            let value = if self.has("revip") {
                ip::reversed(address)
            } else {
                value
            };
            return is_wanted.then_some(value);
        }
        if ["ip", "ipv4", "ipv6"].iter().any(|kind| self.has(kind)) {
            return None;
        }
        let trim = self.has("trim");
        let boundaries = &views.mail().view_settings().boundaries;
        let lower = value.to_ascii_lowercase();
        let is_full = is_fully_qualified(value.as_bytes());
        if !is_full && (self.has("fqdn") || trim)
            || (self.has("tld") || trim) && !boundaries.is_valid(&lower)
        {
            return None;
        }
        if !is_full {
            return Some(value);
        }
        let domain = boundaries.registered(&lower);
        let skipped = &views.settings().skipped_link_domains;
        if skipped.contains(&lower) || skipped.contains(&domain) {
            return None;
        }
        Some(if trim { domain } else { value })
    }

    fn values(&self, views: &NetworkViews<'_, '_>) -> Vec<Vec<u8>> {
        let mail = views.mail();
        match &self.source {
            HashSource::Addresses { places, choice } => {
                self.addresses(views, places, choice.as_deref())
            }
            HashSource::Links => {
                let skipped = &views.settings().skipped_link_domains;
                let links = mail.uri_list().details.iter().filter(|link| {
                    let is_mail = link
                        .raw
                        .get(..7)
                        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"));
                    let is_skipped = |(host, domain): &(String, String)| {
                        skipped.contains(host) || skipped.contains(domain)
                    };
                    !is_mail && !link.hosts.is_empty() && !link.hosts.iter().any(is_skipped)
                });
                links
                    .flat_map(|link| &link.cleaned)
                    .map(|link| self.in_case(link))
                    .collect()
            }
            HashSource::Text(pattern) => {
                let mut found = Vec::new();
                for line in mail.body().iter() {
                    for (start, end) in pattern.spans(line) {
                        let whole = line.get(start..end).unwrap_or_default();
                        let group = pattern.group(line.get(start..).unwrap_or_default(), 1);
                        let mut value = self.in_case(group.unwrap_or(whole));
                        if self.has("num") {
                            value.retain(u8::is_ascii_digit);
                        }
                        if !value.is_empty() {
                            found.push(value);
                        }
                    }
                }
                found
            }
            HashSource::Tag(tag) => {
                let values = views.tag_values(tag);
                let values = values
                    .iter()
                    .filter_map(|value| self.tag_value(views, value));
                values.map(String::into_bytes).collect()
            }
            HashSource::Attachments => {
                let ignored = &views.settings().senders.hashes_ignored;
                let parts = mail.parts().leaves().filter(|part| {
                    let name = String::from_utf8_lossy(part.name.as_deref().unwrap_or_default())
                        .to_ascii_lowercase();
                    let length = part.decoded().len();
                    length > 0
                        && !ignored.contains(&part.media_type)
                        && !ignored.contains(&name)
                        && self.number("minsize").is_none_or(|least| length >= least)
                        && self.number("maxsize").is_none_or(|most| length <= most)
                });
                parts.map(|part| part.decoded().to_vec()).collect()
            }
        }
    }
}
