//! What the rule files say about the views: networks, registrar boundaries, redirectors.

use super::domain::Boundaries;
use super::limits::MailLimits;
use super::network::Networks;
use super::pattern::Pattern;
use crate::authentication::settings::SenderSettings;
use crate::eval::Lists;
use std::collections::HashSet;

/// The settings of rule files that views and eval functions depend on.
///
/// The reader of rule files gives every directive it does not know itself to
/// [`Configuration::directive`].
#[derive(Clone, Debug)]
pub struct Configuration {
    /// How much of a message is taken apart; from the settings, not from a rule file.
    pub limits: MailLimits,
    pub(crate) boundaries: Boundaries,
    redirectors: Vec<Pattern>,
    pub(crate) trusted_networks: Networks,
    pub(crate) internal_networks: Networks,
    pub(crate) submission_networks: Networks,
    pub(crate) originating_ip_fields: Vec<String>,
    pub(crate) envelope_sender_field: Option<String>,
    /// Domains of links that no list is asked about.
    pub(crate) skipped_link_domains: HashSet<String>,
    pub(crate) lists: Lists,
    pub(crate) senders: SenderSettings,
}

impl Default for Configuration {
    fn default() -> Self {
        let originating = [
            "X-Yahoo-Post-IP",
            "X-Originating-IP",
            "X-Apparently-From",
            "X-SenderIP",
        ];
        Self {
            limits: MailLimits::default(),
            boundaries: Boundaries::default(),
            redirectors: Vec::new(),
            trusted_networks: Networks::loopback(),
            internal_networks: Networks::loopback(),
            submission_networks: Networks::default(),
            originating_ip_fields: originating.map(str::to_owned).to_vec(),
            envelope_sender_field: None,
            skipped_link_domains: HashSet::new(),
            lists: Lists::default(),
            senders: SenderSettings::default(),
        }
    }
}

/// What became of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// It is one of ours and was stored.
    Taken,
    /// It is not one of ours.
    Unknown,
    /// It is one of ours, but its value cannot be used; the reason.
    Invalid(String),
}

impl Configuration {
    /// Takes one line of a rule file, split at the first blank: its name and the rest.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let words = value
            .split_ascii_whitespace()
            .map(|word| Box::from(word.to_ascii_lowercase()));
        match name {
            "util_rb_tld" => self.boundaries.top_level.extend(words),
            "util_rb_2tld" => self.boundaries.second.extend(words),
            "util_rb_3tld" => self.boundaries.third.extend(words),
            "clear_util_rb" => self.boundaries = Boundaries::default(),
            "redirector_pattern" => match Pattern::compile(value) {
                Ok(pattern) => self.redirectors.push(pattern),
                Err(reason) => return Directive::Invalid(reason),
            },
            "trusted_networks" => return add(&mut self.trusted_networks, value),
            "internal_networks" => return add(&mut self.internal_networks, value),
            "msa_networks" => return add(&mut self.submission_networks, value),
            "clear_trusted_networks" => self.trusted_networks = Networks::loopback(),
            "clear_internal_networks" => self.internal_networks = Networks::loopback(),
            "clear_msa_networks" => self.submission_networks = Networks::default(),
            "originating_ip_headers" => {
                self.originating_ip_fields
                    .extend(value.split_ascii_whitespace().map(str::to_owned));
            }
            "clear_originating_ip_headers" => self.originating_ip_fields.clear(),
            "uridnsbl_skip_domain" => {
                let words = value.split_ascii_whitespace().map(str::to_ascii_lowercase);
                self.skipped_link_domains.extend(words);
            }
            "clear_uridnsbl_skip_domain" => {
                for word in value.split_ascii_whitespace().map(str::to_ascii_lowercase) {
                    self.skipped_link_domains.remove(&word);
                }
                if value.trim().is_empty() {
                    self.skipped_link_domains.clear();
                }
            }
            "envelope_sender_header" => {
                let field = value.trim().trim_end_matches(':');
                self.envelope_sender_field =
                    Some(field.to_owned()).filter(|field| !field.is_empty());
            }
            _ => {
                let taken = self.senders.directive(name, value);
                return taken.unwrap_or_else(|| self.lists.directive(name, value));
            }
        }
        Directive::Taken
    }

    /// Patterns of links that lead to other links; their group 1 is the other link.
    pub(crate) fn redirectors(&self) -> &[Pattern] {
        &self.redirectors
    }
}

fn add(networks: &mut Networks, value: &str) -> Directive {
    match networks.add(value) {
        Ok(()) => Directive::Taken,
        Err(reason) => Directive::Invalid(reason),
    }
}
