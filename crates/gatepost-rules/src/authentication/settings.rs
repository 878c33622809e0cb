//! Directives about senders: welcome lists of authenticated senders, signing practices of domains,
//! lists of networks and hashes.

use std::collections::{HashMap, HashSet};

use gatepost_mail::{Directive, MailPattern};

use crate::eval::glob;

/// Shorter keys are ignored, unless `dkim_minimum_key_bits` says otherwise.
const KEY_BITS_MIN: usize = 1024;

/// An author who is welcome with a valid signature of a particular domain.
#[derive(Debug, Clone)]
pub(crate) struct WelcomeSigner {
    /// The author as written in the file; it identifies the entry for removal.
    text: String,
    pub(crate) author: MailPattern,
    /// The signing domain; the author's own domain if empty.
    pub(crate) signer: String,
}

/// A DNS zone that maps addresses to networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkZone {
    pub(crate) zone: String,
    /// The template tags for the numbers and the routes.
    pub(crate) number_tag: String,
    pub(crate) route_tag: String,
}

/// The settings of rules about senders.
#[derive(Debug, Clone)]
pub(crate) struct SenderSettings {
    pub(crate) signers: Vec<WelcomeSigner>,
    pub(crate) default_signers: Vec<WelcomeSigner>,
    /// A domain's signing practice by its first letter or its number, as in `check_dkim_adsp`.
    pub(crate) practices: HashMap<String, char>,
    pub(crate) key_bits_min: usize,
    pub(crate) ignores_received_spf: bool,
    pub(crate) newest_received_spf: bool,
    pub(crate) trusts_envelope_sender: bool,
    pub(crate) networks_v4: Vec<NetworkZone>,
    pub(crate) networks_v6: Vec<NetworkZone>,
    /// The prefix of a network's number.
    pub(crate) network_prefix: String,
    /// Texts, and their hashes, that are never queried.
    pub(crate) hashes_ignored: HashSet<String>,
    /// The pattern of addresses.
    pub(crate) hashed_addresses: Option<AddressPattern>,
    /// Addresses that are never queried, since they belong to a role rather than a person.
    pub(crate) addresses_not_hashed: Option<MailPattern>,
    /// Aliases of mail domains.
    pub(crate) mail_domains: HashMap<String, String>,
    /// The mail domains that are queried, by the name of the choice.
    pub(crate) mail_domain_choices: HashMap<String, HashMap<String, bool>>,
}

impl Default for SenderSettings {
    fn default() -> Self {
        Self {
            signers: Vec::new(),
            default_signers: Vec::new(),
            practices: HashMap::new(),
            key_bits_min: KEY_BITS_MIN,
            ignores_received_spf: false,
            newest_received_spf: false,
            trusts_envelope_sender: false,
            networks_v4: Vec::new(),
            networks_v6: Vec::new(),
            network_prefix: "AS".to_owned(),
            hashes_ignored: HashSet::new(),
            hashed_addresses: None,
            addresses_not_hashed: None,
            mail_domains: HashMap::new(),
            mail_domain_choices: HashMap::new(),
        }
    }
}

