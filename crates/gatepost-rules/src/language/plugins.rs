//! The plugins and features for rule files: `loadplugin`, `ifplugin`, `if can(…)`.
//!
//! A file checks whether a plugin is loaded before it defines rules with it. The results are those
//! of SpamAssassin with the same `loadplugin` lines, since other results would select other
//! branches of the files. Which functions can run is decided by `eval`.

/// The version of the rule language.
pub(crate) const LANGUAGE_VERSION: f64 = 4.000_001;
/// The same version, as templates print it.
pub(crate) const LANGUAGE_VERSION_TEXT: &str = "4.0.1";
/// The Perl version that SpamAssassin would run on.
pub(crate) const PERL_VERSION: f64 = 5.036_000;

const PREFIX: &str = "Mail::SpamAssassin::Plugin::";

/// The plugins of SpamAssassin 4.0, without their prefix, sorted; `true` where Debian's files load
/// it, which applies to folders without any `loadplugin` line.
const PLUGINS: &[(&str, bool)] = &[
    ("ASN", false),
    ("AWL", false),
    ("AccessDB", false),
    ("AntiVirus", false),
    ("AskDNS", true),
    ("AuthRes", false),
    ("AutoLearnThreshold", true),
    ("Bayes", true),
    ("BodyEval", true),
    ("BodyRuleBaseExtractor", false),
    ("Check", true),
    ("DCC", false),
    ("DKIM", true),
    ("DMARC", true),
    ("DNSEval", true),
    ("DecodeShortURLs", false),
    ("ExtractText", false),
    ("FreeMail", true),
    ("FromNameSpoof", false),
    ("HTMLEval", true),
    ("HTTPSMismatch", true),
    ("HashBL", true),
    ("HeaderEval", true),
    ("ImageInfo", true),
    ("MIMEEval", true),
    ("MIMEHeader", true),
    ("OLEVBMacro", false),
    ("OneLineBodyRuleType", false),
    ("PDFInfo", false),
    ("Phishing", false),
    ("Pyzor", true),
    ("Razor2", true),
    ("RelayCountry", false),
    ("RelayEval", true),
    ("ReplaceTags", true),
    ("ResourceLimits", false),
    ("Reuse", false),
    ("Rule2XSBody", false),
    ("SPF", true),
    ("Shortcircuit", false),
    ("SpamCop", true),
    ("TextCat", false),
    ("TxRep", false),
    ("URIDNSBL", true),
    ("URIDetail", true),
    ("URIEval", true),
    ("URILocalBL", false),
    ("VBounce", true),
    ("WLBLEval", true),
    ("WelcomeListSubject", true),
];

/// The features that `can()` and `has()` recognise, by module without its prefix.
const FEATURES: &[(&str, &[&str])] = &[
    (
        "Conf",
        &[
            "feature_bayes_auto_learn_on_error",
            "feature_bayes_stopwords",
            "feature_blocklist_welcomelist",
            "feature_bug6558_free",
            "feature_capture_rules",
            "feature_compile_regexp",
            "feature_dns_block_rule",
            "feature_dns_local_ports_permit_avoid",
            "feature_dns_query_restriction",
            "feature_edns",
            "feature_geodb",
            "feature_get_host",
            "feature_header_address_parser",
            "feature_header_first_last",
            "feature_header_match_many",
            "feature_local_tests_only",
            "feature_meta_rules_matching",
            "feature_originating_ip_headers",
            "feature_registryboundaries",
            "feature_subjprefix",
            "feature_uri_host_listed",
            "feature_welcomelist_blocklist",
            "feature_yesno_takes_args",
            "has_tflags_nolog",
            "has_tflags_nosubject",
            "perl_min_version_5010000",
        ],
    ),
    (
        "Plugin::ASN",
        &[
            "has_asn_geodb",
            "has_asn_lookup_ipv6",
            "has_check_asn",
            "has_check_asn_tag",
        ],
    ),
    ("Plugin::AskDNS", &["has_tag_header"]),
    (
        "Plugin::BodyEval",
        &["has_check_body_length", "has_plaintext_body_sig_ratio"],
    ),
    ("Plugin::DKIM", &["has_arc"]),
    (
        "Plugin::DNSEval",
        &["has_tflags_domains_only", "has_tflags_ips_only"],
    ),
    (
        "Plugin::DecodeShortURLs",
        &[
            "has_autoclean",
            "has_clear",
            "has_get",
            "has_max_redirections",
            "has_short_url",
            "has_short_url_code",
            "has_short_url_redir",
            "has_timeout",
            "has_user_agent",
        ],
    ),
    (
        "Plugin::HashBL",
        &[
            "has_hashbl_attachments",
            "has_hashbl_bodyre",
            "has_hashbl_bodyre_num",
            "has_hashbl_email_domain",
            "has_hashbl_email_domain_alias",
            "has_hashbl_email_regex",
            "has_hashbl_email_welcomelist",
            "has_hashbl_email_whitelist",
            "has_hashbl_emails",
            "has_hashbl_ignore",
            "has_hashbl_sha256",
            "has_hashbl_tag",
            "has_hashbl_uris",
        ],
    ),
    (
        "Plugin::MIMEEval",
        &[
            "has_check_abundant_unicode_ratio",
            "has_check_for_ascii_text_illegal",
            "has_check_qp_ratio",
        ],
    ),
    (
        "Plugin::MIMEHeader",
        &[
            "has_all_header",
            "has_capture_rules",
            "has_tflags_concat",
            "has_tflags_multiple",
            "has_tflags_range",
        ],
    ),
    (
        "Plugin::OLEVBMacro",
        &[
            "has_olemacro_mhtml_uri",
            "has_olemacro_redirect_uri",
            "has_olertfobject",
        ],
    ),
    ("Plugin::Pyzor", &["has_fork", "has_perl"]),
    ("Plugin::Razor2", &["has_fork"]),
    (
        "Plugin::SPF",
        &[
            "has_check_for_spf_errors",
            "has_check_spf_skipped_noenvfrom",
        ],
    ),
    (
        "Plugin::URIDNSBL",
        &[
            "has_subtest_for_ranges",
            "has_tflags_domains_only",
            "has_tflags_notrim",
            "has_uridnsbl_a_ns",
            "has_uridnsbl_for_a",
            "has_uridnsbl_skip_mailto",
        ],
    ),
    ("Plugin::URIDetail", &["has_host_key"]),
];

