//! The directives for eval functions: lists of addresses and hosts, locales, limits.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use gatepost_mail::{Directive, MailPattern};

use super::address_list::{AddressList, glob, glob_within};
use super::office::OfficeSettings;
use super::phishing::PhishingFeeds;
use super::text_cat::LanguageSettings;

/// The settings of eval functions.
#[derive(Clone, Debug)]
pub(crate) struct EvalSettings {
    /// Named lists of addresses: `welcomelist_from`, `blocklist_to`, and those of
    /// `enlist_addrlist`.
    pub(crate) addresses: HashMap<String, AddressList>,
    /// Named lists of hosts in links; false for exceptions.
    pub(crate) uri_hosts: HashMap<String, HashMap<String, bool>>,
    /// Senders that are welcome from particular hosts: `welcomelist_from_rcvd`.
    pub(crate) welcomelist_from_rcvd: Vec<SenderFromHost>,
    /// `def_welcomelist_from_rcvd`.
    pub(crate) default_welcomelist_from_rcvd: Vec<SenderFromHost>,
    /// Mail domains that offer addresses to the public.
    pub(crate) freemail_domains: HashSet<String>,
    /// The same with wildcards.
    pub(crate) freemail_globs: FreemailGlobs,
    /// Addresses and domains that are excepted from freemail.
    pub(crate) freemail_welcomelist: HashSet<String>,
    /// The lists of addresses whose members are excepted from freemail: `freemail_import_…`.
    pub(crate) freemail_imports: Vec<&'static str>,
    /// The most addresses in a body that are examined.
    pub(crate) freemail_body_emails_max: usize,
    /// The most freemail addresses in a body that are examined.
    pub(crate) freemail_body_freemails_max: usize,
    /// Senders of bulk mail are not examined.
    pub(crate) freemail_skip_bulk: bool,
    /// Languages whose character sets are expected; `all` for any.
    pub(crate) locales: Vec<String>,
    /// The site's own relays, which appear in bounces of its own mail.
    pub(crate) bounce_relays: AddressList,
    /// Subjects that are always welcome.
    pub(crate) welcomelist_subject: Vec<MailPattern>,
    /// Subjects that are never welcome.
    pub(crate) blocklist_subject: Vec<MailPattern>,
    /// Link shorteners.
    pub(crate) url_shorteners: HashSet<String>,
    /// Fields whose presence excuses a display name that is another address.
    pub(crate) from_name_ignored_fields: Vec<String>,
    /// The characters by which a display name may exceed the address in it.
    pub(crate) from_name_extra_characters: i64,
    /// The definition of a spoofed name.
    pub(crate) from_name_check: u32,
    pub(crate) languages: LanguageSettings,
    pub(crate) phishing: PhishingFeeds,
    pub(crate) office: OfficeSettings,
}

/// A sender that is welcome from a particular host.
#[derive(Clone, Debug)]
pub(crate) struct SenderFromHost {
    /// The address as written in the file, in lower case; it identifies the entry for removal.
    address: String,
    pub(crate) pattern: MailPattern,
    /// A domain, or an address or network in brackets.
    pub(crate) host: String,
}

/// Domains with wildcards, compiled to one pattern on first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreemailGlobs {
    patterns: Vec<String>,
    compiled: OnceLock<Option<MailPattern>>,
}

impl FreemailGlobs {
    fn add(&mut self, domain: &str) {
        let pattern = domain
            .replace('.', r"\.")
            .replace('?', ".")
            .replace('*', "[^.]*");
        // An invalid pattern must not invalidate the others.
        if MailPattern::with_flags(&pattern, "").is_ok() {
            self.patterns.push(pattern);
            self.compiled = OnceLock::new();
        }
    }

    /// Whether an address belongs to one of the domains.
    pub(crate) fn contain(&self, address: &[u8]) -> bool {
        let all =
            || MailPattern::with_flags(&format!("@(?:{})$", self.patterns.join("|")), "").ok();
        !self.patterns.is_empty()
            && self
                .compiled
                .get_or_init(all)
                .as_ref()
                .is_some_and(|all| all.is_match(address))
    }
}

impl Default for EvalSettings {
    fn default() -> Self {
        Self {
            addresses: HashMap::new(),
            uri_hosts: HashMap::new(),
            welcomelist_from_rcvd: Vec::new(),
            default_welcomelist_from_rcvd: Vec::new(),
            freemail_domains: HashSet::new(),
            freemail_globs: FreemailGlobs::default(),
            freemail_welcomelist: HashSet::new(),
            freemail_imports: Vec::new(),
            freemail_body_emails_max: 5,
            freemail_body_freemails_max: 3,
            freemail_skip_bulk: true,
            locales: vec!["all".to_owned()],
            bounce_relays: AddressList::default(),
            welcomelist_subject: Vec::new(),
            blocklist_subject: Vec::new(),
            url_shorteners: HashSet::new(),
            from_name_ignored_fields: Vec::new(),
            from_name_extra_characters: 50,
            from_name_check: 1,
            languages: LanguageSettings::default(),
            phishing: PhishingFeeds::default(),
            office: OfficeSettings::default(),
        }
    }
}