impl SenderSettings {
    /// Processes one line of a rule file.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Directive {
        let value = value.trim();
        let current = name.replace("whitelist", "welcomelist");
        match current.as_str() {
            "welcomelist_from_dkim" => return push(&mut self.signers, value),
            "def_welcomelist_from_dkim" => return push(&mut self.default_signers, value),
            "unwelcomelist_from_dkim" => {
                let (address, signer) =
                    value.split_once(char::is_whitespace).unwrap_or((value, ""));
                for list in [&mut self.signers, &mut self.default_signers] {
                    list.retain(|known| {
                        !known.text.eq_ignore_ascii_case(address)
                            || !known.signer.eq_ignore_ascii_case(signer.trim())
                    });
                }
            }
            "adsp_override" => return self.practice(value),
            "dkim_minimum_key_bits" => match value.parse() {
                Ok(bits) => self.key_bits_min = bits,
                Err(_) => return invalid("it is not a number of bits"),
            },
            "ignore_received_spf_header" => self.ignores_received_spf = is_yes(value),
            "use_newest_received_spf_header" => self.newest_received_spf = is_yes(value),
            "always_trust_envelope_sender" => self.trusts_envelope_sender = is_yes(value),
            "asn_lookup" => return push_zone(&mut self.networks_v4, value),
            "asn_lookup_ipv6" => return push_zone(&mut self.networks_v6, value),
            "clear_asn_lookups" => {
                self.networks_v4.clear();
                self.networks_v6.clear();
            }
            "asn_prefix" => value
                .trim_matches(['\'', '"'])
                .clone_into(&mut self.network_prefix),
            other => return self.hash_directive(other, value),
        }
        Directive::Taken
    }

    /// Processes a line of SpamAssassin's plugin HashBL.
    fn hash_directive(&mut self, name: &str, value: &str) -> Directive {
        match name {
            "hashbl_ignore" => {
                let words = value.split_whitespace().map(str::to_ascii_lowercase);
                self.hashes_ignored.extend(words);
            }
            "hashbl_email_regex" => match AddressPattern::new(value) {
                Ok(pattern) => self.hashed_addresses = Some(pattern),
                Err(reason) => return Directive::Invalid(reason),
            },
            "hashbl_email_welcomelist" => match MailPattern::with_flags(value, "") {
                Ok(pattern) => self.addresses_not_hashed = Some(pattern),
                Err(reason) => return Directive::Invalid(reason),
            },
            "hashbl_email_domain_alias" => {
                let lower = value.to_ascii_lowercase();
                let mut words = lower.split_whitespace();
                let (Some(domain), false) = (words.next(), value.contains('@')) else {
                    return invalid("it takes a domain and its other names");
                };
                for alias in words {
                    self.mail_domains
                        .insert(alias.to_owned(), domain.to_owned());
                }
            }
            other => {
                let Some(choice) = other.strip_prefix("hashbl_acl_") else {
                    return Directive::Unknown;
                };
                let choice = self
                    .mail_domain_choices
                    .entry(choice.to_owned())
                    .or_default();
                for word in value.to_ascii_lowercase().split_whitespace() {
                    match word.strip_prefix('!') {
                        Some(domain) => choice.insert(domain.to_owned(), false),
                        None => choice.insert(word.to_owned(), true),
                    };
                }
            }
        }
        Directive::Taken
    }

    fn practice(&mut self, value: &str) -> Directive {
        let lower = value.trim_start_matches('@').to_ascii_lowercase();
        let (domain, practice) = lower
            .split_once(char::is_whitespace)
            .unwrap_or((&lower, ""));
        let practice = match practice.trim() {
            "" | "discardable" => 'D',
            "nxdomain" => 'N',
            "unknown" => 'U',
            "all" => 'A',
            "custom_low" => '1',
            "custom_med" => '2',
            "custom_high" => '3',
            _ => {
                return invalid(
                    "there are nxdomain, unknown, all, discardable, custom_low, custom_med and \
                     custom_high",
                );
            }
        };
        self.practices.insert(domain.to_owned(), practice);
        Directive::Taken
    }
}

/// The pattern of addresses in `hashbl_email_regex`.
#[derive(Clone, Debug)]
pub(crate) struct AddressPattern {
    pub(crate) pattern: MailPattern,
    /// The pattern contained `_TLDS_`: the address must end in an existing top-level domain.
    pub(crate) ends_in_domain: bool,
}

impl AddressPattern {
    fn new(text: &str) -> Result<Self, String> {
        const DOMAIN: &str = "_TLDS_";
        // The longest candidate; the boundaries decide whether it is valid.
        let body = text.replace(DOMAIN, r"(?:[A-Za-z0-9-]+(?![A-Za-z0-9-]|\.[A-Za-z0-9]))");
        Ok(Self {
            pattern: MailPattern::with_flags(&body, "")?,
            ends_in_domain: text.contains(DOMAIN),
        })
    }
}

fn is_yes(value: &str) -> bool {
    matches!(value, "1" | "yes")
}

fn invalid(reason: &str) -> Directive {
    Directive::Invalid(reason.to_owned())
}

fn push(list: &mut Vec<WelcomeSigner>, value: &str) -> Directive {
    let mut words = value.split_whitespace();
    let (Some(address), signer, None) = (words.next(), words.next(), words.next()) else {
        return invalid("it takes an address and perhaps a signing domain");
    };
    match glob(&address.to_ascii_lowercase()) {
        Ok(author) => list.push(WelcomeSigner {
            text: address.to_owned(),
            author,
            signer: signer.unwrap_or_default().to_ascii_lowercase(),
        }),
        Err(reason) => return Directive::Invalid(reason),
    }
    Directive::Taken
}

/// `zone [_NUMBERTAG_ _ROUTETAG_]`.
fn push_zone(list: &mut Vec<NetworkZone>, value: &str) -> Directive {
    let words: Vec<&str> = value.split_whitespace().collect();
    let tag = |word: &str| {
        let inner = word
            .strip_prefix('_')
            .and_then(|word| word.strip_suffix('_'));
        inner.map(str::to_owned)
    };
    let (zone, number_tag, route_tag) = match words[..] {
        [zone] => (zone, Some("ASN".to_owned()), Some("ASNCIDR".to_owned())),
        [zone, number, route] => (zone, tag(number), tag(route)),
        _ => return invalid("it takes a zone and perhaps two tags, as _ASN_ _ASNCIDR_"),
    };
    let (Some(number_tag), Some(route_tag)) = (number_tag, route_tag) else {
        return invalid("a tag stands between underscores");
    };
    list.push(NetworkZone {
        zone: zone.trim_end_matches('.').to_ascii_lowercase(),
        number_tag,
        route_tag,
    });
    Directive::Taken
}
