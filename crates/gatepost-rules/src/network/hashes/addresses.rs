//! The mail addresses that are hashed: their selection, and the part of each.

use std::borrow::Cow;

use super::super::views::NetworkViews;
use super::HashTest;
use crate::eval::{addresses_in, without_links, without_quoted};

// Role addresses, unless hashbl_email_welcomelist lists others.
crate::eval::pattern!(
    NO_PERSON,
    concat!(
        r"^(?:abuse|support|sales|info|helpdesk|contact|kontakt|(?:post|host|domain)master",
        r"|undisclosed.*|request-[a-f0-9]{16}|bounced?-|[a-f0-9]{8}(?:\.[a-f0-9]{8}",
        r"|-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12})|.+=.+=.+)@",
    ),
    "i"
);

impl HashTest {
    pub(super) fn addresses(
        &self,
        views: &NetworkViews<'_, '_>,
        places: &str,
        choice: Option<&str>,
    ) -> Vec<Vec<u8>> {
        let mail = views.mail();
        let boundaries = &mail.view_settings().boundaries;
        let settings = &views.settings().senders;
        // With an explicit choice, even "all", the skipped domains are queried too.
        let is_chosen = choice.is_some();
        let choice = choice
            .filter(|name| *name != "all")
            .map(|name| settings.mail_domain_choices.get(name));
        let recipients: Vec<Vec<u8>> = [
            "X-Original-To:addr",
            "Apparently-To:addr",
            "Delivered-To:addr",
            "Envelope-To:addr",
        ]
        .iter()
        .flat_map(|selector| mail.values_of(selector))
        .map(|address| address.to_ascii_lowercase())
        .collect();
        let mut found = Vec::new();
        for place in places.split('/').map(str::trim) {
            let addresses: Vec<Vec<u8>> = match place {
                "ALLFROM" => mail.sender_addresses().to_vec(),
                "body" => self.addresses_in_body(views),
                header => {
                    let values = mail.values_of(header);
                    let all = values
                        .iter()
                        .flat_map(|value| hashed_addresses(views, value));
                    all.collect()
                }
            };
            let no_person = settings.addresses_not_hashed.as_ref().unwrap_or(&NO_PERSON);
            for address in addresses {
                let lower = address.to_ascii_lowercase();
                if recipients.contains(&lower) || no_person.is_match(&address) {
                    continue;
                }
                let text = String::from_utf8_lossy(&address).into_owned();
                let Some((user, domain)) = text.rsplit_once('@') else {
                    continue;
                };
                let lower = domain.to_ascii_lowercase();
                let domain = settings
                    .mail_domains
                    .get(&lower)
                    .map_or(domain, String::as_str);
                let lower = domain.to_ascii_lowercase();
                let registered = boundaries.registered(&lower);
                let is_meant = if let Some(list) = choice {
                    list.and_then(|list| list.get(domain)).copied() == Some(true)
                } else if is_chosen {
                    true
                } else {
                    let skipped = &views.settings().skipped_link_domains;
                    !skipped.contains(&lower) && !skipped.contains(&registered)
                };
                if is_meant {
                    found.push(self.in_case(self.part_of(user, domain, &registered).as_bytes()));
                }
            }
        }
        found
    }

    /// The addresses in links of the text, and those in the text itself.
    fn addresses_in_body(&self, views: &NetworkViews<'_, '_>) -> Vec<Vec<u8>> {
        let mail = views.mail();
        let mut found = Vec::new();
        for link in &mail.uri_list().details {
            let is_only_linked = link.types.contains(&"a") && !link.types.contains(&"parsed");
            let scheme = link.raw.get(..7).unwrap_or_default();
            if is_only_linked && scheme.eq_ignore_ascii_case(b"mailto:") {
                found.extend(hashed_addresses(
                    views,
                    link.raw.get(7..).unwrap_or_default(),
                ));
            }
        }
        for line in mail
            .body()
            .iter()
            .filter(|line| memchr::memchr(b'@', line).is_some())
        {
            let mut line = Cow::Borrowed(line);
            if self.has("nouri") {
                line = Cow::Owned(without_links(&line));
            }
            if self.has("noquote") {
                let places = hashed_places(views, &line);
                line = Cow::Owned(without_quoted(&line, places.into_iter()));
            }
            found.extend(hashed_addresses(views, &line));
        }
        found
    }

    /// The part of an address that is hashed.
    fn part_of(&self, user: &str, domain: &str, registered: &str) -> String {
        let mut user = user.to_owned();
        if self.has("nodot") {
            user.retain(|letter| letter != '.');
        }
        if self.has("notag") {
            user.truncate(user.find('+').unwrap_or(user.len()));
        }
        if self.has("domain") {
            registered.to_owned()
        } else if self.has("host") {
            domain.to_owned()
        } else if self.has("user") {
            user
        } else {
            format!("{user}@{domain}")
        }
    }
}

/// The positions of addresses, according to `hashbl_email_regex` or else SpamAssassin's pattern.
fn hashed_places(views: &NetworkViews<'_, '_>, text: &[u8]) -> Vec<(usize, usize)> {
    let Some(chosen) = &views.settings().senders.hashed_addresses else {
        return addresses_in(views.mail(), text)
            .map(|(start, end, _)| (start, end))
            .collect();
    };
    let is_address = |&(start, end): &(usize, usize)| {
        let address = text.get(start..end).unwrap_or_default();
        let domain = address
            .rsplit(|&byte| byte == b'@')
            .next()
            .unwrap_or_default();
        let domain = String::from_utf8_lossy(domain).to_ascii_lowercase();
        !chosen.ends_in_domain || views.mail().view_settings().boundaries.is_valid(&domain)
    };
    chosen.pattern.spans(text).filter(is_address).collect()
}

fn hashed_addresses(views: &NetworkViews<'_, '_>, text: &[u8]) -> Vec<Vec<u8>> {
    let places = hashed_places(views, text).into_iter();
    places
        .filter_map(|(start, end)| text.get(start..end).map(<[u8]>::to_vec))
        .collect()
}