impl EvalSettings {
    /// A named list of addresses.
    pub(crate) fn address_list(&self, name: &str) -> Option<&AddressList> {
        self.addresses.get(name)
    }

    /// Processes one line of a rule file.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Directive {
        if let Some(taken) = self.address_directive(name, value) {
            return taken;
        }
        let taken = self.languages.directive(name, value);
        let taken = taken.or_else(|| self.phishing.directive(name, value));
        if let Some(taken) = taken.or_else(|| self.office.directive(name, value)) {
            return taken;
        }
        let number = value.trim().parse::<usize>();
        match name {
            "freemail_domains" => self.add_freemail_domains(value),
            "freemail_welcomelist" | "freemail_whitelist" => {
                self.freemail_welcomelist
                    .extend(value.split_ascii_whitespace().map(str::to_ascii_lowercase));
            }
            "freemail_import_welcomelist_auth" | "freemail_import_whitelist_auth" => {
                return self.import_freemail("welcomelist_auth", value);
            }
            "freemail_import_def_welcomelist_auth" | "freemail_import_def_whitelist_auth" => {
                return self.import_freemail("def_welcomelist_auth", value);
            }
            "freemail_max_body_emails" => return set(&mut self.freemail_body_emails_max, number),
            "freemail_max_body_freemails" => {
                return set(&mut self.freemail_body_freemails_max, number);
            }
            "freemail_skip_bulk_envfrom" => self.freemail_skip_bulk = value.trim() != "0",
            "freemail_skip_when_over_max" | "freemail_add_describe_email" | "fns_ignore_dkim" => {}
            "ok_locales" => {
                self.locales = value.split_ascii_whitespace().map(str::to_owned).collect();
            }
            "welcomelist_bounce_relays" | "whitelist_bounce_relays" => {
                self.bounce_relays.add(value);
            }
            "welcomelist_subject" | "whitelist_subject" => {
                return push_subject(&mut self.welcomelist_subject, value);
            }
            "blocklist_subject" | "blacklist_subject" => {
                return push_subject(&mut self.blocklist_subject, value);
            }
            "url_shortener" | "url_shortener_get" => {
                self.url_shorteners
                    .extend(value.split_ascii_whitespace().map(str::to_ascii_lowercase));
            }
            "clear_url_shortener" => self.url_shorteners.clear(),
            "fns_ignore_headers" => {
                self.from_name_ignored_fields
                    .extend(value.split_ascii_whitespace().map(str::to_owned));
            }
            "fns_extrachars" => match value.trim().parse() {
                Ok(number) => self.from_name_extra_characters = number,
                Err(_) => return Directive::Invalid(format!("{value} is not a number")),
            },
            "fns_check" => match value.trim().parse() {
                Ok(number @ 0..=2) => self.from_name_check = number,
                _ => return Directive::Invalid(format!("{value} is not 0, 1 or 2")),
            },
            _ => return Directive::Unknown,
        }
        Directive::Taken
    }

    fn address_directive(&mut self, name: &str, value: &str) -> Option<Directive> {
        let current = name
            .replace("whitelist", "welcomelist")
            .replace("blacklist", "blocklist");
        match current.as_str() {
            "welcomelist_from"
            | "welcomelist_to"
            | "blocklist_from"
            | "blocklist_to"
            | "more_spam_to"
            | "all_spam_to"
            | "welcomelist_allows_relays"
            | "welcomelist_auth"
            | "def_welcomelist_auth"
            | "welcomelist_from_spf"
            | "def_welcomelist_from_spf" => self.addresses.entry(current).or_default().add(value),
            "unwelcomelist_from" | "unblocklist_from" | "unwelcomelist_to" | "unblocklist_to" => {
                let list = current.strip_prefix("un").unwrap_or(&current).to_owned();
                self.addresses.entry(list).or_default().remove(value);
            }
            "unwelcomelist_from_spf" | "unwelcomelist_auth" => {
                let list = current.strip_prefix("un").unwrap_or(&current);
                for list in [list.to_owned(), format!("def_{list}")] {
                    self.addresses.entry(list).or_default().remove(value);
                }
            }
            "unwelcomelist_from_rcvd" => {
                let revoked: Vec<String> = value
                    .split_ascii_whitespace()
                    .map(str::to_ascii_lowercase)
                    .collect();
                for list in [
                    &mut self.welcomelist_from_rcvd,
                    &mut self.default_welcomelist_from_rcvd,
                ] {
                    list.retain(|sender| !revoked.contains(&sender.address));
                }
            }
            "welcomelist_from_rcvd" => {
                return Some(push_from_rcvd(&mut self.welcomelist_from_rcvd, value));
            }
            "def_welcomelist_from_rcvd" => {
                return Some(push_from_rcvd(
                    &mut self.default_welcomelist_from_rcvd,
                    value,
                ));
            }
            "enlist_addrlist" => return Some(self.enlist_addresses(value)),
            "enlist_uri_host" => return Some(self.enlist_hosts(value)),
            "delist_uri_host" => self.delist_hosts(value),
            "welcomelist_uri_host" => self.add_hosts("WELCOME", value),
            "blocklist_uri_host" => self.add_hosts("BLOCK", value),
            _ => return None,
        }
        Some(Directive::Taken)
    }

    fn add_freemail_domains(&mut self, value: &str) {
        for word in value.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            if !word.contains(['*', '?']) {
                self.freemail_domains.insert(word);
                continue;
            }
            self.freemail_globs.add(&word);
        }
    }

    /// Whether the members of a list are excepted from freemail: `1` or `0`.
    fn import_freemail(&mut self, list: &'static str, value: &str) -> Directive {
        self.freemail_imports.retain(|known| *known != list);
        match value.trim().parse::<i64>() {
            Ok(0) => {}
            Ok(_) => self.freemail_imports.push(list),
            Err(_) => return Directive::Invalid(format!("{value} is neither 1 nor 0")),
        }
        Directive::Taken
    }

    fn enlist_addresses(&mut self, value: &str) -> Directive {
        match split_list_name(value) {
            Some((list, rest)) => {
                self.addresses.entry(list.to_owned()).or_default().add(rest);
                Directive::Taken
            }
            None => Directive::Invalid("the list is to be named in parentheses".to_owned()),
        }
    }

    fn enlist_hosts(&mut self, value: &str) -> Directive {
        match split_list_name(value) {
            Some((list, rest)) => {
                self.add_hosts(list, rest);
                Directive::Taken
            }
            None => Directive::Invalid("the list is to be named in parentheses".to_owned()),
        }
    }

    fn add_hosts(&mut self, list: &str, hosts: &str) {
        let list = self.uri_hosts.entry(list.to_owned()).or_default();
        for host in hosts.split_ascii_whitespace() {
            let host = host.to_ascii_lowercase();
            match host.strip_prefix('!') {
                Some(excepted) => list.insert(excepted.to_owned(), false),
                None => list.insert(host, true),
            };
        }
    }

    fn delist_hosts(&mut self, value: &str) {
        let (only, hosts) = match split_list_name(value) {
            Some((list, rest)) => (Some(list), rest),
            None => (None, value),
        };
        for (list, known) in &mut self.uri_hosts {
            if only.is_none_or(|only| only == list) {
                for host in hosts.split_ascii_whitespace() {
                    known.remove(host.trim_start_matches('!').to_ascii_lowercase().as_str());
                }
            }
        }
    }
}