/// The loaded plugins, and the enabled compatibility flags.
#[derive(Debug, Default)]
pub(crate) struct LoadedPlugins {
    loaded: Vec<&'static str>,
    compatible: Vec<String>,
}

/// No plugin has this name.
pub(crate) struct UnknownPlugin;

impl LoadedPlugins {
    /// The plugins that Debian's files load.
    pub(crate) fn usual() -> Self {
        let usual = PLUGINS.iter().filter(|(_, usual)| *usual);
        Self {
            loaded: usual.map(|(name, _)| *name).collect(),
            compatible: Vec::new(),
        }
    }

    /// `loadplugin`.
    pub(crate) fn load(&mut self, module: &str) -> Result<(), UnknownPlugin> {
        let name = find(module).ok_or(UnknownPlugin)?;
        if !self.loaded.contains(&name) {
            self.loaded.push(name);
        }
        Ok(())
    }

    /// `enable_compat`.
    pub(crate) fn enable_compatibility(&mut self, flag: &str) {
        self.compatible.push(flag.to_owned());
    }

    /// `plugin(…)`.
    pub(crate) fn is_loaded(&self, module: &str) -> bool {
        // Folders test for this plugin, which no longer exists, to disable old rules.
        module == "Mail::SpamAssassin::Plugin::RaciallyCharged"
            || find(module).is_some_and(|name| self.loaded.contains(&name))
    }

    /// `can(…)` and `has(…)`.
    pub(crate) fn can(&self, feature: &str) -> bool {
        let Some((module, feature)) = feature
            .strip_prefix("Mail::SpamAssassin::")
            .and_then(|path| path.rsplit_once("::"))
        else {
            return false;
        };
        if module == "Conf" {
            if let Some(flag) = feature.strip_prefix("compat_") {
                return self.compatible.iter().any(|on| on == flag);
            }
        } else if !self.is_loaded(&format!("Mail::SpamAssassin::{module}")) {
            return false;
        }
        FEATURES
            .iter()
            .any(|(name, features)| *name == module && features.contains(&feature))
    }
}

/// The name in the table, with the names that older files use.
fn find(module: &str) -> Option<&'static str> {
    let name = match module.strip_prefix(PREFIX)? {
        "Dmarc" => "DMARC",
        "WhiteListSubject" => "WelcomeListSubject",
        name => name,
    };
    PLUGINS
        .iter()
        .map(|(known, _)| *known)
        .find(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_mean_the_new_plugins() {
        let mut plugins = LoadedPlugins::default();
        assert!(plugins.load("Mail::SpamAssassin::Plugin::Dmarc").is_ok());
        assert!(plugins.is_loaded("Mail::SpamAssassin::Plugin::DMARC"));
        assert!(plugins.load("Some::Other").is_err());
    }

    #[test]
    fn a_feature_of_a_plugin_needs_the_plugin() {
        let feature = "Mail::SpamAssassin::Plugin::DKIM::has_arc";
        assert!(!LoadedPlugins::default().can(feature));
        assert!(LoadedPlugins::usual().can(feature));
        assert!(LoadedPlugins::default().can("Mail::SpamAssassin::Conf::feature_edns"));
    }
}
