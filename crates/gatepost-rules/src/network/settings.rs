//! Directives about DNS queries: `dns_available`, `skip_rbl_checks`,
//! `dns_query_restriction` and so on.

use std::collections::{HashMap, HashSet};

use gatepost_mail::Directive;

use super::blocks::BlockRules;
use crate::authentication::settings::SenderSettings;

/// The settings of network rules.
#[derive(Clone, Debug)]
pub(crate) struct NetworkSettings {
    /// Domains of links that are never queried.
    pub(crate) skipped_link_domains: HashSet<String>,
    /// The most hosts of links that are queried: `uridnsbl_max_domains`.
    pub(crate) link_domains_max: usize,
    /// Links to mail addresses are skipped: `uridnsbl_skip_mailto`.
    pub(crate) skips_mailto: bool,
    /// Domains of signatures count as links: `parse_dkim_uris`.
    pub(crate) asks_signers: bool,
    /// Lists of relays and senders are not queried: `skip_rbl_checks`.
    pub(crate) skips_relay_lists: bool,
    /// Lists of links are not queried: `skip_uribl_checks`.
    pub(crate) skips_link_lists: bool,
    /// No queries are sent: `dns_available no`.
    is_off: bool,
    /// Domains, or `*`, that are not queried; false for exceptions: `dns_query_restriction`.
    restrictions: HashMap<String, bool>,
    /// Rules whose hits block domains: `dns_block_rule`.
    pub(crate) block_rules: BlockRules,
    /// Settings about senders, their networks, and hashes.
    pub(crate) senders: SenderSettings,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            skipped_link_domains: HashSet::new(),
            link_domains_max: 20,
            skips_mailto: true,
            asks_signers: true,
            skips_relay_lists: false,
            skips_link_lists: false,
            is_off: false,
            restrictions: HashMap::new(),
            block_rules: BlockRules::default(),
            senders: SenderSettings::default(),
        }
    }
}

impl NetworkSettings {
    /// Whether this name may be queried. Of the restrictions that apply, the one with the longest
    /// domain decides.
    pub(crate) fn permits(&self, name: &str) -> bool {
        if self.is_off || self.restrictions.is_empty() {
            return !self.is_off;
        }
        let parents = std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1));
        let mut found = parents
            .chain(["*"])
            .filter_map(|domain| self.restrictions.get(domain));
        !found.next().copied().unwrap_or(false)
    }

    /// Processes one line of a rule file.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Directive {
        let words = value.split_ascii_whitespace().map(str::to_ascii_lowercase);
        match name {
            "uridnsbl_skip_domain" => self.skipped_link_domains.extend(words),
            "clear_uridnsbl_skip_domain" => {
                for word in words {
                    self.skipped_link_domains.remove(&word);
                }
                if value.trim().is_empty() {
                    self.skipped_link_domains.clear();
                }
            }
            "uridnsbl_max_domains" => match value.trim().parse() {
                Ok(count) => self.link_domains_max = count,
                Err(_) => return Directive::Invalid("it takes a number of domains".to_owned()),
            },
            "uridnsbl_skip_mailto" => return switch(&mut self.skips_mailto, value),
            "parse_dkim_uris" => return switch(&mut self.asks_signers, value),
            "skip_rbl_checks" => return switch(&mut self.skips_relay_lists, value),
            "skip_uribl_checks" => return switch(&mut self.skips_link_lists, value),
            "dns_available" => match value.trim().to_ascii_lowercase().as_str() {
                "no" | "0" => self.is_off = true,
                // The first query shows whether DNS is available.
                value if matches!(value, "yes" | "1") || value.starts_with("test") => {
                    self.is_off = false;
                }
                _ => return Directive::Invalid("it takes yes, no or test".to_owned()),
            },
            "dns_block_rule" => return self.block_rules.add(value),
            "dns_block_time" => return self.block_rules.set_time(value),
            "dns_query_restriction" => return self.restrict(value),
            "clear_dns_query_restriction" | "clear_dns_query_restrictions" => {
                self.restrictions.clear();
            }
            _ => return self.senders.directive(name, value),
        }
        Directive::Taken
    }

    /// `(allow|deny) domain ...`
    fn restrict(&mut self, value: &str) -> Directive {
        let mut words = value.split_ascii_whitespace().map(str::to_ascii_lowercase);
        let is_denied = match words.next().as_deref() {
            Some("deny") => true,
            Some("allow") => false,
            _ => return Directive::Invalid("it takes allow or deny, and domains".to_owned()),
        };
        for domain in words {
            let domain = domain.trim_matches('.').to_owned();
            self.restrictions.insert(domain, is_denied);
        }
        Directive::Taken
    }
}

fn switch(setting: &mut bool, value: &str) -> Directive {
    match value.trim() {
        "1" | "yes" => *setting = true,
        "0" | "no" => *setting = false,
        _ => return Directive::Invalid("it takes 0 or 1".to_owned()),
    }
    Directive::Taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_restriction_decides() {
        let mut settings = NetworkSettings::default();
        assert!(settings.permits("a.example"));
        for line in ["deny example.org", "allow zen.Example.org. x", "deny *"] {
            assert_eq!(
                settings.directive("dns_query_restriction", line),
                Directive::Taken
            );
        }
        for (name, permitted) in [
            ("1.2.zen.example.org", true),
            ("a.example.org", false),
            ("example.org", false),
            ("another.example", false),
            ("x", true),
        ] {
            assert_eq!(settings.permits(name), permitted, "{name}");
        }
        settings.directive("clear_dns_query_restriction", "");
        assert!(settings.permits("example.org"));
        settings.directive("dns_available", "no");
        assert!(!settings.permits("example.org"));
        assert!(matches!(
            settings.directive("dns_query_restriction", "example.org"),
            Directive::Invalid(_)
        ));
    }
}
