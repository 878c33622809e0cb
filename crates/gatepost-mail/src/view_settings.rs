//! Directives of rule files for the views: networks, registrar boundaries, redirectors.

use super::domain::RegistrarBoundaries;
use super::limits::MailLimits;
use super::network::Networks;
use super::pattern::MailPattern;

/// The settings from rule files that the views depend on.
#[derive(Clone, Debug)]
pub struct ViewSettings {
    /// Limits on parsing; from the settings, not from a rule file.
    pub limits: MailLimits,
    /// Top-level domains and domains of registrars: `util_rb_tld` and others.
    pub boundaries: RegistrarBoundaries,
    redirectors: Vec<MailPattern>,
    /// `trusted_networks`.
    pub trusted_networks: Networks,
    pub(crate) internal_networks: Networks,
    pub(crate) submission_networks: Networks,
    pub(crate) originating_ip_fields: Vec<String>,
    pub(crate) envelope_sender_field: Option<String>,
    /// Text parts are decoded from the character set that they declare: `normalize_charset`.
    pub(crate) decodes_charsets: bool,
    /// The text of one part in a `body` view, in characters: `body_part_scan_size`.
    pub(crate) body_part_length_max: usize,
    /// The text of one part in a `rawbody` view, in bytes: `rawbody_part_scan_size`.
    pub(crate) rawbody_part_length_max: usize,
}

/// The defaults of `body_part_scan_size` and `rawbody_part_scan_size`.
const BODY_PART_LENGTH_MAX: usize = 50_000;
const RAWBODY_PART_LENGTH_MAX: usize = 500_000;

impl Default for ViewSettings {
    fn default() -> Self {
        let originating = [
            "X-Yahoo-Post-IP",
            "X-Originating-IP",
            "X-Apparently-From",
            "X-SenderIP",
        ];
        Self {
            limits: MailLimits::default(),
            boundaries: RegistrarBoundaries::default(),
            redirectors: Vec::new(),
            trusted_networks: Networks::loopback(),
            internal_networks: Networks::loopback(),
            submission_networks: Networks::default(),
            originating_ip_fields: originating.map(str::to_owned).to_vec(),
            envelope_sender_field: None,
            decodes_charsets: true,
            body_part_length_max: BODY_PART_LENGTH_MAX,
            rawbody_part_length_max: RAWBODY_PART_LENGTH_MAX,
        }
    }
}

/// The result of processing a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// The directive was processed.
    Taken,
    /// The directive is unknown.
    Unknown,
    /// The value of the directive is invalid, with the reason.
    Invalid(String),
}

impl ViewSettings {
    /// Processes one line of a rule file: the directive and the rest after the first blank.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let words = value
            .split_ascii_whitespace()
            .map(|word| Box::from(word.to_ascii_lowercase()));
        match name {
            "util_rb_tld" => self.boundaries.top_level.extend(words),
            "util_rb_2tld" => self.boundaries.second.extend(words),
            "util_rb_3tld" => self.boundaries.third.extend(words),
            "clear_util_rb" => self.boundaries = RegistrarBoundaries::default(),
            "redirector_pattern" => match MailPattern::compile(value) {
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
            "envelope_sender_header" => {
                let field = value.trim().trim_end_matches(':');
                self.envelope_sender_field =
                    Some(field.to_owned()).filter(|field| !field.is_empty());
            }
            "normalize_charset" => match value.trim().to_ascii_lowercase().as_str() {
                "1" | "yes" => self.decodes_charsets = true,
                "0" | "no" => self.decodes_charsets = false,
                _ => return Directive::Invalid("it takes 0 or 1".to_owned()),
            },
            "body_part_scan_size" => return set_length(&mut self.body_part_length_max, value),
            "rawbody_part_scan_size" => {
                return set_length(&mut self.rawbody_part_length_max, value);
            }
            _ => return Directive::Unknown,
        }
        Directive::Taken
    }

    /// Configured networks that no set of trusted networks contains: the set, the network, and the
    /// set in which it is missing.
    pub fn untrusted_networks(&self) -> Vec<(&'static str, String, &'static str)> {
        let (trusted, internal) = (&self.trusted_networks, &self.internal_networks);
        let (whole, name) = match (trusted.configured, internal.configured) {
            (true, _) => (trusted, "trusted_networks"),
            (false, true) => (internal, "internal_networks"),
            (false, false) => return Vec::new(),
        };
        let sets = [
            ("internal_networks", internal),
            ("msa_networks", &self.submission_networks),
        ];
        let of_set = |(set, networks): (&'static str, &Networks)| {
            let outside = networks.outside(whole).into_iter();
            outside.map(move |network| (set, network, name))
        };
        sets.into_iter().flat_map(of_set).collect()
    }

    /// Patterns of links that redirect to other links; group 1 is the other link.
    pub(crate) fn redirectors(&self) -> &[MailPattern] {
        &self.redirectors
    }
}

/// Sets a length; 0 stands for no limit.
fn set_length(length_max: &mut usize, value: &str) -> Directive {
    match value.trim().parse() {
        Ok(0) => *length_max = usize::MAX,
        Ok(length) => *length_max = length,
        Err(_) => return Directive::Invalid(format!("{value} is not a number")),
    }
    Directive::Taken
}

fn add(networks: &mut Networks, value: &str) -> Directive {
    match networks.add(value) {
        Ok(()) => Directive::Taken,
        Err(reason) => Directive::Invalid(reason),
    }
}