/// `(NAME) rest`.
fn split_list_name(value: &str) -> Option<(&str, &str)> {
    let (list, rest) = value.trim().strip_prefix('(')?.split_once(')')?;
    Some((list, rest.trim())).filter(|(list, rest)| !list.is_empty() && !rest.is_empty())
}

fn set(target: &mut usize, number: Result<usize, std::num::ParseIntError>) -> Directive {
    match number {
        Ok(number) => {
            *target = number;
            Directive::Taken
        }
        Err(error) => Directive::Invalid(error.to_string()),
    }
}

fn push_subject(list: &mut Vec<MailPattern>, value: &str) -> Directive {
    match glob_within(value.trim()) {
        Ok(pattern) => {
            list.push(pattern);
            Directive::Taken
        }
        Err(reason) => Directive::Invalid(reason),
    }
}

fn push_from_rcvd(list: &mut Vec<SenderFromHost>, value: &str) -> Directive {
    let mut words = value.split_ascii_whitespace();
    let (Some(address), Some(host)) = (words.next(), words.next()) else {
        return Directive::Invalid("an address and a host are needed".to_owned());
    };
    let address = address.to_ascii_lowercase();
    match glob(&address) {
        Ok(pattern) => {
            list.push(SenderFromHost {
                address,
                pattern,
                host: host.to_owned(),
            });
            Directive::Taken
        }
        Err(reason) => Directive::Invalid(reason),
    }
}
