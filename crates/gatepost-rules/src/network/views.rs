//! The parts of a message that network rules look up: relays, senders, hosts of links.

use std::net::IpAddr;

use gatepost_dns::{Question, QuestionOutcome, RecordData, RecordType};
use gatepost_mail::{Uri, ip};
use gatepost_pattern::Captured;

use super::asn;
use super::senders::{SenderFindings, Senders};
use super::settings::NetworkSettings;
use crate::eval::ScannedMail;
use crate::tags::{TagTemplatePart, message, pieces};

/// The most names that one template expands to.
const NAMES_MAX: usize = 20;
/// The most name servers, and addresses of a host, that are used.
const SERVERS_MAX: usize = 4;

/// The key by which a list of links is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKey {
    /// The registered domain.
    Domain,
    /// The whole host.
    Host,
    /// The addresses of the host.
    Address,
    /// The addresses of the domain's name servers.
    ServerAddress,
    /// The registered domains of its name servers.
    ServerDomain,
    /// The full names.
    ServerName,
}

impl LinkKey {
    /// Whether other questions precede the question to the list.
    pub(super) const fn has_steps(self) -> bool {
        !matches!(self, Self::Domain | Self::Host)
    }
}

/// The results so far for a message. They are kept while a scan waits for responses;
/// [`NetworkViews`] are built from them whenever the scan continues.
pub(super) struct ViewFindings {
    /// Hosts of links with their registered domains.
    hosts: Vec<(String, String)>,
    /// The texts that groups of patterns captured.
    captured: Captured,
    senders: SenderFindings,
}

impl ViewFindings {
    pub(super) fn of(
        mail: &ScannedMail<'_>,
        settings: &NetworkSettings,
        captured: Captured,
    ) -> Self {
        Self {
            hosts: hosts_of_links(mail, settings),
            captured,
            senders: SenderFindings::new(),
        }
    }
}

