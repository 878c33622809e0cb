//! What network rules look at in a message: relays, senders, the hosts of links.

use std::net::IpAddr;

use super::origin;
use super::senders::Senders;
use super::tests_of_rules::LinkKey;
use super::wire::{Answer, Kind, Question, Record};
use crate::mail::{Mail, ip};

/// Domains of links that lists are asked about, as SpamAssassin's `uridnsbl_max_domains`.
const DOMAINS_MAX: usize = 20;
/// Names that one template may become.
const NAMES_MAX: usize = 20;
/// Name servers, and addresses of a host, that are looked at.
const SERVERS_MAX: usize = 4;

pub(super) struct Views<'m, 'a> {
    mail: &'m Mail<'a>,
    /// Hosts of links with their registered domains.
    hosts: Vec<(String, String)>,
    pub(super) senders: Senders<'m, 'a>,
}

impl<'m, 'a> Views<'m, 'a> {
    pub(super) fn of(mail: &'m Mail<'a>) -> Self {
        let mut hosts: Vec<(String, String)> = Vec::new();
        for link in &mail.uri_list().details {
            for host in &link.hosts {
                let skipped = &mail.configuration().skipped_link_domains;
                let is_skipped = skipped.contains(&host.0) || skipped.contains(&host.1);
                if hosts.len() < DOMAINS_MAX && !is_skipped && !hosts.contains(host) {
                    hosts.push(host.clone());
                }
            }
        }
        Self {
            mail,
            hosts,
            senders: Senders::of(mail),
        }
    }

    pub(super) fn mail(&self) -> &'m Mail<'a> {
        self.mail
    }

    /// The addresses of relays that a set means, by the end of its name.
    pub(super) fn relays(&self, set: &str, is_nice: bool, count_max: usize) -> Vec<IpAddr> {
        let relays = self.mail.relays();
        let public = |relays: &[crate::mail::Relay]| {
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
            let trusted = &self.mail.configuration().trusted_networks;
            let skipped = addresses
                .iter()
                .take_while(|address| trusted.contains(**address))
                .count();
            addresses.drain(..skipped);
        }
        addresses
    }

    /// The name by which a list holds an address (RFC 5782 section 2).
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
                && self.mail.configuration().boundaries.is_valid(host)
                && !hosts.iter().any(|known| known == host)
            {
                hosts.push(host.to_owned());
            }
        }
        hosts
    }

    /// The questions on the way from links to the names that a list is asked for.
    pub(super) fn link_steps<'r>(
        &self,
        key: LinkKey,
        ips_only: bool,
        domains_only: bool,
        answer: &dyn Fn(&Question) -> Option<&'r Answer>,
    ) -> Vec<Question> {
        if ips_only || domains_only {
            return Vec::new();
        }
        let names = self
            .hosts
            .iter()
            .filter(|(host, _)| ip::parse(host.as_bytes()).is_none());
        match key {
            LinkKey::Domain => Vec::new(),
            LinkKey::Address => names
                .map(|(host, _)| Question::new(host, Kind::A))
                .collect(),
            LinkKey::NameServer => {
                let mut questions: Vec<Question> = names
                    .map(|(_, domain)| Question::new(domain, Kind::Ns))
                    .collect();
                let servers: Vec<Question> = questions
                    .iter()
                    .flat_map(|question| records(answer(question)))
                    .filter_map(|record| match record {
                        Record::Name(server) => Some(Question::new(server, Kind::A)),
                        _ => None,
                    })
                    .collect();
                questions.extend(servers);
                questions
            }
        }
    }

    /// What stands before the zone of a list when it is asked about the links.
    pub(super) fn link_keys<'r>(
        &self,
        key: LinkKey,
        ips_only: bool,
        domains_only: bool,
        answer: &dyn Fn(&Question) -> Option<&'r Answer>,
    ) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (host, domain) in &self.hosts {
            match ip::parse(host.as_bytes()) {
                Some(address) if !domains_only => keys.push(ip::reversed(address)),
                None if key == LinkKey::Domain && !ips_only => keys.push(domain.clone()),
                _ => {}
            }
        }
        if key != LinkKey::Domain {
            for question in self.link_steps(key, ips_only, domains_only, answer) {
                let addresses = records(answer(&question)).filter_map(|record| match record {
                    Record::A(address) => Some(IpAddr::V4(*address)),
                    Record::Aaaa(address) => Some(IpAddr::V6(*address)),
                    _ => None,
                });
                let public = addresses.filter(|address| !ip::is_private(*address));
                keys.extend(public.map(ip::reversed));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// The names that a template of `askdns` becomes; none where the message has nothing for one
    /// of its tags.
    pub(super) fn fill<'r>(
        &self,
        template: &str,
        answer: &dyn Fn(&Question) -> Option<&'r Answer>,
    ) -> Vec<String> {
        let mut names = vec![String::new()];
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('_') {
            let Some((tag, after)) = after.split_once('_') else {
                break;
            };
            let values = match tag {
                "DKIMDOMAIN" => self.senders.signer_domains(answer).unwrap_or_default(),
                "ASN" | "ASNCIDR" => {
                    let tags = origin::tags(self.mail, answer).into_iter();
                    tags.filter(|(known, _)| known == tag)
                        .map(|(_, value)| value)
                        .collect()
                }
                tag => self.tag_values(tag),
            };
            let mut longer = Vec::new();
            for name in &names {
                for value in &values {
                    if longer.len() < NAMES_MAX {
                        longer.push(format!("{name}{before}{value}"));
                    }
                }
            }
            names = longer;
            rest = after;
        }
        for name in &mut names {
            name.push_str(rest);
        }
        names
    }

    /// The values of a tag that the message itself has.
    pub(super) fn tag_values(&self, tag: &str) -> Vec<String> {
        let mail = self.mail;
        let mut values = match tag {
            "AUTHORDOMAIN" => mail
                .values_of("From:addr")
                .iter()
                .filter_map(|address| domain_of(address))
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
                    _ => None,
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

fn records(answer: Option<&Answer>) -> impl Iterator<Item = &Record> {
    let records = match answer {
        Some(Answer::Records(records)) => records.as_slice(),
        _ => &[],
    };
    records.iter().take(SERVERS_MAX)
}