/// The hosts of links that are queried. If there are too many, those are chosen that a reader is
/// most likely to follow.
fn hosts_of_links(mail: &ScannedMail<'_>, settings: &NetworkSettings) -> Vec<(String, String)> {
    if settings.skips_link_lists {
        return Vec::new();
    }
    let is_mail = |link: &Uri| {
        let scheme = link.raw.get(..7).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"mailto:")
    };
    let mut links: Vec<&Uri> = mail.uri_list().details.iter().collect();
    links.retain(|link| !settings.skips_mailto || !is_mail(link));
    links.sort_by_key(|link| rank(link));
    let skipped = &settings.skipped_link_domains;
    let signers = if settings.asks_signers {
        signer_hosts(mail)
    } else {
        Vec::new()
    };
    // Signers rank before links that only occur in the text.
    let shown = links.partition_point(|link| rank(link) <= RANK_OF_OTHERS);
    let (shown, parsed) = links.split_at(shown);
    let of_links = |links: &[&Uri]| -> Vec<(String, String)> {
        let hosts = links.iter().flat_map(|link| &link.hosts);
        hosts.cloned().collect()
    };
    let mut hosts: Vec<(String, String)> = Vec::new();
    for host in [of_links(shown), signers, of_links(parsed)].concat() {
        let is_skipped = skipped.contains(&host.0) || skipped.contains(&host.1);
        if hosts.len() < settings.link_domains_max && !is_skipped && !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// The domains of signatures, which count as links: `parse_dkim_uris`.
fn signer_hosts(mail: &ScannedMail<'_>) -> Vec<(String, String)> {
    let boundaries = &mail.view_settings().boundaries;
    let mut hosts = Vec::new();
    for field in ["DomainKey-Signature", "DKIM-Signature"] {
        for value in mail.values_of(field) {
            let text = String::from_utf8_lossy(&value).to_ascii_lowercase();
            let tags = text.split(';').filter_map(|tag| tag.split_once('='));
            for (_, domain) in tags.filter(|(name, _)| name.trim() == "d") {
                let host: String = domain.split_whitespace().collect();
                if boundaries.is_valid(&host) {
                    let registered = boundaries.registered(&host);
                    hosts.push((host, registered));
                }
            }
        }
    }
    hosts
}

/// The rank of links that are neither anchors, forms and images nor only text.
const RANK_OF_OTHERS: u8 = 3;

/// Displayed links come first, anchors without a text last, as in SpamAssassin.
fn rank(link: &Uri) -> u8 {
    if link.types.contains(&"a") {
        let has_text = link.anchor_text.iter().any(|text| !text.is_empty());
        return if has_text { 0 } else { 5 };
    }
    if link.types.contains(&"form") {
        1
    } else if link.types.contains(&"img") {
        2
    } else if link.types == ["parsed"] {
        4
    } else {
        RANK_OF_OTHERS
    }
}

/// The views of network rules.
pub(super) struct NetworkViews<'m, 'a> {
    mail: &'m ScannedMail<'a>,
    settings: &'m NetworkSettings,
    hosts: &'m [(String, String)],
    captured: &'m Captured,
    pub(super) senders: Senders<'m, 'a>,
}

impl<'m, 'a> NetworkViews<'m, 'a> {
    pub(super) fn of(
        mail: &'m ScannedMail<'a>,
        settings: &'m NetworkSettings,
        found: &'m ViewFindings,
    ) -> Self {
        Self {
            mail,
            settings,
            hosts: &found.hosts,
            captured: &found.captured,
            senders: Senders::of(mail, &settings.senders, &found.senders),
        }
    }

    pub(super) fn mail(&self) -> &'m ScannedMail<'a> {
        self.mail
    }

    pub(super) fn settings(&self) -> &'m NetworkSettings {
        self.settings
    }

    /// The addresses of relays that a set includes, by the end of its name.
    pub(super) fn relays(&self, set: &str, is_nice: bool, count_max: usize) -> Vec<IpAddr> {
        let relays = self.mail.relays();
        let public = |relays: &[gatepost_mail::Relay]| {
            let mut addresses: Vec<IpAddr> = Vec::new();
            for relay in relays {
                if let Some(address) = ip::parse(relay.ip.as_bytes())
                    && !ip::is_private(address)
                    && !addresses.contains(&address)
                {
                    addresses.push(address);
                }
            }
            addresses
        };
        let mut untrusted = public(&relays.untrusted);
        if untrusted.is_empty() {
            return Vec::new(); // all of the way is trusted
        }
        let external = public(&relays.external);
        let mut addresses = match set.rsplit_once('-').map(|(_, end)| end) {
            Some("lastexternal") => external.into_iter().take(1).collect(),
            Some("notfirsthop") => {
                let mut hops = external;
                if hops.len() > 1 {
                    hops.pop();
                }
                hops
            }
            Some("firsttrusted") => untrusted.into_iter().take(1).collect(),
            Some("untrusted") => untrusted.split_off(1),
            _ => {
                untrusted.reverse();
                untrusted
            }
        };
        addresses.truncate(count_max);
        if !is_nice {
            let trusted = &self.mail.view_settings().trusted_networks;
            let skipped = addresses
                .iter()
                .take_while(|address| trusted.contains(**address))
                .count();
            addresses.drain(..skipped);
        }
        addresses
    }

    /// The name of an address in a list (RFC 5782, section 2).
    #[allow(clippy::unused_self)]
    pub(super) fn listed(&self, address: IpAddr, zone: &str) -> String {
        format!("{}.{zone}", ip::reversed(address))
    }

    /// The hosts of the senders' addresses.
    pub(super) fn sender_hosts(&self, of_envelope: bool) -> Vec<String> {
        let addresses = if of_envelope {
            self.mail
                .envelope_from()
                .map(<[u8]>::to_vec)
                .into_iter()
                .collect()
        } else {
            self.mail.sender_addresses().to_vec()
        };
        let mut hosts = Vec::new();
        for address in addresses {
            let text = String::from_utf8_lossy(&address).to_ascii_lowercase();
            let host = text
                .rsplit_once('@')
                .map(|(_, host)| host.trim_matches(['>', '.', ' ']));
            if let Some(host) = host.filter(|host| host.contains('.'))
                && self.mail.view_settings().boundaries.is_valid(host)
                && !hosts.iter().any(|known| known == host)
            {
                hosts.push(host.to_owned());
            }
        }
        hosts
    }

    /// The queries that lead from links to the names in a list.
    pub(super) fn link_steps<'r>(
        &self,
        key: LinkKey,
        answer: &dyn Fn(&Question) -> Option<&'r QuestionOutcome>,
    ) -> Vec<Question> {
        let names = self
            .hosts
            .iter()
            .filter(|(host, _)| ip::parse(host.as_bytes()).is_none());
        let servers = |(_, domain): &(String, String)| Question::new(domain, RecordType::Ns);
        match key {
            LinkKey::Domain | LinkKey::Host => Vec::new(),
            LinkKey::Address => names
                .map(|(host, _)| Question::new(host, RecordType::A))
                .collect(),
            LinkKey::ServerDomain | LinkKey::ServerName => names.map(servers).collect(),
            LinkKey::ServerAddress => {
                let mut questions: Vec<Question> = names.map(servers).collect();
                let addresses: Vec<Question> = questions
                    .iter()
                    .flat_map(|question| records(answer(question)))
                    .filter_map(|record| match record {
                        RecordData::Name(server) => Some(Question::new(server, RecordType::A)),
                        _ => None,
                    })
                    .collect();
                questions.extend(addresses);
                questions
            }
        }
    }

    /// The labels before the zone of a list for the links.
    pub(super) fn link_keys<'r>(
        &self,
        key: LinkKey,
        ips_only: bool,
        domains_only: bool,
        answer: &dyn Fn(&Question) -> Option<&'r QuestionOutcome>,
    ) -> Vec<String> {
        let mut keys: Vec<String> = if key.has_steps() {
            let steps = self.link_steps(key, answer);
            let records = steps.iter().flat_map(|step| records(answer(step)));
            records
                .filter_map(|record| self.key_of(key, record))
                .collect()
        } else {
            let key_of_host = |(host, domain): &(String, String)| {
                match ip::parse(host.as_bytes()) {
                    // Lists of names contain IPv4 addresses too, but no IPv6 addresses.
                    Some(address) => {
                        (!domains_only && address.is_ipv4() && !ip::is_private(address))
                            .then(|| ip::reversed(address))
                    }
                    None if ips_only => None,
                    None if key == LinkKey::Host => Some(host.clone()),
                    None => Some(domain.clone()),
                }
            };
            self.hosts.iter().filter_map(key_of_host).collect()
        };
        keys.sort();
        keys.dedup();
        keys
    }

    /// The name in a list that follows from an intermediate record.
    fn key_of(&self, key: LinkKey, record: &RecordData) -> Option<String> {
        let address = match record {
            RecordData::Name(server) if key == LinkKey::ServerName => return Some(server.clone()),
            RecordData::Name(server) if key == LinkKey::ServerDomain => {
                let boundaries = &self.mail.view_settings().boundaries;
                return Some(boundaries.registered(server));
            }
            RecordData::A(address) => IpAddr::V4(*address),
            RecordData::Aaaa(address) => IpAddr::V6(*address),
            _ => return None,
        };
        Some(ip::reversed(address))
    }

    /// The names that a template of `askdns` expands to; none if the message has no value for one
    /// of its tags.
    pub(super) fn fill<'r>(
        &self,
        template: &str,
        answer: &dyn Fn(&Question) -> Option<&'r QuestionOutcome>,
    ) -> Vec<String> {
        let mut names = vec![String::new()];
        for piece in pieces(template) {
            let tag = match piece {
                TagTemplatePart::Text(text) => {
                    for name in &mut names {
                        name.push_str(text);
                    }
                    continue;
                }
                TagTemplatePart::Tag(tag) => tag,
            };
            let values = match tag.name {
                "DKIMDOMAIN" => self.senders.signer_domains(answer).unwrap_or_default(),
                "ASN" | "ASNCIDR" => {
                    let tags = asn::tags(self.mail, &self.settings.senders, answer).into_iter();
                    tags.filter(|(known, _)| known == tag.name)
                        .map(|(_, value)| value)
                        .collect()
                }
                message::FIELD => {
                    let value = message::value(message::FIELD, tag.argument, self.mail);
                    Some(value.trim().to_owned())
                        .filter(|value| !value.is_empty())
                        .into_iter()
                        .collect()
                }
                name => self.tag_values(name),
            };
            let mut longer = Vec::new();
            for name in &names {
                for value in &values {
                    if longer.len() < NAMES_MAX {
                        longer.push(format!("{name}{value}"));
                    }
                }
            }
            names = longer;
        }
        names
    }

    /// The values of a tag that a pattern captured, or that the message itself has.
    pub(super) fn tag_values(&self, tag: &str) -> Vec<String> {
        let mail = self.mail;
        if let Some(values) = self.captured.get(tag) {
            let values = values.iter().map(|value| String::from_utf8_lossy(value));
            return values.map(std::borrow::Cow::into_owned).collect();
        }
        let mut values = match tag {
            "AUTHORDOMAIN" => mail
                .values_of("From:addr")
                .iter()
                .filter_map(|address| domain_of(address))
                .filter(|host| !host.contains('"'))
                .collect(),
            "SENDERDOMAIN" => mail
                .envelope_from()
                .and_then(domain_of)
                .into_iter()
                .collect(),
            "URIHOSTS" => self.hosts.iter().map(|(host, _)| host.clone()).collect(),
            "URIDOMAINS" => self
                .hosts
                .iter()
                .map(|(_, domain)| domain.clone())
                .collect(),
            _ => {
                let last = mail.relays().external.first();
                let address = last.and_then(|relay| ip::parse(relay.ip.as_bytes()));
                let text = match tag {
                    "LASTEXTERNALIP" => address.map(|address| address.to_string()),
                    "LASTEXTERNALREVIP" => address.map(ip::reversed),
                    "LASTEXTERNALRDNS" => last.map(|relay| relay.rdns.clone()),
                    "LASTEXTERNALHELO" => last.map(|relay| relay.helo.clone()),
                    tag => Some(message::value(tag, None, mail)),
                };
                text.into_iter().collect::<Vec<String>>()
            }
        };
        values.retain(|value| !value.is_empty());
        values.sort();
        values.dedup();
        values
    }
}

fn domain_of(address: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(address).to_ascii_lowercase();
    let (_, domain) = text.rsplit_once('@')?;
    Some(domain.trim_matches(['>', '.', ' ']).to_owned())
}

fn records(answer: Option<&QuestionOutcome>) -> impl Iterator<Item = &RecordData> {
    let records = match answer {
        Some(QuestionOutcome::Records(records)) => records.as_slice(),
        _ => &[],
    };
    records.iter().take(SERVERS_MAX)
}
